"""Blocking connections over sockets that follow a script: what is set, read, sent and closed, by name and number."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.errors import ClosedError, ConfigError, ConnectError, ConnectionLost, CorruptFrame, RequestTimeout
from rocketmq_py.protocol.headers.base import NoHeader
from rocketmq_py.remoting import blocking as module
from rocketmq_py.remoting.blocking import BlockingConnection, DirectConnections, open_socket
from rocketmq_py.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

Read = bytes | BaseException
RESET = ConnectionResetError(104, "Connection reset by peer")


class Steps:
    """A socket that gives these bytes or errors, one for each read; ``refuses``: the error of every write."""

    def __init__(self, *reads: Read, refuses: BaseException | None = None, no_options: OSError | None = None) -> None:
        self.reads = list(reads)
        self.refuses, self.no_options = refuses, no_options
        self.done: list[tuple[Any, ...]] = []
        self.sent = b""

    def setblocking(self, flag: bool) -> None:
        self.done.append(("blocking", flag))

    def settimeout(self, seconds: float) -> None:
        self.done.append(("timeout", seconds))

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        if self.no_options is not None:
            raise self.no_options
        assert level == socket.SOL_SOCKET
        self.done.append((option, value))

    def sendall(self, data: bytes) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.sent += data

    def recv(self, size: int, flags: int = 0) -> bytes:
        self.done.append(("read", size, flags))
        found = self.reads.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    def close(self) -> None:
        self.done.append(("close",))

    @property
    def closed(self) -> bool:
        return ("close",) in self.done

    @property
    def requests(self) -> list[Command]:
        return [decode_command(frame) for frame in FrameDecoder().feed(self.sent)]


class TlsSteps(Steps, ssl.SSLSocket):  # type: ignore[misc]
    """The same as a TLS socket."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clock of the module, which stands at ``now``."""
    stands = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: stands.now))
    return stands


def response(opaque: int, code: int = 0, body: bytes = b"") -> bytes:
    return encode_command(Command(code, opaque, RESPONSE_FLAG, body=body))


def framed(opaque: int) -> bytes:
    return encode_command(Command(1, opaque, body=b"x"))


def over(steps: Steps, timeout: float = 5.0) -> BlockingConnection:
    return BlockingConnection("h:1", steps, timeout)  # type: ignore[arg-type]


def kernel(seconds: int, microseconds: int) -> list[tuple[int, bytes]]:
    value = struct.pack("@ll", seconds, microseconds)
    return [(socket.SO_RCVTIMEO, value), (socket.SO_SNDTIMEO, value)]


# -- timeouts


@pytest.mark.skipif(module.os.name == "nt", reason="it has other options")
def test_each_read_of_an_answer_has_the_time_that_is_left(clock: SimpleNamespace) -> None:
    class Slow(Steps):
        def recv(self, size: int, flags: int = 0) -> bytes:
            clock.now += 0.5
            return super().recv(size, flags)

    read = ("read", 1_048_576, 0)
    steps = Slow(response(0)[:9], response(0)[9:20], response(0)[20:], response(1)[:9], response(1)[9:])
    connection = over(steps, 3.0)
    connection.exchange(framed, 101.75)
    assert steps.done[1:] == [*kernel(1, 750_000), read, *kernel(1, 250_000), read, *kernel(0, 750_000), read]
    steps.done.clear()
    connection.send([(1, {}, b"")])
    connection.receive()
    assert steps.done == [*kernel(3, 0), read, read], "any byte gives it as much time again"
    assert connection.used == 102.0


@pytest.mark.skipif(module.os.name == "nt", reason="it has other options")
def test_the_shortest_time_is_set_too(clock: SimpleNamespace) -> None:
    steps = Steps(response(0))
    over(steps).exchange(framed, 100.0078125)
    assert steps.done[1:3] == kernel(0, 10_000)


@pytest.mark.skipif(module.os.name == "nt", reason="it has other options")
def test_the_kernel_gets_the_time_that_is_left_when_it_changes(clock: SimpleNamespace) -> None:
    steps = Steps(response(0), response(1)[:9], response(1)[9:], response(2))
    connection = over(steps)
    assert steps.done == [("blocking", True)]
    connection.exchange(framed, 101.5)
    assert steps.done[1:] == [*kernel(1, 500_000), ("read", 1_048_576, 0)]
    steps.done.clear()
    clock.now = 101.0
    connection.exchange(framed, 102.5)
    assert steps.done == [("read", 1_048_576, 0)] * 2, "as much is left as before"
    steps.done.clear()
    connection.exchange(framed, 103.255)
    assert steps.done == [*kernel(2, 260_000), ("read", 1_048_576, 0)], "in hundredths of a second, rounded up"
    assert connection.used == 101.0


def test_a_timeout_of_windows_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "os", SimpleNamespace(name="nt"))
    assert module._time_option(2.26) == struct.pack("@L", 2260)


@pytest.mark.skipif(module.os.name == "nt", reason="it has other options")
def test_a_timeout_never_has_a_million_microseconds() -> None:
    assert module._time_option(1.9999999) == struct.pack("@ll", 1, 999_999)


def test_tls_gets_a_timeout_of_python(clock: SimpleNamespace) -> None:
    steps = TlsSteps(response(0))
    connection = over(steps)
    connection.exchange(framed, 101.5)
    assert steps.done == [("timeout", 1.5), ("read", 1_048_576, 0)]


@pytest.mark.parametrize("deadline", [99.0, 100.0])
def test_no_request_is_sent_when_no_time_is_left(clock: SimpleNamespace, deadline: float) -> None:
    steps = Steps()
    with pytest.raises(RequestTimeout, match="no time is left for a request to h:1"):
        over(steps).exchange(framed, deadline)
    assert steps.sent == b""


# -- the end


@pytest.mark.parametrize(
    ("steps", "kind", "words"),
    [
        (Steps(BlockingIOError()), RequestTimeout, "h:1 did not answer in time"),
        (Steps(TimeoutError()), RequestTimeout, "h:1 did not answer in time"),
        (Steps(refuses=BlockingIOError()), RequestTimeout, "h:1 did not read a request in time"),
        (Steps(refuses=TimeoutError()), RequestTimeout, "h:1 did not read a request in time"),
        (
            Steps(refuses=BrokenPipeError(32, "Broken pipe")), ConnectionLost,
            "the connection to h:1 ended: [Errno 32] Broken pipe without a reason; does it require TLS",
        ),
        (
            Steps(b""), ConnectionLost,
            "the connection to h:1 ended: the peer closed it without a reason; does it require TLS (the option tls)?",
        ),
        (
            TlsSteps(b""), ConnectionLost,
            "the connection to h:1 ended: the peer closed it without a reason; it may require a client certificate",
        ),
        (TlsSteps(ssl.SSLError("bad record")), ConnectionLost, "the connection to h:1 ended: TLS: bad record"),
        (Steps(response(0)[:9], b""), ConnectionLost, "the connection to h:1 ended: the peer closed it$"),
        (
            Steps(response(0)[:9], RESET), ConnectionLost,
            "the connection to h:1 ended: [Errno 104] Connection reset by peer$",
        ),
        (
            Steps(b"HTTP/1.1 400 Bad Request\r\n"), ConnectionLost,
            "the connection to h:1 ended: a frame of 1213486160 bytes is announced, the limit is 16777216",
        ),
        (Steps(no_options=OSError(9, "Bad file descriptor")), ConnectionLost, "the connection to h:1 ended: [Errno 9]"),
    ],
)  # fmt: skip
def test_an_error_ends_the_connection_and_says_why(
    clock: SimpleNamespace, steps: Steps, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as caught:
        over(steps).exchange(framed, 101.0)
    assert (str(caught.value) + "$").startswith(words)
    assert steps.closed


def test_a_peer_that_is_silent_is_named_with_the_timeout(clock: SimpleNamespace) -> None:
    steps = Steps(response(5)[:9], TimeoutError())
    connection = over(steps, 2.5)
    connection.send([(1, {}, b"")])
    with pytest.raises(RequestTimeout, match=r"h:1 did not answer within 2\.5 s"):
        connection.receive()
    assert steps.closed


def test_another_protocol_ends_a_connection_with_several_requests(clock: SimpleNamespace) -> None:
    steps = Steps(b"HTTP/1.1 400 Bad Request\r\n")
    connection = over(steps)
    connection.send([(1, {}, b"")])
    with pytest.raises(CorruptFrame, match="not a RocketMQ peer"):
        connection.receive()
    assert steps.closed


def test_answers_to_earlier_requests_are_dropped_by_a_call(clock: SimpleNamespace) -> None:
    steps = Steps(response(0, body=b"early") + response(1, body=b"mine") + response(2, body=b"late"))
    connection = over(steps)
    assert not connection.arrived
    for body in (b"early", b"second"):
        connection.send([(1, {"n": "1"}, body)])
    assert connection.in_flight == 2
    connection.send([(1, {}, b"third")])
    assert connection.receive().body == b"early"
    assert connection.arrived
    steps.reads = [response(3, body=b"call")]
    assert connection.call(1, NoHeader(), b"x").body == b"call"
    assert not connection.arrived
    assert [(request.opaque, request.ext, request.body) for request in steps.requests] == [
        (0, {"n": "1"}, b"early"), (1, {"n": "1"}, b"second"), (2, {}, b"third"), (3, {}, b"x"),
    ]  # fmt: skip


# -- whether a connection that was idle is still open


@pytest.mark.parametrize(
    ("idle", "reads", "alive", "done"),
    [
        (0.99, [], True, []),
        (1.0, [BlockingIOError()], True, [("blocking", False), ("read", 1, socket.MSG_PEEK), ("blocking", True)]),
        (1.0, [b""], False, [("blocking", False), ("read", 1, socket.MSG_PEEK)]),
        (1.0, [b"x"], False, [("blocking", False), ("read", 1, socket.MSG_PEEK)]),
        (1.0, [RESET], False, [("blocking", False), ("read", 1, socket.MSG_PEEK)]),
    ],
)
def test_an_idle_connection_is_looked_at_after_a_second(
    clock: SimpleNamespace, idle: float, reads: list[Read], alive: bool, done: list[tuple[Any, ...]]
) -> None:
    clock.now = 0.0
    steps = Steps(*reads)
    connection = over(steps)
    steps.done.clear()
    clock.now = idle
    assert connection.is_alive() is alive
    assert steps.done == done


def test_an_idle_tls_connection_has_nothing_to_read(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = TlsSteps()
    connection = over(steps)
    clock.now = 200.0
    for readable in ([], [steps]):
        monkeypatch.setattr(module.select, "select", lambda *given, readable=readable: (readable, given, ()))
        assert connection.is_alive() is not bool(readable)
    monkeypatch.setattr(module.select, "select", lambda *given: ((), (), ()) if given == ([steps], (), (), 0) else 1)
    assert connection.is_alive()


# -- making connections


def test_an_address_that_cannot_be_reached_comes_with_a_hint_unless_tls_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[OSError] = []

    def fails(host: str, port: int, timeout: float, tls: object) -> None:
        assert (host, port, timeout, tls) == ("h", 1, 2.5, "tls")
        raise faults[-1]

    monkeypatch.setattr(module, "open_socket", fails)
    cases = [
        ("h:1", OSError(111, "x"), "Is it on?", "cannot connect to h:1: Connection refused. Is it on?"),
        ("h:1", OSError(111, "x"), "", "cannot connect to h:1: Connection refused"),
        ("h:1", ssl.SSLError("no shared cipher"), "Is it on?", "cannot connect to h:1: TLS: no shared cipher"),
        (
            "h", OSError(), "Is it on?",
            "cannot connect to h: 'h' is not an address: host:port is expected, for example 127.0.0.1:9876. Is it on?",
        ),
    ]  # fmt: skip
    for address, fault, hint, words in cases:
        faults.append(fault)
        with pytest.raises(ConnectError) as caught:
            BlockingConnection.connect(address, 2.5, tls="tls", hint=hint)  # type: ignore[arg-type]
        assert str(caught.value) == words


class Opened:
    """Stands in for the sockets that are opened: a script for each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *scripts: Steps | OSError) -> None:
        self.scripts = list(scripts)
        self.asked: list[tuple[Any, ...]] = []
        monkeypatch.setattr(module, "open_socket", self._open)

    def _open(self, *asked: Any) -> Steps:
        self.asked.append(asked)
        script = self.scripts.pop(0)
        if isinstance(script, OSError):
            raise script
        return script


class Pool:
    """What the connections use of the client's asyncio pool."""

    connect_timeout = 3.0
    tls = "tls"

    def where(self, address: str) -> tuple[str, int]:
        if address == "bad":
            raise ConfigError("bad is not an address")
        return "mapped", 7

    def cannot_connect(self, address: str, why: object) -> ConnectError:
        return ConnectError(f"{address}: {why}")


@pytest.fixture
def shared(clock: SimpleNamespace) -> DirectConnections:
    return DirectConnections(Pool())  # type: ignore[arg-type]


@pytest.mark.parametrize(("left", "timeout"), [(60.0, 3.0), (2.0, 2.0), (-1.0, 0.001)])
def test_connecting_takes_no_longer_than_the_request(
    shared: DirectConnections, monkeypatch: pytest.MonkeyPatch, left: float, timeout: float
) -> None:
    opened = Opened(monkeypatch, TimeoutError(), OSError(111, "refused"), Steps(response(0)))
    with pytest.raises(ConnectError, match=f"h:1: no connection within {timeout:g} s"):
        shared.exchange("h:1", framed, 100.0 + left)
    with pytest.raises(ConnectError, match=r"h:1: .*refused"):
        shared.exchange("h:1", framed, 100.0 + left)
    assert opened.asked == [("mapped", 7, timeout, "tls")] * 2
    with pytest.raises(ConfigError, match="bad is not an address"):
        shared.exchange("bad", framed, 160.0)


def test_a_connection_is_used_again_until_the_server_sends_its_clients_away(
    shared: DirectConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Steps(response(0), response(1), response(2, 1500)), Steps(response(0))
    opened = Opened(monkeypatch, first, second)
    assert [shared.exchange("h:1", framed, 105.0).code for _ in range(4)] == [0, 0, 1500, 0]
    assert (len(opened.asked), first.closed, second.closed) == (2, True, False)
    assert ("read", 4096, 0) in first.done


@pytest.mark.parametrize("fault", [RESET, KeyboardInterrupt()])
def test_a_connection_that_fails_is_closed_and_not_used_again(
    shared: DirectConnections, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    first, refusing, third = Steps(fault), Steps(refuses=fault), Steps(response(0))
    Opened(monkeypatch, first, refusing, third)
    with pytest.raises(KeyboardInterrupt if isinstance(fault, KeyboardInterrupt) else ConnectionLost):
        shared.exchange("h:1", framed, 105.0)
    with pytest.raises(KeyboardInterrupt if isinstance(fault, KeyboardInterrupt) else ConnectionLost):
        shared.oneway("h:1", framed, 105.0)
    assert shared.exchange("h:1", framed, 105.0).code == 0
    assert (first.closed, refusing.closed, third.closed) == (True, True, False)


def test_an_idle_connection_that_was_closed_meanwhile_is_replaced(
    shared: DirectConnections, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Steps(response(0), b""), Steps(response(0))
    Opened(monkeypatch, first, second)
    shared.exchange("h:1", framed, 105.0)
    clock.now = 102.0
    assert shared.exchange("h:1", framed, 105.0).opaque == 0
    assert (first.closed, second.closed) == (True, False)


def test_one_way_requests_are_not_waited_for(shared: DirectConnections, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(response(2))
    Opened(monkeypatch, steps)
    oneway: Callable[[int], bytes] = lambda opaque: encode_command(Command(1, opaque, ONEWAY_FLAG))  # noqa: E731
    for _ in range(2):
        shared.oneway("h:1", oneway, 105.0)
    assert not any(step[0] == "read" for step in steps.done)
    assert shared.exchange("h:1", framed, 105.0).opaque == 2
    assert [request.opaque for request in steps.requests] == [0, 1, 2]


def test_the_connection_that_is_idle_longest_is_closed_after_a_minute(
    shared: DirectConnections, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.now = 0.0
    connections = [over(Steps()) for _ in range(2)]
    shared._idle["h:1"] = []
    for number, connection in enumerate(connections):
        connection.used = float(number)
        shared._put_back(connection)
    steps = Steps(*[response(number) for number in range(2)])
    busy = over(steps)
    for used, closed in ((60.0, [False, False]), (60.5, [True, False]), (60.6, [True, False])):
        busy.used = used
        shared._put_back(busy)
        assert [one._socket.closed for one in connections] == closed  # type: ignore[attr-defined]
        shared._idle["h:1"].remove(busy)


def test_closing_ends_idle_connections_and_those_that_come_back(
    shared: DirectConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closing(Steps):
        def recv(self, size: int, flags: int = 0) -> bytes:
            shared.close()
            return super().recv(size, flags)

    idle, elsewhere, busy = Steps(response(0)), Steps(response(0)), Closing(response(0))
    Opened(monkeypatch, idle, elsewhere, busy)
    shared.exchange("h:1", framed, 105.0)
    shared.exchange("h:2", framed, 105.0)
    assert shared.exchange("h:3", framed, 105.0).code == 0
    assert (idle.closed, elsewhere.closed, busy.closed) == (True, True, True)
    for request in (shared.exchange, shared.oneway):
        with pytest.raises(ClosedError, match="this client is closed; make a new one"):
            request("h:1", framed, 105.0)
    shared.close()


# -- sockets


class Tls:
    def __init__(self, fault: BaseException | None = None) -> None:
        self.fault = fault

    def wrap_socket(self, sock: socket.socket, *, server_hostname: str) -> tuple[socket.socket, str]:
        if self.fault is not None:
            raise self.fault
        return sock, server_hostname


def test_a_socket_is_wrapped_for_its_host_or_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    def create(where: tuple[str, int], timeout: float) -> socket.socket:
        assert (where, timeout) == (("h", 1), 2.5)
        made.append(socket.socket())
        return made[-1]

    monkeypatch.setattr(socket, "create_connection", create)
    try:
        assert open_socket("h", 1, 2.5, None) is made[0]
        assert open_socket("h", 1, 2.5, Tls()) == (made[1], "h")  # type: ignore[arg-type]
        for fault in (ssl.SSLError("bad"), KeyboardInterrupt()):
            with pytest.raises(type(fault)):
                open_socket("h", 1, 2.5, Tls(fault))  # type: ignore[arg-type]
            assert made[-1].fileno() == -1
        assert all(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in made[:2])
    finally:
        for one in made:
            one.close()


def test_a_new_connection_counts_as_used_now() -> None:
    before = time.monotonic()
    assert before <= over(Steps()).used <= time.monotonic()
