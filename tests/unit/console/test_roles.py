"""What the users of a proxy may do."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from starlette.routing import Route

from rocketmq_py.console.app import create_app, create_app_of_several
from rocketmq_py.console.roles import ADMIN, OPERATOR, VIEWER, Roles
from rocketmq_py.console.security import ProxyLogin
from rocketmq_py.console.state import Console
from rocketmq_py.errors import ConfigError
from tests.unit.console.browsing import token
from tests.unit.console.memory import JSON, Cluster, MemoryConnection

FILE = """
# the team
admin: ann
operator: bob  carol # on call
operator: dave

viewer: eve
"""
OPERATING = {"/transactions", "/topics/{topic}/send", "/groups/{group}/dead/resend", "/groups/{group}/reset"}
MANAGING = {
    "/settings/change", "/access/users", "/access/users/{user}", "/new-topic", "/topics/{topic}/change",
    "/topics/{topic}/delete",
}  # fmt: skip


def test_users_have_the_role_of_their_line() -> None:
    roles = Roles(FILE)
    assert [roles.of(user) for user in ("ann", "bob", "carol", "dave", "eve", "*", "#", "on")] == [
        ADMIN, OPERATOR, OPERATOR, OPERATOR, VIEWER, None, None, None,
    ]  # fmt: skip
    everybody = Roles("viewer: *\nadmin: ann")
    assert (everybody.of("ann"), everybody.of("zoe")) == (ADMIN, VIEWER)


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "names no user"), ("# admin: ann", "names no user"), ("viewer:", "names no user"), ("ann", "line 1: write"),
     ("viewer: a\nboss: b", "line 2: write"), ("viewer: a\n\nadmin: a", "line 3: a is also viewer")],
)  # fmt: skip
def test_a_file_with_a_mistake_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Roles(text)


def test_a_file_that_cannot_be_read_or_is_too_long_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "roles"
    for data, why in ((None, "No such file"), (b"\xff", "decode"), (b"viewer: a\n" * 104_858, "is longer than")):
        if data is not None:
            file.write_bytes(data)
        with pytest.raises(ConfigError, match=why):
            Roles.read(str(file))
    file.write_bytes(b"viewer: a\n" + b"#" * (1024 * 1024 - 10))
    assert Roles.read(str(file)).of("a") == VIEWER


class Seen(NamedTuple):
    """What a user of a proxy sees: status by method and path, pages, and the console."""

    statuses: dict[tuple[str, str], int]
    pages: dict[str, str]
    console: Console


GETS = ("/", "/topics", "/topics/orders", "/groups/billing", "/groups/billing/dead", "/settings", "/access", "/audit")


def changing() -> dict[str, set[str]]:
    """Return the paths of all pages that change something, and of those that an ordinary page has, by methods."""
    app = create_app(Console(MemoryConnection(Cluster())))
    found: dict[str, set[str]] = {}
    for route in app.routes:
        if isinstance(route, Route):
            found.setdefault(route.path, set()).update(route.methods or ())
    return found


def see(user: str, *, read_only: bool = False, prefix: str = "") -> Seen:
    """Ask for every page with every method as a user."""
    statuses: dict[tuple[str, str], int] = {}
    pages: dict[str, str] = {}

    async def run() -> Console:
        name = prefix.rpartition("/")[2]
        console = Console(MemoryConnection(Cluster()), read_only=read_only, name=name, clusters=(name,))
        proxy = ProxyLogin("X-User", ["127.0.0.1"], Roles(FILE))
        app = create_app_of_several([(console, None)], (), proxy) if prefix else create_app(console, (), None, proxy)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8080", headers={"X-User": user}
        ) as browser:
            names = {"{topic}": "orders", "{group}": "billing", "{user}": "bob"}
            for path in OPERATING | MANAGING:
                address = path
                for field, value in names.items():
                    address = address.replace(field, value)
                for method in ("GET", "POST"):
                    answer = await browser.request(
                        method, prefix + address, data={"csrf": "x"} if method == "POST" else None
                    )
                    statuses[method, path] = answer.status_code
            for path in GETS:
                answer = await browser.get(prefix + path)
                statuses["GET", path] = answer.status_code
                pages[path] = answer.text
            assert (await browser.get("/static/console.css")).status_code == 200
        await console.close()
        return console

    return Seen(statuses, pages, asyncio.run(run()))


def test_these_are_all_pages_that_change_something() -> None:
    found = changing()
    assert {path for path, methods in found.items() if "POST" in methods} == OPERATING | MANAGING


@pytest.mark.parametrize("prefix", ["", "/clusters/east"])
@pytest.mark.parametrize(
    ("user", "read_only", "may"),
    [("ann", False, OPERATING | MANAGING), ("bob", False, OPERATING), ("eve", False, set()), ("ann", True, set())],
)
def test_what_a_role_may_not_do_does_not_exist_for_it(user: str, read_only: bool, may: set[str], prefix: str) -> None:
    seen = see(user, read_only=read_only, prefix=prefix)
    for path in OPERATING | MANAGING:
        status = seen.statuses["POST", path]
        assert (status in (400, 403)) if path in may else (status in (404, 405)), (path, status)
        if "GET" in changing()[path] and path != "/transactions":
            assert (seen.statuses["GET", path] in (200, 400)) == (path in may), (path, seen.statuses["GET", path])
    assert {seen.statuses["GET", path] for path in GETS} == {200}
    shown = {
        "/send": "orders/send" in seen.pages["/topics/orders"],
        "/reset": "billing/reset" in seen.pages["/groups/billing"],
        "/resend": "<button>Resend" in seen.pages["/groups/billing/dead"],
    }
    assert set(shown.values()) == {"/topics/{topic}/send" in may}, shown
    managed = {
        "new": "/new-topic" in seen.pages["/topics"],
        "change": "orders/change" in seen.pages["/topics/orders"],
        "delete": "orders/delete" in seen.pages["/topics/orders"],
        "settings": "/settings/change" in seen.pages["/settings"],
        "users": "/access/users" in seen.pages["/access"],
    }
    assert set(managed.values()) == {"/new-topic" in may}, managed


def test_a_user_without_a_role_sees_nothing() -> None:
    seen = see_refused("zoe")
    assert seen == (403, "user zoe has no role in this console; see --proxy-roles\n")


def see_refused(user: str) -> tuple[int, str]:
    async def run() -> tuple[int, str]:
        console = Console(MemoryConnection(Cluster()))
        transport = httpx.ASGITransport(create_app(console, (), None, ProxyLogin("X-User", ["127.0.0.1"], Roles(FILE))))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as browser:
            answer = await browser.get("/static/console.css", headers={"X-User": user})
        await console.close()
        return answer.status_code, answer.text

    return asyncio.run(run())


def test_the_head_of_a_page_and_every_change_name_user_and_role(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "rocketmq_py.console.audit")

    async def run() -> None:
        console = Console(MemoryConnection(Cluster()))
        proxy = ProxyLogin("X-User", ["127.0.0.1"], Roles(FILE))
        transport = httpx.ASGITransport(create_app(console, (), None, proxy))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8080", headers={"X-User": "bob"}
        ) as browser:
            assert "<span>bob (operator)</span>" in (await browser.get("/")).text
            assert "<span>bob (操作员)</span>" in (await browser.get("/?lang=zh")).text
            await browser.get("/?lang=en")
            form = {"csrf": await token(browser, "/topics/orders/send"), "body": "b"}
            assert (await browser.post("/topics/orders/send", data=form)).status_code == 200
            [change] = (await browser.get("/audit", headers=JSON)).json()["changes"]
            assert (change["who"], change["role"], change["action"]) == ("bob", OPERATOR, "send")
            assert "<td>bob</td>" in (await browser.get("/audit")).text
        await console.close()

    asyncio.run(run())
    [line] = [json.loads(record.getMessage()) for record in caplog.records]
    assert (line["who"], line["role"], line["topic"]) == ("bob", OPERATOR, "orders")
