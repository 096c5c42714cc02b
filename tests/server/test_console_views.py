"""Views of the console that show what waits, what happened, and what consumers do, on a real broker."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from typing import Any
from urllib.parse import quote

import httpx

from rocketmq_py import Admin, ConsumeFromWhere, ConsumeResult, Message, Producer, PushConsumer
from rocketmq_py.console.app import create_app
from rocketmq_py.console.connection import Connection
from rocketmq_py.console.state import Console
from rocketmq_py.properties import Property
from rocketmq_py.testing import Cluster
from tests.server.test_console import browse, fill

JSON = {"accept": "application/json"}


async def page(browser: httpx.AsyncClient, path: str, **params: str) -> dict[str, Any]:
    """The JSON answer of a page, which is also an HTML page."""
    html = await browser.get(path, params=params)
    assert html.status_code == 200, html.text
    assert "built-in method" not in html.text
    found = await browser.get(path, params=params, headers=JSON)
    assert found.status_code == 200, found.text
    return found.json()  # type: ignore[no-any-return]


def test_pages_of_what_waits_answer_on_an_idle_cluster(rocketmq: Cluster) -> None:
    async def work(browser: httpx.AsyncClient) -> None:
        assert (await page(browser, "/transactions"))["givenUp"] == []
        assert len((await page(browser, "/timers"))["hours"]) == 24
        assert (await page(browser, "/pops"))["pops"] == []
        await page(browser, "/producers")
        rates = await page(browser, "/rates")
        assert [one["name"] for one in rates["series"]] == ["broker-a:0 in", "broker-a:0 out"]
        checks = {(one["check"], one["status"]) for one in (await page(browser, "/doctor"))["checks"]}
        assert ("broker", "ok") in checks

    browse(rocketmq.namesrv, work)


def test_timed_messages_are_counted_by_the_hour_in_which_they_are_due(rocketmq: Cluster) -> None:
    topic = fill(rocketmq, 0)
    with Producer("timing", rocketmq.namesrv) as producer:
        for hours in (2, 2, 30):
            due = int(time.time() * 1000) + hours * 3_600_000 + 600_000
            producer.send(Message(topic, b"later", properties={Property.TIMER_DELIVER_MS: str(due)}))

    async def work(browser: httpx.AsyncClient) -> None:
        end = time.monotonic() + 60
        waiting: dict[str, int] = {}
        while waiting.get(topic) != 3:  # the broker moves them to the timers some time after the send
            assert time.monotonic() < end, waiting
            found = await page(browser, "/timers")
            waiting = {row["topic"]: row["waiting"] for row in found["topics"]}
        assert (found["hours"][2]["topics"][topic], found["later"]) == (2, 1)

    browse(rocketmq.namesrv, work)


def test_the_life_of_a_message_has_its_copies(rocketmq: Cluster) -> None:
    topic, group = fill(rocketmq, 0), f"g-{uuid.uuid4().hex[:12]}"
    with Admin(rocketmq.namesrv) as admin, Producer("living", rocketmq.namesrv) as producer:
        admin.create_group(group)
        admin.create_topic(f"%DLQ%{group}", 1)
        message_id = producer.send(Message(topic, b"x")).msg_id
        for queue in admin.queues(topic):
            admin.set_group_offset(group, queue, 0)
        producer.send(Message(f"%DLQ%{group}", b"x", properties={Property.UNIQUE_KEY: message_id}))
        producer.send(Message(topic, b"x", properties={Property.UNIQUE_KEY: message_id}))
        found = admin.messages_by_key(topic, message_id, unique=True)[0]

    async def work(browser: httpx.AsyncClient) -> None:
        path = f"/topics/{topic}/messages/{found.broker_name}/{found.queue_id}/{found.queue_offset}/life"
        events = (await page(browser, path))["events"]
        assert events[0]["event"] == "sent"
        assert {(one["event"], one["group"]) for one in events[1:]} == {("dead", group), ("resent_as", None)}

    browse(rocketmq.namesrv, work)


def test_a_member_shows_its_queues_limits_and_stacks(rocketmq: Cluster) -> None:
    topic, group = fill(rocketmq, 2), f"g-{uuid.uuid4().hex[:12]}"
    arrived, may_end = threading.Event(), threading.Event()

    def listener(_: Any) -> ConsumeResult:
        arrived.set()
        may_end.wait(60)
        return ConsumeResult.SUCCESS

    consumer = PushConsumer(group, rocketmq.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET, listener=listener)
    consumer.subscribe(topic)

    async def work(browser: httpx.AsyncClient) -> None:
        await asyncio.to_thread(arrived.wait, 60)
        shown = await page(browser, f"/groups/{group}")
        client = quote(shown["members"][0]["clientId"], safe="")
        member = await page(browser, f"/groups/{group}/members/{client}")
        assert member["limits"] == {"count": 1000, "mib": 100, "span": 2000}
        assert sum(row["cached"] for row in member["queues"] if row["topic"] == topic) > 0
        assert "test_console_views.py" in member["stack"]
        history = await page(browser, f"/groups/{group}/history")
        assert len(history["total"]) == len(history["at"]) == 1
        assert (await browser.get(f"/groups/{group}/members/nobody")).status_code == 404
        cost = await page(browser, f"/topics/{topic}/cost")
        assert cost["copies"] == {"broker-a": 1}

    with consumer:
        try:
            browse(rocketmq.namesrv, work)
        finally:
            may_end.set()


def test_samples_note_lags_and_changed_owners(rocketmq: Cluster) -> None:
    topic, group = fill(rocketmq, 2), f"g-{uuid.uuid4().hex[:12]}"
    with Admin(rocketmq.namesrv) as admin:
        admin.create_group(group)
        for queue in admin.queues(topic):
            admin.set_group_offset(group, queue, 0)

    async def run() -> None:
        connection = Connection(rocketmq.namesrv)
        console = Console(connection)
        transport = httpx.ASGITransport(create_app(console))
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as browser:
                path = f"/groups/{group}/history"
                assert (await page(browser, path))["total"] == [2]
                consumer = PushConsumer(group, rocketmq.namesrv, listener=lambda _: ConsumeResult.SUCCESS)
                consumer.subscribe(topic)
                await asyncio.to_thread(consumer.start)
                try:
                    while not (found := await page(browser, path))["changes"]:
                        await console.history.sample()
                finally:
                    await asyncio.to_thread(consumer.close)
                assert {one["before"] for one in found["changes"]} == {None}
        finally:
            await console.close()

    asyncio.run(run())
