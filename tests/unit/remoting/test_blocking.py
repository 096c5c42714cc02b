"""Blocking connections over sockets: several requests in flight, timeouts, signatures, the end of a connection."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import (
    ClosedError,
    ConnectError,
    ConnectionLost,
    CorruptFrame,
    PermissionDenied,
    RequestTimeout,
)
from rocketmq_py.protocol.headers.base import NoHeader
from rocketmq_py.remoting.blocking import BlockingConnection, DirectConnections
from rocketmq_py.remoting.connection_pool import ConnectionPool
from rocketmq_py.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder
from rocketmq_py.wire.signing import Credentials

Serve = Callable[[socket.socket, list[Command]], None]
"""Answers the requests of one read."""


def answer(sock: socket.socket, request: Command, code: int = 0, remark: str | None = None) -> None:
    reply = Command(code, request.opaque, RESPONSE_FLAG, remark, request.ext, request.body)
    sock.sendall(encode_command(reply))


def echo(sock: socket.socket, requests: list[Command]) -> None:
    for request in requests:
        if not request.flag & ONEWAY_FLAG:
            answer(sock, request)


@contextmanager
def peer(serve: Serve = echo) -> Iterator[tuple[str, list[Command]]]:
    """A peer's address, and the requests it has received."""
    received: list[Command] = []

    def handle(sock: socket.socket) -> None:
        frames = FrameDecoder()
        with sock:
            try:
                while data := sock.recv(1 << 16):
                    requests = [decode_command(frame) for frame in frames.feed(data)]
                    received.extend(requests)
                    serve(sock, requests)
            except OSError:
                pass  # the test has closed its end

    def accept() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=(sock,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", received
        listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def connected(address: str, timeout: float = 5, credentials: Credentials | None = None) -> Iterator[BlockingConnection]:
    connection = BlockingConnection.connect(address, timeout, credentials=credentials)
    try:
        yield connection
    finally:
        connection.close()


def test_several_requests_in_flight_are_answered_in_any_order() -> None:
    def backwards(sock: socket.socket, requests: list[Command]) -> None:
        for request in reversed(requests):
            answer(sock, request)

    with peer(backwards) as (address, _), connected(address) as connection:
        opaques = connection.send([(1, {"n": str(n)}, b"%d" % n) for n in range(3)])
        assert connection.in_flight == 3
        answers = [connection.receive() for _ in opaques]
        assert {a.opaque: (a.body, a.ext["n"]) for a in answers} == {
            opaque: (b"%d" % n, str(n)) for n, opaque in enumerate(opaques)
        }
        assert connection.in_flight == 0
        assert not connection.arrived


def test_requests_are_signed() -> None:
    with (
        peer() as (address, received),
        connected(address, credentials=Credentials("user", "secret")) as connection,
    ):
        connection.call(1, NoHeader(), b"body")
        assert received[0].ext["AccessKey"] == "user"
        assert received[0].ext["Signature"]


def test_a_request_of_the_peer_is_dropped() -> None:
    def asking(sock: socket.socket, requests: list[Command]) -> None:
        sock.sendall(encode_command(Command(40, 7)))
        echo(sock, requests)

    with peer(asking) as (address, _), connected(address) as connection:
        assert connection.call(1, NoHeader(), b"mine").body == b"mine"


def test_an_error_response_is_raised_with_the_remark_of_the_peer() -> None:
    def refuse(sock: socket.socket, requests: list[Command]) -> None:
        answer(sock, requests[0], 16, "not you")

    with (
        peer(refuse) as (address, _),
        connected(address) as connection,
        pytest.raises(PermissionDenied, match=f"code 16 from {address}: not you"),
    ):
        connection.call(1, NoHeader())


def test_a_peer_that_does_not_answer_in_time_ends_the_connection() -> None:
    with peer(lambda *_: None) as (address, _), connected(address, timeout=0.05) as connection:
        with pytest.raises(RequestTimeout, match=r"did not answer within 0\.05 s"):
            connection.call(1, NoHeader())
        with pytest.raises(ConnectionLost):
            connection.call(1, NoHeader())


def test_a_peer_that_does_not_read_in_time_ends_the_connection() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        connected(f"127.0.0.1:{listener.getsockname()[1]}", timeout=0.1) as connection,
        pytest.raises(RequestTimeout, match="did not read a request in time"),
    ):
        connection.send([(1, {}, bytes(1 << 20))] * 16)


def test_a_peer_that_closes_the_connection_is_named_with_a_hint() -> None:
    def close(sock: socket.socket, _: list[Command]) -> None:
        sock.shutdown(socket.SHUT_RDWR)

    with (
        peer(close) as (address, _),
        connected(address) as connection,
        pytest.raises(ConnectionLost, match=f"connection to {address} ended: .* without a reason; does it require TLS"),
    ):
        connection.call(1, NoHeader())


def test_another_protocol_is_named() -> None:
    def http(sock: socket.socket, _: list[Command]) -> None:
        sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with (
        peer(http) as (address, _),
        connected(address) as connection,
        pytest.raises(CorruptFrame, match="not a RocketMQ peer"),
    ):
        connection.call(1, NoHeader())


def test_a_refused_connection_is_an_error_with_the_hint() -> None:
    with peer() as (address, _):
        pass
    with pytest.raises(ConnectError, match=f"cannot connect to {address}: .*refused. Is it running"):
        BlockingConnection.connect(address, 5, hint="Is it running?")


def test_threads_reuse_the_latest_returned_connection() -> None:
    with peer() as (address, received):
        connections = DirectConnections(ConnectionPool())

        def frame(opaque: int) -> bytes:
            return encode_command(Command(1, opaque, body=b"x"))

        def exchange() -> Reply:
            return connections.exchange(address, frame, time.monotonic() + 5)

        assert [exchange().opaque for _ in range(3)] == [0, 1, 2]  # one connection counts them
        connections.oneway(address, frame, time.monotonic() + 5)
        assert exchange().opaque == 4
        assert len(received) == 5
        connections.close()
        with pytest.raises(ClosedError):
            exchange()


def test_no_answer_by_the_deadline_closes_the_shared_connection() -> None:
    silent = threading.Event()

    def serve(sock: socket.socket, requests: list[Command]) -> None:
        if silent.is_set():
            echo(sock, requests)

    with peer(serve) as (address, _):
        connections = DirectConnections(ConnectionPool())
        frame: Callable[[int], bytes] = lambda opaque: encode_command(Command(1, opaque))  # noqa: E731
        with pytest.raises(RequestTimeout):
            connections.exchange(address, frame, time.monotonic() + 0.05)
        silent.set()
        assert connections.exchange(address, frame, time.monotonic() + 5).opaque == 0  # of a new connection
        connections.close()
