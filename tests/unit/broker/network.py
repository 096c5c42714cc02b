"""Connections in memory: what an event loop connects and listens on, in the hands of the test."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any


class End(asyncio.Transport):
    """One end of a connection. ``written`` is what its protocol wrote, ``ended`` is "close", "abort" or empty.

    With ``other``, what is written arrives there in the next turn of the loop, and closing one end closes the other.
    """

    def __init__(self, protocol: Any, peer: tuple[str, int] = ("127.0.0.1", 4711)) -> None:
        super().__init__()
        self.protocol = protocol
        self.other: End | None = None
        self.options: list[tuple[int, ...]] = []
        self.written = bytearray()
        self.ended = ""
        self._peer = peer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            return SimpleNamespace(setsockopt=lambda *option: self.options.append(option))
        return {"peername": self._peer, "sockname": ("127.0.0.1", 10911)}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.ended:
            return
        self.written += data
        if self.other is not None:
            asyncio.get_running_loop().call_soon(self.other.deliver, bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def deliver(self, data: bytes) -> None:
        if not self.ended:
            self.protocol.data_received(data)

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self._end("close")

    def abort(self) -> None:
        self._end("abort")

    def break_(self) -> None:
        """The connection breaks: both ends learn of it."""
        self._end("break", ConnectionResetError("the connection broke"))

    def _end(self, how: str, why: Exception | None = None) -> None:
        if self.ended:
            return
        self.ended = how
        loop = asyncio.get_running_loop()
        loop.call_soon(self.protocol.connection_lost, why)
        if self.other is not None:
            loop.call_soon(self.other._end, how, why)


class Listener:
    """What ``create_server`` returns."""

    def __init__(self, network: Network, port: int) -> None:
        self._network, self.port = network, port
        self.sockets = [SimpleNamespace(getsockname=lambda: ("127.0.0.1", port))]

    def close(self) -> None:
        self._network.listening.pop(self.port, None)


class Network:
    """Replaces ``create_server``, ``create_connection`` and ``getaddrinfo`` of the running loop.

    ``listening``: protocol factories by port; ``taken``: ports that another process has; ``attempts``: addresses in
    the order of the attempts to connect, ``times`` those of the loop. Each of ``faults`` is raised instead of a
    connection, once.
    """

    def __init__(self) -> None:
        self.listening: dict[int, Callable[[], Any]] = {}
        self.taken: set[int] = set()
        self.attempts: list[tuple[str, int, bool]] = []
        self.times: list[float] = []
        self.faults: list[BaseException] = []
        self.ends: list[End] = []
        loop: Any = asyncio.get_running_loop()
        loop.create_server = self._create_server
        loop.create_connection = self._create_connection
        loop.getaddrinfo = self._getaddrinfo

    async def _create_server(self, factory: Callable[[], Any], host: str, port: int, **_: Any) -> Listener:
        port = port or 40_000 + len(self.listening)
        if port in self.taken or port in self.listening:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self.listening[port] = factory
        return Listener(self, port)

    async def _getaddrinfo(self, host: str, port: int | None, **_: Any) -> list[Any]:
        """Without a thread: a thread could wake the loop, which then would really wait."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (host, port or 0))]

    async def _create_connection(
        self, factory: Callable[[], Any], host: str, port: int, *, ssl: Any = None, **_: Any
    ) -> tuple[End, Any]:
        self.attempts.append((host, port, ssl is not None))
        self.times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        if self.faults:
            raise self.faults.pop(0)
        if port not in self.listening:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        here, there = End(factory(), (host, port)), End(self.listening[port](), ("10.0.0.2", 50_000 + len(self.ends)))
        here.other, there.other = there, here
        self.ends.append(here)
        here.protocol.connection_made(here)
        there.protocol.connection_made(there)
        return here, here.protocol


async def until(condition: Callable[[], object], turns: int = 10_000) -> None:
    """Let the loop run until the condition holds; a wait for a timer is one of the turns.

    :raises AssertionError: it never holds.
    """
    for turn in range(turns):
        if condition():
            return
        await asyncio.sleep(0 if turn % 10 else 0.02)
    raise AssertionError("it never came true")
