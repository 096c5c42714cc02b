"""Failures that the proxy of the testing package injects into connections."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from rocketmq_py.testing import TcpProxy

SECONDS = 240.0


class Echo:
    """A server that sends back what it gets, and counts who has left."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        self.left = threading.Semaphore(0)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer:
            try:
                while data := peer.recv(65536):
                    peer.sendall(data)
            except ConnectionError:
                pass
        self.left.release()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    with closing(Echo()) as running:
        yield running


@pytest.fixture
def proxy(echo: Echo) -> Iterator[TcpProxy]:
    with TcpProxy(echo.address) as running:
        yield running


def connected(proxy: TcpProxy) -> socket.socket:
    host, _, port = proxy.address.rpartition(":")
    return socket.create_connection((host, int(port)), SECONDS)


def exchange(peer: socket.socket, data: bytes) -> bytes:
    peer.sendall(data)
    answer = b""
    while len(answer) < len(data):
        more = peer.recv(65536)
        assert more, "the connection ended"
        answer += more
    return answer


def ended(peer: socket.socket) -> bool:
    try:
        return not peer.recv(1)
    except ConnectionError:
        return True


def test_delayed_bytes_arrive_later(proxy: TcpProxy) -> None:
    with connected(proxy) as peer:
        assert exchange(peer, b"at once") == b"at once"
        proxy.delay = 0.1
        began = time.monotonic()
        assert exchange(peer, b"later") == b"later"
        assert time.monotonic() - began >= 0.19  # there and back; loops round the time of a timer to milliseconds


def test_a_limited_connection_is_slow_and_keeps_every_byte(proxy: TcpProxy) -> None:
    proxy.bytes_per_second = 500_000
    data = bytes(range(256)) * 400
    with connected(proxy) as peer:
        began = time.monotonic()
        assert exchange(peer, data) == data
        assert time.monotonic() - began >= len(data) / 500_000


def test_a_half_open_connection_is_closed_at_one_side_only(echo: Echo, proxy: TcpProxy) -> None:
    with connected(proxy) as peer, connected(proxy) as other:
        exchange(peer, b"x")
        exchange(other, b"x")
        proxy.half_open()
        assert echo.left.acquire(timeout=SECONDS)
        assert echo.left.acquire(timeout=SECONDS)
        assert proxy.connections == 0
        peer.sendall(b"into the void")
        peer.settimeout(0.05)
        with pytest.raises(TimeoutError):
            peer.recv(1)
        with connected(proxy) as fresh:
            assert exchange(fresh, b"new ones are welcome") == b"new ones are welcome"
        proxy.heal()
        peer.settimeout(SECONDS)
        assert ended(peer)


def test_a_healed_connection_works_again(proxy: TcpProxy) -> None:
    with connected(proxy) as peer:
        proxy.silence()
        proxy.delay, proxy.bytes_per_second = 30.0, 1.0
        proxy.heal()
        assert exchange(peer, b"x" * 10_000) == b"x" * 10_000
        proxy.refuse()
    with pytest.raises(OSError, match="refused"):
        connected(proxy)
    proxy.heal()
    with connected(proxy) as peer:
        assert exchange(peer, b"x") == b"x"
