from __future__ import annotations

import asyncio
import gzip

import pytest

from rocketmq_py.server.monitoring import http
from rocketmq_py.server.monitoring.http import HEAD_LIMIT, HttpRequest, HttpServer, Malformed, Page, parse_head


def test_a_head_is_parsed():
    request = parse_head(
        b"GET /metrics?name[]=a&name[]=b&verbose HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n"
    )
    assert (request.method, request.path) == ("GET", "/metrics")
    assert request.query == {"name[]": ["a", "b"], "verbose": [""]}
    assert request.accepts("json")


@pytest.mark.parametrize(
    "head",
    [
        b"\r\n\r\n", b"GET\r\n\r\n", b"GET /a HTTP/2\r\n\r\n", b"GET a HTTP/1.1\r\n\r\n", b"get / HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"GET / HTTP/1.1\r\nbad name: x\r\n\r\n",
        b"GET / HTTP/1.1\r\na: b\0c\r\n\r\n", b"GET / HTTP/1.1\r\n a: folded\r\n\r\n", b"GET / HTTP/1.1\nA: b\r\n\r\n",
        b"GET /?" + b"&".join([b"a=1"] * 101) + b" HTTP/1.1\r\n\r\n", b"\x16\x03\x01 TLS\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_not_http_is_refused(head):
    with pytest.raises(Malformed):
        parse_head(head)


async def _page(request: HttpRequest) -> Page:
    return Page(request.path.encode() * 1000)


async def _broken(_: HttpRequest) -> Page:
    raise ValueError("a secret of the server")


def ask(sent: bytes) -> bytes:
    """The whole answer of a server with the pages /a and /broken."""

    async def main() -> bytes:
        server = HttpServer({"/a": _page, "/broken": _broken})
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(sent)
            return await reader.read()
        finally:
            writer.close()
            await server.stop()

    return asyncio.run(main())


def test_a_page_comes_compressed_if_that_is_accepted():
    plain = ask(b"GET /a HTTP/1.1\r\n\r\n")
    assert plain.startswith(b"HTTP/1.1 200 OK\r\n")
    assert plain.endswith(b"\r\n\r\n" + b"/a" * 1000)
    head, _, body = ask(b"GET /a HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n").partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in head
    assert gzip.decompress(body) == b"/a" * 1000


def test_head_returns_no_body():
    head, _, body = ask(b"HEAD /a HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")
    assert b"Content-Length: 2000\r\n" in head + b"\r\n"
    assert body == b""


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /a/../../etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"GET //a HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"405"),
        (b"GET /a HTTP/1.1\r\nX: " + b"x" * 2 * HEAD_LIMIT + b"\r\n\r\n", b"431"),
        (b"nonsense\r\n\r\n", b"400"),
    ],
)
def test_faults_have_their_status(sent, status):
    assert ask(sent).startswith(b"HTTP/1.1 " + status)


def test_a_page_that_fails_shows_nothing_of_the_server(caplog):
    answer = ask(b"GET /broken HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"secret" not in answer
    assert "cannot be made" in caplog.text


def test_a_client_that_sends_no_request_is_disconnected(monkeypatch):
    monkeypatch.setattr(http, "REQUEST_SECONDS", 0.01)
    assert ask(b"GET /a HTTP/1.1\r\n") == b""


def test_requests_and_answers_have_some_seconds():
    async def never(_: HttpRequest) -> Page:
        return await asyncio.get_running_loop().create_future()

    async def ends_after(sent: bytes) -> float:
        reader = asyncio.StreamReader()
        reader.feed_data(sent)
        begin = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError):
            await HttpServer({"/a": never})._serve(reader, None)
        return asyncio.get_running_loop().time() - begin

    assert asyncio.run(ends_after(b"GET /a HTTP/1.1\r\n")) == pytest.approx(5, abs=0.9)
    assert asyncio.run(ends_after(b"GET /a HTTP/1.1\r\n\r\n")) == pytest.approx(30, abs=0.9)


def test_a_connection_that_has_ended_leaves_room_for_another(monkeypatch):
    monkeypatch.setattr(http, "MOST_CONNECTIONS", 1)

    async def main() -> None:
        server = HttpServer({"/a": _page})
        port = await server.start("127.0.0.1", 0)
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"HEAD /a HTTP/1.1\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()
        await server.stop()

    asyncio.run(main())


def test_connections_have_a_limit(monkeypatch):
    monkeypatch.setattr(http, "MOST_CONNECTIONS", 0)
    with pytest.raises(ConnectionError):
        ask(b"GET /a HTTP/1.1\r\n\r\n")
