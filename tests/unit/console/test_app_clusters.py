"""A console of several clusters: pages under the name of each, and a switch between them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

import httpx

from rocketmq_py.console.app import create_app_of_several
from rocketmq_py.console.login import Session, Sessions
from rocketmq_py.console.security import Audit
from rocketmq_py.console.state import Console
from tests.unit.cli.messages import message
from tests.unit.console.browsing import JSON, NOW, Browser, ConsoleAdmin, MemoryConnection

HTML = {"accept": "text/html"}


def admin_of(topic: str) -> ConsoleAdmin:
    admin = ConsoleAdmin()
    admin.add_topic(topic, 2)
    admin.add_group("g")
    admin.consuming[topic] = ["g"]
    admin.add_messages(message(b"a", topic=topic, offset=0))
    return admin


def browse_several(work: Callable[[Browser, list[Console]], Awaitable[None]]) -> None:
    """Run a test with a browser of two clusters, each with a topic of its name."""

    async def run() -> None:
        names = ("east", "west")
        consoles = [
            Console(MemoryConnection(admin_of(name)), now=lambda: NOW, name=name, clusters=names,
                    audit=Audit(cluster=name))
            for name in names
        ]  # fmt: skip
        transport = httpx.ASGITransport(create_app_of_several([(console, None) for console in consoles]))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as browser:
            await work(browser, consoles)
        for console in consoles:
            await console.close()

    asyncio.run(run())


def test_each_cluster_has_its_pages_and_all_links_stay_in_it() -> None:
    async def work(browser: Browser, consoles: list[Console]) -> None:
        assert (await browser.get("/")).headers["location"] == "/clusters/east/"
        for name, other in (("east", "west"), ("west", "east")):
            base = f"/clusters/{name}"
            data = (await browser.get(f"{base}/topics", headers=JSON)).json()
            assert [row["topic"] for row in data["topics"]] == [name]
            for path in ("/", "/topics", f"/topics/{name}", f"/topics/{name}/messages", f"/topics/{name}/tail",
                         f"/topics/{name}/messages/broker-a/0/0", f"/topics/{name}/delete", "/groups", "/access",
                         "/settings", "/search?q=t", "/new-topic", "/audit"):  # fmt: skip
                page = await browser.get(base + path, headers=HTML)
                assert page.status_code == 200, (path, page.text)
                links = re.findall(r'(?:href|action|data-plot|data-heat|src)="(/[^"]*)"', page.text)
                away = {one for one in links if not one.startswith((f"{base}/", "/static/"))}
                assert away == {f"/clusters/{other}/"}, path
                assert f'href="/clusters/{name}/" aria-current="page"' in page.text
        assert (await browser.get("/clusters/north/topics")).status_code == 404
        assert (await browser.get("/topics")).status_code == 404
        assert (await browser.get("/static/console.css")).status_code == 200

    browse_several(work)


def test_redirects_and_changes_stay_in_their_cluster() -> None:
    async def work(browser: Browser, consoles: list[Console]) -> None:
        base = "/clusters/west"
        jump = await browser.get(f"{base}/topics/west/jump?queue=broker-a:0&offset=0")
        assert jump.headers["location"] == f"{base}/topics/west/messages/broker-a/0/0"
        await browser.get(f"{base}/topics/west/send")
        found = re.search(r'name="csrf" value="(\w+)"', (await browser.get(f"{base}/topics/west/send")).text)
        assert found is not None
        form = {"csrf": found[1], "body": "x"}
        assert (await browser.post("/clusters/east/topics/east/send", data=form)).status_code == 403
        assert (await browser.post(f"{base}/topics/west/send", data=form)).status_code == 200
        assert [entry["cluster"] for entry in consoles[1].audit.entries] == ["west"]
        assert not consoles[0].audit.entries

    browse_several(work)


def test_a_login_to_another_cluster_keeps_the_first_and_a_logout_ends_both() -> None:
    async def run() -> None:
        both = [Sessions(lambda _: MemoryConnection(ConsoleAdmin()), lambda: 0.0) for _ in range(2)]
        both[0].others, both[1].others = [both[1]], [both[0]]
        consoles = [Console(MemoryConnection(ConsoleAdmin())) for _ in both]
        both[0]._open["old"] = Session(consoles[0], 0.0, 0.0)
        both[1]._open["new"] = Session(consoles[1], 0.0, 0.0)
        await both[1].replace("old", "new")
        assert await both[0].find("old") is None
        assert [await one.find("new") for one in both] == consoles
        await both[0].logout_everywhere("new")
        assert [await one.find("new") for one in both] == [None, None]

    asyncio.run(run())
