"""Views of the console that show what waits, what happened, and what consumers do, on a real broker."""

from __future__ import annotations

import asyncio
import html
import re
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
    seen = await browser.get(path, params=params)
    assert seen.status_code == 200, seen.text
    assert "built-in method" not in seen.text
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


async def form_of(browser: httpx.AsyncClient, path: str, **params: str) -> dict[str, Any]:
    """The hidden fields of the form that changes something."""
    text = (await browser.get(path, params=params)).text
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text)
    return {**dict(found), "seen": [html.unescape(value) for name, value in found if name == "seen"]}


def test_a_setting_a_user_and_a_permission_are_changed(rocketmq: Cluster) -> None:
    user = f"u{uuid.uuid4().hex[:8]}"

    async def work(browser: httpx.AsyncClient) -> None:
        await page(browser, "/settings")  # which gives the browser its cookie
        old = (await page(browser, "/settings/change", key="fileReservedTime"))["rows"][0]["from"]
        for value in ("71", old):
            form = await form_of(browser, "/settings/change", key="fileReservedTime", value=value)
            answer = await browser.post("/settings/change", data=form, headers=JSON)
            assert [row["error"] for row in answer.json()["results"]] == [None], answer.text
            rows = (await page(browser, "/settings", q="fileReservedTime"))["settings"]
            assert [row["value"] for row in rows] == [value]
        csrf = {"csrf": form["csrf"]}
        path = f"/access/users/{user}"
        for target, fields in (
            ("/access/users", {"user": user, "password": "a-secret"}), (path, {"do": "disable"}),
            (path, {"do": "allow", "resources": "Topic:t Group:g", "action": ["Pub", "Sub"]}),
            (path, {"do": "forget", "resource": "Group:g"}),
        ):  # fmt: skip
            answer = await browser.post(target, data={**csrf, **fields}, headers=JSON)
            assert answer.json()["results"] == [{"broker": "*", "error": None}], answer.text
        shown = await page(browser, path)
        assert (shown["status"], [row["resource"] for row in shown["rules"]]) == ("disable", ["Topic:t"])
        await browser.post(path, data={**csrf, "do": "delete", "name": user})
        assert (await browser.get(path)).status_code == 404

    browse(rocketmq.namesrv, work)


def test_a_topic_is_made_changed_watched_and_deleted(rocketmq: Cluster) -> None:
    topic = f"made-{uuid.uuid4().hex[:8]}"

    async def work(browser: httpx.AsyncClient) -> None:
        await page(browser, "/topics")
        form = await form_of(browser, "/new-topic", topic=topic, read="2", write="2", type="FIFO")
        answer = await browser.post("/new-topic", data=form | {"topic": topic}, headers=JSON)
        assert [row["error"] for row in answer.json()["results"]] == [None], answer.text
        first = await page(browser, f"/topics/{topic}/tail")
        with Producer("watched", rocketmq.namesrv) as producer:
            await asyncio.to_thread(producer.send_ordered, Message(topic, b"now", sharding_key="k"))
        found = await page(browser, f"/topics/{topic}/tail", at=first["at"])
        assert ([row["body"] for row in found["messages"]], found["skipped"]) == (["now"], 0)
        form = await form_of(browser, f"/topics/{topic}/change", perm="r")
        answer = await browser.post(f"/topics/{topic}/change", data=form, headers=JSON)
        assert [row["error"] for row in answer.json()["results"]] == [None], answer.text
        [config] = (await page(browser, f"/topics/{topic}"))["configs"]
        assert (config["perm"], config["readQueues"], config["attributes"]) == ("r", 2, {"message.type": "FIFO"})
        answer = await browser.post(f"/topics/{topic}/delete", data={"csrf": form["csrf"], "name": topic}, headers=JSON)
        assert [row["error"] for row in answer.json()["results"]] == [None], answer.text
        assert (await browser.get(f"/topics/{topic}")).status_code == 404

    browse(rocketmq.namesrv, work)


def test_a_pull_that_waits_is_shown(rocketmq: Cluster) -> None:
    topic, group = fill(rocketmq, 0), f"g-{uuid.uuid4().hex[:12]}"
    consumer = PushConsumer(group, rocketmq.namesrv, listener=lambda _: ConsumeResult.SUCCESS)
    consumer.subscribe(topic)

    async def work(browser: httpx.AsyncClient) -> None:
        end = time.monotonic() + 60
        while len((found := await page(browser, "/holds", topic=topic, group=group))["holds"]) < 2:
            assert time.monotonic() < end, found
        assert {(row["kind"], row["queue"]) for row in found["holds"]} == {("pull", 0), ("pull", 1)}
        assert found["untold"] == []

    with consumer:
        browse(rocketmq.namesrv, work)
