"""A plain socket that exchanges frames, for requests that no client sends."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

T = TypeVar("T")

SECONDS = 240.0
"""Longer than any answer takes; only a test that fails waits for it."""


class RawPeer:
    """One connection: ``with RawPeer("127.0.0.1:9876") as peer``."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), SECONDS)
        self._frames = FrameDecoder()
        self._received: list[Command] = []

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> Command:
        """The next command; an assertion fails when the connection ends first."""
        while not self._received:
            data = self._socket.recv(1 << 20)
            assert data, "the connection was closed"
            self._received += map(decode_command, self._frames.feed(data))
        return self._received.pop(0)

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", **fields: int) -> Command:
        """The answer to one request."""
        self.send(encode_command(Command(code, ext=ext or {}, body=body, **fields)))
        return self.receive()

    def within(self, seconds: float, act: Callable[[], T]) -> T:
        """Do something with a shorter wait; TimeoutError when the other end stays silent."""
        self._socket.settimeout(seconds)
        try:
            return act()
        finally:
            self._socket.settimeout(SECONDS)

    @property
    def is_closed(self) -> bool:
        """Whether the other end has closed the connection."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def leave(self) -> None:
        """Close this end and wait until the other end has closed too."""
        self._socket.shutdown(socket.SHUT_WR)
        self.wait_closed()

    def wait_closed(self) -> None:
        """Returns when the other end has closed the connection; what comes before that is dropped."""
        try:
            while self._socket.recv(1 << 20):
                pass
        except ConnectionResetError:
            pass

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
