"""The console over HTTP, on a port of its own."""

from __future__ import annotations

import asyncio
import socket

import pytest

from rocketmq_py.console.server import _listen, serve
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


def test_a_port_that_is_taken_is_named() -> None:
    with _listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            _listen("127.0.0.1", port)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6")
def test_it_listens_on_an_ipv6_address() -> None:
    with _listen("::1", 0) as listening:
        assert listening.family == socket.AF_INET6
