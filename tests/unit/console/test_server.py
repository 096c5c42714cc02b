"""The console over HTTP, on a port of its own."""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import Any, Self

import httpx
import pytest
import uvicorn

from rocketmq_py.console import server as module
from rocketmq_py.console.figures import Figures
from rocketmq_py.console.server import Https, _listen, serve
from rocketmq_py.errors import ConfigError
from tests.unit.console.browsing import ConsoleAdmin, MemoryConnection


async def fetched(address: str, host: str) -> str:
    where, _, port = address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(where.strip("[]"), int(port))
    writer.write(f"GET /audit HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode().partition("\r\n")[0]


def test_it_serves_until_it_is_told_to_end() -> None:
    told: list[str] = []
    lines: list[str] = []
    closed: list[bool] = []

    async def until() -> None:
        lines.extend([await fetched(told[0], host) for host in ("localhost", "other", "mine")])

    async def main() -> None:
        connection = MemoryConnection(ConsoleAdmin())
        close = connection.close

        async def noted() -> None:
            closed.append(True)
            await close()

        connection.close = noted  # type: ignore[method-assign]
        await serve(
            connection, host="127.0.0.1", port=0, read_only=True, hosts=["mine"], on_ready=told.append, until=until
        )

    asyncio.run(main())
    assert lines == ["HTTP/1.1 200 OK", "HTTP/1.1 421 Misdirected Request", "HTTP/1.1 200 OK"]
    assert closed == [True]


def test_hundreds_of_connections_that_stay_open_keep_nobody_out() -> None:
    told: list[str] = []
    lines: list[bytes] = []

    async def until() -> None:
        port = int(told[0].rpartition(":")[2])
        browsers = []
        for _ in range(300):  # each asks at once: a connection without a request is closed after some seconds
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            browsers.append((reader, writer))
            writer.write(b"GET /audit HTTP/1.1\r\nHost: localhost\r\n\r\n")
            lines.append(await reader.readline())
        lines.append((await fetched(told[0], "localhost")).encode() + b"\r\n")
        for _, writer in browsers:
            writer.close()

    asyncio.run(
        serve(
            MemoryConnection(ConsoleAdmin()), host="127.0.0.1", port=0, read_only=True, hosts=[],
            on_ready=told.append, until=until,
        )
    )  # fmt: skip
    assert lines == [b"HTTP/1.1 200 OK\r\n"] * 301


def test_a_port_that_is_taken_is_named() -> None:
    with _listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            _listen("127.0.0.1", port)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6")
def test_it_listens_on_an_ipv6_address() -> None:
    with _listen("::1", 0) as listening:
        assert listening.family == socket.AF_INET6


class Listening:
    """A socket that listens nowhere."""

    closed = False

    def getsockname(self) -> tuple[str, int]:
        return "somewhere", 7

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True


class Uvicorn:
    """A server that serves nobody until it should exit."""

    made: list[Uvicorn]

    def __init__(self, config: Any) -> None:
        self.config, self.should_exit = config, False
        self.sockets: list[Any] = []
        self.made.append(self)

    async def serve(self, sockets: list[Any]) -> None:
        self.sockets = sockets
        if not self.config.loaded:  # as uvicorn does: it makes a context, or none, of the options for TLS
            self.config.load()
        while not self.should_exit:  # noqa: ASYNC110 - as uvicorn does
            await asyncio.sleep(0)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> type[Uvicorn]:
    monkeypatch.setattr(module, "_listen", lambda host, port: Listening())
    monkeypatch.setattr(module, "_Server", Uvicorn)
    monkeypatch.setattr(Uvicorn, "made", [], raising=False)
    return Uvicorn


@pytest.mark.parametrize(
    ("host", "tls", "address"),
    [("127.0.0.1", False, "http://127.0.0.1:7"), ("::1", True, "https://[::1]:7"), ("h", True, "https://h:7")],
)
def test_it_is_served_with_these_options(
    nowhere: type[Uvicorn], monkeypatch: pytest.MonkeyPatch, host: str, tls: bool, address: str
) -> None:
    context, told, closed = object(), list[str](), list[bool]()
    monkeypatch.setattr(Https, "context", lambda _: context)

    async def until() -> None:
        return None

    async def main() -> None:
        connection = MemoryConnection(ConsoleAdmin())

        async def close() -> None:
            closed.append(True)

        connection.close = close  # type: ignore[method-assign]
        await serve(
            connection, host=host, port=0, read_only=True, hosts=[], on_ready=told.append, until=until,
            https=Https("cert.pem") if tls else None,
        )  # fmt: skip

    asyncio.run(main())
    [server] = nowhere.made
    config = server.config
    assert (told, closed, server.should_exit, server.sockets[0].closed) == ([address], [True], True, True)
    assert config.ssl is context if tls else not config.is_ssl
    assert (config.log_config, config.access_log, config.server_header, config.lifespan, config.proxy_headers) == (
        None, False, False, "off", False,
    )  # fmt: skip
    assert (config.timeout_keep_alive, config.limit_concurrency, config.timeout_graceful_shutdown, config.ws) == (
        10, 2048, 5, "none",
    )  # fmt: skip


def test_it_has_a_login_if_somebody_can_connect_and_counts_where_it_is_told(nowhere: type[Uvicorn]) -> None:
    figures, made, ended = Figures(), list[Any](), list[bool]()

    async def main() -> None:
        def connect(credentials: object) -> MemoryConnection:
            made.append(credentials)
            return MemoryConnection(ConsoleAdmin())

        async def until() -> None:
            transport = httpx.ASGITransport(nowhere.made[0].config.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7") as browser:
                for path, code in (("/login", 200), ("/topics", 303)):
                    assert (await browser.get(path)).status_code == code
                assert (await browser.post("/groups/g/reset", data={"a": "b"})).status_code == 401
            ended.append(True)

        await serve(
            MemoryConnection(ConsoleAdmin()), host="127.0.0.1", port=0, read_only=False, hosts=[], connect=connect,
            figures=figures, on_ready=lambda _: None, until=until,
        )  # fmt: skip

    asyncio.run(main())
    assert (ended, made) == ([True], [])
    assert b'page="login.form"' in figures.exposition(0)


def test_it_serves_until_its_server_ends_if_nothing_else_ends_it(nowhere: type[Uvicorn]) -> None:
    async def main() -> None:
        serving = asyncio.ensure_future(
            serve(MemoryConnection(ConsoleAdmin()), host="h", port=0, read_only=True, hosts=[], on_ready=lambda _: None)
        )
        for _ in range(5):
            await asyncio.sleep(0)
        assert not serving.done()
        nowhere.made[0].should_exit = True
        await serving

    asyncio.run(main())


def test_a_certificate_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"missing\.pem"):
        Https("missing.pem").context()
    assert (Https("a").key, Https("a").password) == (None, None)


def test_signals_are_left_to_the_process() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with module._Server(uvicorn.Config(None)).capture_signals():  # type: ignore[arg-type]
        assert signal.getsignal(signal.SIGTERM) is before
