from __future__ import annotations

import asyncio
import gzip
import logging

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


def test_sixty_four_connections_are_the_limit():
    assert http.MOST_CONNECTIONS == 64


@pytest.mark.parametrize(("size", "status"), [(8_192, b"200"), (8_193, b"431")])
def test_a_head_has_at_most_eight_kib(size, status):
    start = b"HEAD /a HTTP/1.1\r\nX: "
    assert ask(start + b"x" * (size - len(start)) + b"\r\n\r\n").startswith(b"HTTP/1.1 " + status)


def test_a_query_has_at_most_a_hundred_fields():
    request = parse_head(b"GET /?" + b"&".join([b"a=1"] * 100) + b" HTTP/1.1\r\n\r\n")
    assert len(request.query["a"]) == 100


def test_names_of_fields_are_in_lower_case_and_values_without_blanks():
    request = parse_head(b"GET / HTTP/1.0\r\nACCEPT: \t application/JSON \r\nX:\xe4\r\n\r\n")
    assert request.fields == {"accept": "application/JSON", "x": "\xe4"}
    assert (request.accepts("json"), request.accepts("xml")) == (True, False)
    assert HttpRequest("GET", "/", {}, {}).accepts("json") is False


class Writer:
    """Notes what is done with a connection."""

    def __init__(self):
        self.sent, self.done = b"", []

    def write(self, data):
        self.sent += data
        self.done.append("write")

    async def drain(self):
        self.done.append("drain")

    def close(self):
        self.done.append("close")

    async def wait_closed(self):
        self.done.append("wait_closed")


def sent(page, request=None):
    writer = Writer()
    asyncio.run(HttpServer({})._send(writer, page, request))
    assert writer.done == ["write", "drain", "close", "wait_closed"]
    head, _, body = writer.sent.partition(b"\r\n\r\n")
    return head.decode(), body


def test_an_answer_has_its_header():
    head, body = sent(Page(b"hello\n", 503))
    assert head.split("\r\n") == [
        "HTTP/1.1 503 Service Unavailable", "Content-Type: text/plain; charset=utf-8", "Content-Length: 6",
        "Connection: close", "Cache-Control: no-store", "X-Content-Type-Options: nosniff",
    ]  # fmt: skip
    assert body == b"hello\n"


@pytest.mark.parametrize(("size", "accepted", "is_compressed"), [
    (1_023, "gzip", False), (1_024, "br, gzip", True), (1_024, "br", False),
])  # fmt: skip
def test_bodies_from_a_kib_on_are_compressed_fast(size, accepted, is_compressed):
    head, body = sent(Page(b"x" * size), HttpRequest("GET", "/", {}, {"accept-encoding": accepted}))
    assert ("Content-Encoding: gzip" in head) is is_compressed
    assert (len(body) < 100) is is_compressed
    if is_compressed:
        assert body[8] == 4, "gzip notes that its fastest algorithm was used"
        assert f"Content-Length: {len(body)}" in head


def test_other_methods_and_pages_are_named():
    assert ask(b"POST /a HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\nonly GET and HEAD are possible\n")
    assert ask(b"GET /b HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\npages are: /a /broken\n")


def test_a_server_that_stops_ends_its_connections(caplog):
    caplog.set_level(logging.DEBUG, http.__name__)

    async def main() -> None:
        server = HttpServer({"/a": _page})
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(1_000):
            if server._running:
                break
            await asyncio.sleep(0)
        assert len(server._running) == 1
        await server.stop()
        assert server._running == set()
        assert [type(reason) for record in caplog.records for reason in record.args] == [asyncio.CancelledError]
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(OSError, match=r".*"):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(main())
    asyncio.run(HttpServer({}).stop())


def test_requests_behind_the_first_of_a_connection_are_not_answered():
    answer = ask(b"GET /a HTTP/1.1\r\n\r\n" * 20)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.endswith(b"/a" * 1000)
    assert b"Connection: close\r\n" in answer


async def _large(_: HttpRequest) -> Page:
    return Page(b"0123456789abcdef" * 65_536)


def test_large_pages_come_in_pieces_as_fast_as_they_are_read():
    for accepted, read in (("identity", bytes), ("gzip", gzip.decompress)):
        request = HttpRequest("GET", "/", {}, {"accept-encoding": accepted})
        writer = Writer()
        asyncio.run(HttpServer({})._send(writer, asyncio.run(_large(request)), request))
        head, _, body = writer.sent.partition(b"\r\n\r\n")
        assert read(body) == b"0123456789abcdef" * 65_536
        assert f"Content-Length: {len(body)}".encode() in head
        pieces = 4 if accepted == "identity" else 1
        assert writer.done == ["write", "drain"] * pieces + ["close", "wait_closed"]


def test_other_pages_are_answered_while_one_is_compressed():
    async def main() -> int:
        packing = asyncio.ensure_future(http._compressed(b"x" * (5 * http._PIECE)))
        turns = 0
        while not packing.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(main()) >= 5


@pytest.mark.parametrize(("limit", "status"), [(1 << 20, b"503"), ((2 << 20) - 1, b"503"), (2 << 20, b"200")])
def test_clients_that_do_not_read_hold_bounded_memory(monkeypatch, limit, status):
    monkeypatch.setattr(http, "UNREAD_LIMIT", limit)

    class Stuck(Writer):
        async def drain(self):
            await asyncio.Event().wait()

    async def main() -> bytes:
        server, page = HttpServer({}), await _large(None)
        stuck = asyncio.ensure_future(server._send(Stuck(), page))
        await asyncio.sleep(0)
        writer = Writer()
        await server._send(writer, page)
        stuck.cancel()
        await asyncio.gather(stuck, return_exceptions=True)
        assert server._unread == 0
        after = Writer()
        await server._send(after, page)
        assert after.sent.startswith(b"HTTP/1.1 200")
        return writer.sent

    answer = asyncio.run(main())
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.endswith(b"other clients have not read their answers\n") is (status == b"503")


def test_unread_answers_have_64_mib_and_one_may_have_more(monkeypatch):
    assert http.UNREAD_LIMIT == 64 * 1024 * 1024
    monkeypatch.setattr(http, "UNREAD_LIMIT", 10)
    assert ask(b"GET /a HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200")
