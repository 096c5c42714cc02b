"""The console's pages on a real broker: what they say, what they change, and what they refuse."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from rocketmq_py import Admin, Message, MessageQueue, Producer
from rocketmq_py.console.app import create_app
from rocketmq_py.console.connection import Connection
from rocketmq_py.console.security import check_bind
from rocketmq_py.console.state import Console
from rocketmq_py.errors import ConfigError
from rocketmq_py.properties import Property
from rocketmq_py.testing import Cluster

JSON = {"accept": "application/json"}
SCRIPT = "<script>alert(1)</script>"


def browse(namesrv: str, work: Callable[[httpx.AsyncClient], Awaitable[Any]], *, read_only: bool = False) -> Any:
    """Run a test with a browser of the console, which keeps cookies and executes nothing."""

    async def run() -> Any:
        connection = Connection(namesrv)
        transport = httpx.ASGITransport(create_app(Console(connection, read_only=read_only)))
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as browser:
                return await work(browser)
        finally:
            await connection.close()

    return asyncio.run(run())


def fill(cluster: Cluster, count: int = 3, **named: Any) -> str:
    topic = f"t-{uuid.uuid4().hex[:12]}"
    with Admin(cluster.namesrv) as admin, Producer("filler", cluster.namesrv) as producer:
        admin.create_topic(topic, 2)
        for number in range(count):
            producer.send(Message(topic, b'{"n":%d}' % number, **named), MessageQueue(topic, "broker-a", number % 2))
    return topic


def dead_letter(cluster: Cluster, origin: str) -> str:
    """A group with one dead letter that came from a topic."""
    group = f"g-{uuid.uuid4().hex[:12]}"
    with Admin(cluster.namesrv) as admin, Producer("filler", cluster.namesrv) as producer:
        admin.create_group(group)
        admin.create_topic(f"%DLQ%{group}", 1)
        dead = Message(f"%DLQ%{group}", SCRIPT, keys="order-1")
        dead.properties[Property.RETRY_TOPIC] = origin
        producer.send(dead)
    return group


def token_in(page: httpx.Response) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert found is not None
    return found[1]


def test_pages_answer_html_json_and_csv(rocketmq: Cluster) -> None:
    topic = fill(rocketmq, keys="order-1")

    async def work(browser: httpx.AsyncClient) -> None:
        for path in (
            "/",
            "/topics",
            f"/topics/{topic}",
            f"/topics/{topic}/messages",
            "/groups",
            "/search?q=t-",
            "/audit",
        ):
            page = await browser.get(path)
            assert page.status_code == 200, page.text
            assert 'href="/topics"' in page.text
            assert "built-in method" not in page.text
            assert "default-src 'none'" in page.headers["content-security-policy"]
            assert (await browser.get(path, headers=JSON)).json()
        [broker] = (await browser.get("/", headers=JSON)).json()["brokers"]
        assert (broker["broker"], broker["role"], broker["error"]) == ("broker-a", "master", None)
        table = (await browser.get(f"/topics/{topic}?format=csv")).text.splitlines()
        assert table[0].startswith("broker,queue,minOffset")
        assert table[1].startswith("broker-a,0,0,2,2,")
        assert (await browser.get("/topics/no-such-topic")).status_code == 404
        assert (await browser.get("/topics?page=x")).status_code == 400

    browse(rocketmq.namesrv, work)


def test_messages_are_found_newest_first_by_queue_and_by_id(rocketmq: Cluster) -> None:
    topic = fill(rocketmq, 5)

    async def work(browser: httpx.AsyncClient) -> None:
        url = f"/topics/{topic}/messages"
        first = (await browser.get(f"{url}?size=2", headers=JSON)).json()
        assert [row["body"] for row in first["messages"]] == ['{"n":4}', '{"n":3}']
        rest = (await browser.get(url, params={"left": first["left"]}, headers=JSON)).json()
        assert [row["body"] for row in rest["messages"]] == ['{"n":2}', '{"n":1}', '{"n":0}']
        assert rest["left"] is None
        one = (await browser.get(f"{url}/broker-a/1/0", headers=JSON)).json()["message"]
        assert one["body"]["text"] == '{\n  "n": 1\n}'
        moved = await browser.get(f"/messages/{one['offsetMsgId']}")
        assert (moved.status_code, moved.headers["location"]) == (303, f"{url}/broker-a/1/0")
        assert (await browser.get(f"{url}/broker-a/1/99")).status_code == 404
        assert (await browser.get(url, params={"until": "1h"}, headers=JSON)).json()["messages"] == []

    browse(rocketmq.namesrv, work)


def test_a_dead_letter_is_resent_after_a_preview_as_text(rocketmq: Cluster) -> None:
    topic = fill(rocketmq, 0)
    group = dead_letter(rocketmq, topic)

    async def work(browser: httpx.AsyncClient) -> None:
        page = await browser.get(f"/groups/{group}/dead")
        assert SCRIPT not in page.text
        assert "&lt;script&gt;" in page.text
        url = f"/groups/{group}/dead/resend"
        preview = await browser.get(url, params={"pick": "broker-a:0:0", "to": "topic"})
        form = {"pick": "broker-a:0:0", "to": "topic", "csrf": token_in(preview)}
        assert (await browser.post(url, data=form | {"csrf": "0" * 64})).status_code == 403
        assert (await browser.post(url, data=form, headers={"origin": "http://evil.example"})).status_code == 403
        assert (await browser.get(f"/topics/{topic}/messages", headers=JSON)).json()["messages"] == []
        result = (await browser.post(url, data=form, headers=JSON)).json()
        assert (result["sent"], result["results"][0]["topic"]) == (1, topic)
        [again] = (await browser.get(f"/topics/{topic}/messages", headers=JSON)).json()["messages"]
        assert (again["body"], again["keys"]) == (SCRIPT, "order-1")
        [dead] = (await browser.get(f"/groups/{group}/dead", headers=JSON)).json()["messages"]
        assert dead["resent"]
        assert (await browser.get("/audit", headers=JSON)).json()["changes"][0]["action"] == "resend"

    browse(rocketmq.namesrv, work)


def test_a_reset_does_what_its_preview_said_and_refuses_when_offsets_moved(rocketmq: Cluster) -> None:
    topic, group = fill(rocketmq, 4), f"g-{uuid.uuid4().hex[:12]}"
    queue = MessageQueue(topic, "broker-a", 0)
    with Admin(rocketmq.namesrv) as admin:
        admin.create_group(group)
        admin.set_group_offset(group, queue, 2)

    async def work(browser: httpx.AsyncClient) -> None:
        url = f"/groups/{group}/reset"
        await browser.get("/")  # gets the cookie
        page = await browser.get(url, params={"topic": topic, "target": "earliest"})
        plan = (await browser.get(url, params={"topic": topic, "target": "earliest"}, headers=JSON)).json()
        assert plan["totals"] | {"changed": 0} == {"again": 2, "skipped": 0, "gone": 0, "changed": 0, "queues": 2}
        form = {"csrf": token_in(page), "topic": topic, "move": "broker-a:0:1:0"}
        assert (await browser.post(url, data=form)).status_code == 409
        done = (await browser.post(url, data=form | {"move": "broker-a:0:2:0"}, headers=JSON)).json()
        assert (done["set"], done["results"][0]["error"]) == (1, None)

    browse(rocketmq.namesrv, work)
    with Admin(rocketmq.namesrv) as admin:
        assert admin.group_offset(group, queue) == 0


HOSTILE = """<img src=x onerror=alert(1)>"'><script>alert(2)</script>{{7*7}}"""


def test_names_and_properties_are_shown_as_text(rocketmq: Cluster) -> None:
    topic = fill(rocketmq, 1, keys="<b>k</b>", tags="<i>t</i>", properties={"<u>p</u>": HOSTILE})
    hostile = quote(HOSTILE, safe="")

    async def work(browser: httpx.AsyncClient) -> None:
        listed = f"/topics/{topic}/messages"
        for path in (
            listed, f"{listed}/broker-a/0/0", f"{listed}?key={hostile}", f"{listed}?tags={hostile}",
            f"/topics/{hostile}", f"/topics/{hostile}/messages", f"/topics?q={hostile}", f"/topics?kind={hostile}",
            f"/groups/{hostile}", f"/groups/{hostile}/dead", f"/groups/{hostile}/reset?topic={topic}",
            f"/groups?q={hostile}", f"/groups?sort={hostile}", f"/search?q={hostile}", f"/messages/{hostile}",
            f"/groups/g/dead/resend?pick={hostile}", f"/?lang={hostile}", f"/?{hostile}={hostile}",
        ):  # fmt: skip
            page = await browser.get(path, headers={"accept": "text/html"})
            assert page.headers["content-type"].startswith(("text/html", "text/plain")), path
            assert page.headers["x-content-type-options"] == "nosniff"
            if page.headers["content-type"].startswith("text/html"):
                for tag in ("<img", "<script>", "<b>", "<i>", "<u>"):
                    assert tag not in page.text.replace(topic, ""), (path, tag)
        message = (await browser.get(f"{listed}/broker-a/0/0")).text
        assert "{{7*7}}" in message
        assert "&lt;u&gt;p&lt;/u&gt;" in message
        assert "&lt;img src=x onerror=alert(1)&gt;" in message

    browse(rocketmq.namesrv, work)


@pytest.mark.parametrize(("site", "status"), [("same-origin", 200), ("none", 200), ("same-site", 403),
                                              ("cross-site", 403), ("", 403)])  # fmt: skip
def test_a_change_from_a_page_of_another_site_is_refused(rocketmq: Cluster, site: str, status: int) -> None:
    topic = fill(rocketmq, 0)
    group = dead_letter(rocketmq, topic)

    async def work(browser: httpx.AsyncClient) -> None:
        url = f"/groups/{group}/dead/resend"
        preview = await browser.get(url, params={"pick": "broker-a:0:0"}, headers={"sec-fetch-site": "cross-site"})
        form = {"pick": "broker-a:0:0", "csrf": token_in(preview)}
        assert (await browser.post(url, data=form, headers={"sec-fetch-site": site})).status_code == status
        sent = (await browser.get(f"/topics/{topic}/messages", headers=JSON)).json()["messages"]
        assert len(sent) == (status == 200)

    browse(rocketmq.namesrv, work)


def test_read_only_does_not_mount_what_changes(rocketmq: Cluster) -> None:
    topic = fill(rocketmq, 0)
    group = dead_letter(rocketmq, topic)

    async def work(browser: httpx.AsyncClient) -> None:
        assert "<button>Resend" not in (await browser.get(f"/groups/{group}/dead")).text
        for path in (f"/groups/{group}/dead/resend", f"/groups/{group}/reset"):
            assert (await browser.get(path)).status_code == 404
            assert (await browser.post(path, data={"pick": "broker-a:0:0"})).status_code == 404

    browse(rocketmq.namesrv, work, read_only=True)


def test_hostile_requests_are_refused(rocketmq: Cluster) -> None:
    async def work(browser: httpx.AsyncClient) -> None:
        assert (await browser.get("/", headers={"host": "evil.example"})).status_code == 421
        assert (await browser.get("/?q=" + "x" * 20_000)).status_code == 414
        url = "/groups/g/reset"
        assert (await browser.post(url, content=b"x" * 600_000)).status_code == 413
        form = {"content-type": "application/x-www-form-urlencoded"}

        async def parts() -> Any:
            for _ in range(20):
                yield b"x" * 60_000

        assert (await browser.post(url, content=parts(), headers=form)).status_code == 413
        assert (await browser.post(url, json={})).status_code == 415
        assert (await browser.post(url, data={"csrf": ""})).status_code == 403
        for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"):
            assert (await browser.get(path)).status_code == 404
        page = await browser.get("/search", params={"q": SCRIPT})
        assert SCRIPT not in page.text

    browse(rocketmq.namesrv, work)


def test_an_address_that_others_reach_is_refused() -> None:
    check_bind("127.0.0.1", insecure=False)
    check_bind("0.0.0.0", insecure=True)
    with pytest.raises(ConfigError, match="the console has no login"):
        check_bind("0.0.0.0", insecure=False)


def test_changes_are_json_lines_of_the_log(rocketmq: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    group = dead_letter(rocketmq, fill(rocketmq, 0))

    async def work(browser: httpx.AsyncClient) -> None:
        url = f"/groups/{group}/dead/resend"
        preview = await browser.get(url, params={"pick": "broker-a:0:0", "to": "group"})
        await browser.post(url, data={"pick": "broker-a:0:0", "to": "group", "csrf": token_in(preview)})

    browse(rocketmq.namesrv, work)
    [line] = [record.getMessage() for record in caplog.records if record.name == "rocketmq_py.console.audit"]
    assert json.loads(line)["group"] == group
