"""What protects the console, without a page."""

from __future__ import annotations

import asyncio
import json
import logging
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from rocketmq_py.console.app import create_app
from rocketmq_py.console.security import (
    Audit,
    Guard,
    ProxyLogin,
    Refused,
    Tokens,
    check_bind,
    cookie_of,
    is_loopback,
    new_cookie,
    read_form,
    set_cookie,
)
from rocketmq_py.console.state import Console
from rocketmq_py.errors import ConfigError
from tests.unit.console.browsing import ConsoleAdmin, MemoryConnection


class Guarded:
    """An application behind the guard that notes what reaches it."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self.guard = Guard(self._app, ["Mine", "[::2]"])

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.reached.append(scope["type"])
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})

    async def ask(self, *headers: tuple[str, str], method: str = "GET", query: bytes = b"", kind: str = "http") -> Any:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        raw = [(name.encode(), value.encode()) for name, value in headers]
        await self.guard({"type": kind, "method": method, "query_string": query, "headers": raw}, None, send)  # type: ignore[arg-type]
        return sent[0] if sent else None


LOCAL = ("host", "localhost")


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        (["localhost"], 200), (["LOCALHOST:8"], 200), (["127.0.0.1:1"], 200), (["[::1]"], 200), (["MINE"], 200),
        (["[::2]:5"], 200), ([], 421), (["localhost", "localhost"], 421), ([""], 421), (["other"], 421),
    ],
)  # fmt: skip
async def test_it_answers_to_its_names_only(hosts: list[str], status: int) -> None:
    guarded = Guarded()
    answer = await guarded.ask(*(("host", host) for host in hosts))
    assert (answer["status"], guarded.reached) == (status, ["http"] if status == 200 else [])


async def test_every_answer_is_protected_and_may_say_how_long_it_is_kept() -> None:
    guarded = Guarded()
    assert dict((await guarded.ask(LOCAL))["headers"]) == {
        b"content-security-policy": (
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        ),
        b"x-content-type-options": b"nosniff", b"referrer-policy": b"same-origin",
        b"cross-origin-opener-policy": b"same-origin", b"cross-origin-resource-policy": b"same-origin",
        b"cache-control": b"no-store",
    }  # fmt: skip
    guarded.headers = [(b"cache-control", b"max-age=5")]
    assert dict((await guarded.ask(LOCAL))["headers"])[b"cache-control"] == b"max-age=5"
    refused = dict((await guarded.ask())["headers"])
    assert (refused[b"x-content-type-options"], refused[b"cache-control"]) == (b"nosniff", b"no-store")


async def test_websockets_are_not_served_and_the_lifespan_is() -> None:
    guarded = Guarded()
    assert await guarded.ask(LOCAL, kind="websocket") is None
    await guarded.ask(LOCAL, kind="lifespan")
    assert guarded.reached == ["lifespan"]


@pytest.mark.parametrize(("length", "status"), [(16_384, 200), (16_385, 414)])
async def test_a_query_has_at_most_sixteen_kib(length: int, status: int) -> None:
    assert (await Guarded().ask(LOCAL, query=b"x" * length))["status"] == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 200), ([("content-length", "524288")], 200), ([("content-length", "524289")], 413),
        ([("content-length", "-1")], 413), ([("origin", "https://LOCALHOST")], 200), ([("origin", "null")], 403),
        ([("origin", "http://localhost:8080")], 403), ([("sec-fetch-site", "same-site")], 403),
        ([("sec-fetch-site", "none"), ("origin", "http://other")], 403),
    ],
)  # fmt: skip
async def test_changes_come_from_this_console_and_are_short(headers: list[tuple[str, str]], status: int) -> None:
    assert (await Guarded().ask(LOCAL, *headers, method="POST"))["status"] == status
    for method in ("GET", "HEAD", "OPTIONS"):
        assert (await Guarded().ask(LOCAL, *headers, method=method))["status"] == 200


def request(scheme: str = "http", body: bytes = b"", **headers: str) -> Request:
    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "scheme": scheme, "server": ("h", 1), "path": "/", "query_string": b"",
             "headers": raw}  # fmt: skip
    return Request(scope, receive)


def test_cookies_of_https_are_for_this_host_and_secure() -> None:
    value = new_cookie()
    assert len(value) == 43
    for scheme, name, more in (("http", "rocketmq_console", ""), ("https", "__Host-rocketmq_console", "; secure")):
        response = Response()
        set_cookie(request(scheme), response, value)
        expected = f"{name}={value}; httponly; path=/; samesite=strict{more}"
        assert response.headers["set-cookie"].lower() == expected.lower()
        assert cookie_of(request(scheme, cookie=f"a=b; {name}={value}")) == value
        assert cookie_of(request(scheme, cookie=f"{name}={value}x")) is None
        assert cookie_of(request(scheme, cookie=f"{name}={value[:-1]}")) is None
        assert cookie_of(request(scheme)) is None
    assert cookie_of(request("https", cookie=f"rocketmq_console={value}")) is None


def test_a_token_is_of_a_cookie_and_a_console() -> None:
    tokens, cookie = Tokens(), new_cookie()
    assert len(tokens._key) == 32
    mine = request(cookie=f"rocketmq_console={cookie}")
    tokens.check(mine, tokens.of(cookie))
    for asked, token in ((mine, "x"), (mine, ""), (mine, Tokens().of(cookie)), (request(), tokens.of(cookie))):
        with pytest.raises(Refused, match="is not from this console") as refused:
            tokens.check(asked, token)
        assert refused.value.status == 403


FORM = "application/x-www-form-urlencoded"


async def test_a_form_keeps_its_empty_fields_and_its_order() -> None:
    found = await read_form(request(body=b"b=1&a=&b=%C3%A4", content_type=f"{FORM} ; charset=utf-8"))
    assert found == [("b", "1"), ("a", ""), ("b", "\u00e4")]


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("text/plain", b"a=1", 415), (FORM, b"\xff", 400), (FORM, b"a=" + b"x" * 524_286, None),
        (FORM, b"a=" + b"x" * 524_287, 413), (FORM, b"&".join([b"a=1"] * 4_096), None),
        (FORM, b"&".join([b"a=1"] * 4_097), 400),
    ],
)  # fmt: skip
async def test_what_is_no_form_or_too_long_is_refused(kind: str, body: bytes, status: int | None) -> None:
    if status is None:
        assert await read_form(request(body=body, content_type=kind))
        return
    with pytest.raises(Refused) as refused:
        await read_form(request(body=body, content_type=kind))
    assert refused.value.status == status


def test_a_change_is_a_line_of_ascii_and_is_kept_unless_told_otherwise(caplog: pytest.LogCaptureFixture) -> None:
    audit = Audit(lambda: 5)
    asked: Any = SimpleNamespace(client=SimpleNamespace(host="h", port=1), state=SimpleNamespace(who="\u00e4"))
    with caplog.at_level(logging.WARNING, "rocketmq_py.console.audit"):
        audit.record(asked, "login", is_kept=False)
        audit.record(asked, "reset", what=[1])
    assert [dict(entry) for entry in audit.entries] == [
        {"at": 5, "from": "h:1", "who": "\u00e4", "action": "reset", "what": [1]}
    ]
    lines = [record.getMessage() for record in caplog.records]
    assert [json.loads(line)["action"] for line in lines] == ["login", "reset"]
    assert all(line.isascii() for line in lines)


def test_what_is_missing_for_others_is_named() -> None:
    assert [is_loopback(host) for host in ("::1", "[::1]", "127.9.9.9", "::", "LOCALHOST")] == [True] * 3 + [False] * 2
    check_bind("0.0.0.0", insecure=False, login=True, https=True)
    check_bind("h", insecure=True, login=False, https=False)
    for login, https, missing in ((True, False, "without TLS"), (False, True, "no login"), (False, False, "no login")):
        with pytest.raises(ConfigError, match=missing):
            check_bind("0.0.0.0", insecure=False, login=login, https=https)
    with pytest.raises(ConfigError, match="without TLS"):
        check_bind("h", insecure=False, login=True)
    with pytest.raises(ConfigError, match="no login"):
        check_bind("h", insecure=False, https=True)


# -- a proxy that knows the user


def proxied(client: tuple[str, int] | None, *names: str) -> dict[str, Any]:
    return {"type": "http", "client": client, "headers": [(b"x-user", name.encode("latin-1")) for name in names]}


def test_a_proxy_tells_the_user() -> None:
    proxy = ProxyLogin("X-User", ["10.1.0.0/16", "::1"])
    assert proxy.user(proxied(("10.1.2.3", 5), " ann ")) == "ann"
    assert proxy.user(proxied(("::1", 5), "ann")) == "ann"
    assert proxy.user(proxied(("::ffff:10.1.2.3", 5), "ann")) == "ann"


@pytest.mark.parametrize("client", [("10.2.0.1", 5), ("::2", 5), None, ("unix", 0), ("", 0)])
def test_a_name_from_elsewhere_is_refused(client: tuple[str, int] | None) -> None:
    with pytest.raises(Refused) as refused:
        ProxyLogin("X-User", ["10.1.0.0/16", "::1"]).user(proxied(client, "ann"))
    assert refused.value.status == 403


@pytest.mark.parametrize("names", [(), ("",), (" ",), ("ann", "bob"), ("a" * 256,), ("a\tb",)])
def test_a_proxy_names_exactly_one_user(names: tuple[str, ...]) -> None:
    with pytest.raises(Refused) as refused:
        ProxyLogin("X-User", ["10.1.0.1"]).user(proxied(("10.1.0.1", 5), *names))
    assert refused.value.status == 401


@pytest.mark.parametrize(("header", "sources"), [("X-User", []), ("", ["::1"]), ("X User", ["::1"]), ("X", ["x"])])
def test_a_proxy_needs_a_header_and_addresses(header: str, sources: list[str]) -> None:
    with pytest.raises(ConfigError):
        ProxyLogin(header, sources)


def test_pages_are_those_of_the_proxy_s_user() -> None:
    async def run(source: str, headers: dict[str, str]) -> tuple[int, str]:
        console = Console(MemoryConnection(ConsoleAdmin()))
        app = create_app(console, (), None, ProxyLogin("X-User", ["127.0.0.1"]))
        transport = httpx.ASGITransport(app, client=(source, 123))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as browser:
            answer = await browser.get("/audit", headers=headers)
        await console.close()
        return answer.status_code, answer.text

    code, page = asyncio.run(run("127.0.0.1", {"X-User": "ann"}))
    assert (code, "<span>ann</span>" in page, "/logout" in page) == (200, True, False)
    assert asyncio.run(run("127.0.0.1", {}))[0] == 401
    assert asyncio.run(run("127.0.0.2", {"X-User": "ann"}))[0] == 403
