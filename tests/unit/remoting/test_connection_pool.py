"""The connections of a client: who waits how long, what an error says, what is closed, and how sockets are made."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import (
    ClosedError,
    ConfigError,
    ConnectError,
    ConnectionLost,
    ForkedError,
    RequestTimeout,
    TopicNotExist,
)
from rocketmq_py.protocol.headers.group import GroupHeader
from rocketmq_py.remoting import connection_pool as module
from rocketmq_py.remoting.connection import Connection
from rocketmq_py.remoting.connection_pool import ConnectionPool, code_name
from rocketmq_py.remoting.single_flight import SingleFlight
from rocketmq_py.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, encode_command
from tests.unit.client.scripted import Answerer, ScriptedNetwork


def made(answer: Answerer = lambda *_: None, **options: Any) -> tuple[ConnectionPool, ScriptedNetwork]:
    network = ScriptedNetwork(answer)
    connections = ConnectionPool(**options)
    network.carry(connections)
    return connections, network


def test_a_client_waits_three_seconds_for_a_connection_and_uses_no_tls() -> None:
    connections = ConnectionPool()
    assert (connections.connect_timeout, connections.tls, connections.credentials) == (3.0, None, None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert ConnectionPool(tls=context).tls is context


# -- requests


async def test_a_request_without_an_answer_is_marked_and_numbered_like_others() -> None:
    connections, network = made(lambda *_: Command(0))
    await connections.oneway("h:1", 34, GroupHeader(consumer_group="g"), b"body")
    assert (await connections.invoke("h:1", 1)).opaque == 1
    (_, request), _ = network.requests
    assert (request.code, request.opaque, request.flag, request.ext, request.body) == (
        34, 0, ONEWAY_FLAG, {"consumerGroup": "g"}, b"body",
    )  # fmt: skip
    await connections.close()


async def test_an_answer_of_another_code_is_an_error_unless_the_caller_looks_at_it() -> None:
    connections, _ = made(lambda *_: Command(17, remark="no such topic"))
    with pytest.raises(TopicNotExist, match="h:1: no such topic"):
        await connections.invoke("h:1", 2)
    assert (await connections.invoke("h:1", 2, check=False)).code == 17
    await connections.close()
    with pytest.raises(ClosedError, match="this client is closed; make a new one"):
        await connections.invoke("h:1", 1)
    forked, _ = made(lambda *_: Command(0))
    forked._process._generation += 1
    with pytest.raises(ForkedError):
        await forked.get("h:1")


async def test_a_server_that_goes_away_is_asked_again_over_a_new_connection() -> None:
    answers = [Command(1500), Command(0)]
    connections, network = made(lambda *_: answers.pop(0))
    first = await connections.get("h:1")
    assert (await connections.invoke("h:1", 1)).code == 0
    assert connections.ready("h:1") is network.connections["h:1"] is not first
    assert first.closed
    connections.drop_all()
    assert connections._open == {}
    await connections.close()


async def test_both_requests_around_go_away_share_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts: list[float] = []
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))

    async def call(self: Connection, code: int, header: object, body: bytes, timeout: float) -> Reply:
        timeouts.append(timeout)
        clock.now += 0.5
        if len(timeouts) % 2 == 0:
            raise RequestTimeout("late")
        return Reply(1500, 0)

    monkeypatch.setattr(Connection, "call", call)
    connections, _ = made()
    with pytest.raises(RequestTimeout, match=r"h:1 did not answer PULL_MESSAGE \(11\) within 2 s"):
        await connections.invoke("h:1", 11, timeout=2.0)
    with pytest.raises(RequestTimeout, match=r"h:1 did not answer PULL_MESSAGE \(11\) within 3 s"):
        await connections.invoke("h:1", 11)
    assert timeouts == [2.0, 1.5, 3.0, 2.5]
    await connections.close()


# -- how long callers wait for a connection


def opening_for_ever(connections: ConnectionPool) -> list[str]:
    """Attempts to connect do not end; the addresses of those that were made."""
    attempts: list[str] = []

    async def connect(address: str) -> Connection:
        attempts.append(address)
        await asyncio.Event().wait()
        raise AssertionError

    connections._opening = SingleFlight(connect)
    return attempts


@pytest.mark.parametrize(("timeout", "waited"), [(None, 2.0), (0.5, 0.5), (9.0, 2.0), (-1.0, 0.0)])
async def test_a_connection_is_waited_for_as_long_as_the_request_may_take(timeout: float | None, waited: float) -> None:
    connections = ConnectionPool(connect_timeout=2.0)
    opening_for_ever(connections)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    with pytest.raises(ConnectError, match=f"cannot connect to h:1: no connection within {waited:g} s"):
        await connections.get("h:1", timeout)
    assert loop.time() - begin >= waited
    await connections.close()


async def test_callers_that_wait_for_a_connection_are_told_who_ended_the_attempt() -> None:
    connections = ConnectionPool()
    attempts = opening_for_ever(connections)
    waiting = asyncio.ensure_future(connections.get("h:1"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    connections.drop_all()
    with pytest.raises(ConnectionLost, match="the connection to h:1 was closed here while it was opened"):
        await waiting
    waiting = asyncio.ensure_future(connections.get("h:2"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await connections.close()
    with pytest.raises(ClosedError, match="this client was closed while it was connecting"):
        await waiting
    assert attempts == ["h:1", "h:2"]


# -- errors


def test_an_address_that_cannot_be_reached_comes_with_advice() -> None:
    asked: list[str] = []
    hinting = ConnectionPool(hint=lambda address: asked.append(address) or "Is it on?", address_map={"h:1": "there:2"})  # type: ignore[func-returns-value]
    cases: list[tuple[ConnectionPool, str, str | OSError, str]] = [
        (hinting, "h:3", "no connection within 3 s", "cannot connect to h:3: no connection within 3 s. Is it on?"),
        (hinting, "h:1", OSError(111, "x"), "cannot connect to h:1 (mapped to there:2): Connection refused. Is it on?"),
        (hinting, "h:3", ssl.SSLError("no shared cipher"), "cannot connect to h:3: TLS: no shared cipher"),
        (
            hinting, "h:3", socket.gaierror(-2, "Name or service not known"),
            "cannot connect to h:3: Name or service not known. Is the name spelt as it should be, and known from here?",
        ),
        (ConnectionPool(), "h:3", OSError(111, "x"), "cannot connect to h:3: Connection refused"),
    ]  # fmt: skip
    assert [(str(pool.cannot_connect(address, why)), words) for pool, address, why, words in cases] == [
        (words, words) for *_, words in cases
    ]
    assert asked == ["h:3", "h:1", "h:3", "h:3"]


def test_where_to_connect_is_the_mapped_address() -> None:
    connections = ConnectionPool(address_map={"h:1": "[::1]:2"})
    assert [connections.where("h:1"), connections.where("h:2")] == [("::1", 2), ("h", 2)]
    with pytest.raises(ConfigError, match="'h' is not an address"):
        connections.where("h")


@pytest.mark.parametrize(("code", "name"), [(10, "SEND_MESSAGE (10)"), (9, "request code 9")])
def test_a_request_is_named_in_messages(code: int, name: str) -> None:
    assert code_name(code) == name


# -- closing


async def test_one_connection_may_be_closed_and_is_opened_again() -> None:
    lost: list[str] = []
    connections, _ = made(lambda *_: Command(0), on_lost=lost.append)
    first, other = await connections.get("h:1"), await connections.get("h:2")
    connections.drop("h:1")
    connections.drop("h:3")
    assert (first.closed, other.closed) == (True, False)
    assert await connections.get("h:1") is not first
    assert lost == []
    await connections.close()


async def test_a_connection_that_is_lost_does_not_cost_its_successor() -> None:
    lost: list[str] = []
    connections, network = made(lambda *_: None, on_lost=lost.append)
    first = await connections.get("h:1")
    transport = network.transports["h:1"]
    call = asyncio.ensure_future(first.call(1, None, b"", 5.0))
    await asyncio.sleep(0)
    connections.retire(first)
    second = await connections.get("h:1")
    assert connections._retired == {first}
    transport.close()
    with pytest.raises(ConnectionLost):
        await call
    assert connections._retired == set()
    assert connections.ready("h:1") is second
    assert lost == ["h:1"]
    await connections.close()


async def test_a_closed_connection_is_not_ready() -> None:
    connections, _ = made()
    connection = await connections.get("h:1")
    assert connections.ready("h:1") is connection
    connection.close()
    assert connections.ready("h:1") is None
    assert connections.ready("h:2") is None
    await connections.close()


async def test_closing_waits_a_second_for_the_end_of_tls_and_cancels_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[tuple[Connection, float]] = []

    async def wait_closed(self: Connection, timeout: float) -> None:
        waited.append((self, timeout))

    monkeypatch.setattr(Connection, "wait_closed", wait_closed)
    for tls, count in ((None, 0), (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), 2)):
        ends: list[str] = []
        connections, network = made(lambda *_: None, tls=tls)

        async def endless(address: str, _: Command, ends: list[str] = ends) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ends.append(address)

        connections.on_request(40, endless)
        first, second = await connections.get("h:1"), await connections.get("h:2")
        network.transports["h:1"].deliver(encode_command(Command(40, 7)))
        call = asyncio.ensure_future(second.call(1, None, b"", 5.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        connections.retire(second)
        await connections.close()
        assert ends == ["h:1"]
        assert waited == [(first, 1.0), (second, 1.0)][:count]
        with pytest.raises(ConnectionLost):
            await call


# -- requests of peers


async def test_requests_of_peers_are_answered_as_their_handlers_say(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Command] = []
    connections, network = made(lambda _, request: answers.append(request))  # type: ignore[func-returns-value]
    connections.on_request(40, lambda *_: Command(5, remark="of an earlier handler"))
    connections.on_request(40, lambda *_: Command(6, opaque=99, remark="now"))
    connections.on_request(221, lambda *_: 1 / 0)  # type: ignore[arg-type, return-value]
    connections.on_request(307, lambda *_: None)
    connection = await connections.get("h:1")
    for code, opaque, flag in ((40, 5, 0), (999, 6, 0), (221, 7, 0), (307, 8, 0), (40, 9, ONEWAY_FLAG)):
        network.transports["h:1"].deliver(encode_command(Command(code, opaque, flag)))
    for _ in range(5):
        await asyncio.sleep(0)
    assert [(one.code, one.opaque, one.flag, one.remark) for one in answers] == [
        (6, 5, RESPONSE_FLAG, "now"),
        (3, 6, RESPONSE_FLAG, "this client does not handle request code 999"),
        (1, 7, RESPONSE_FLAG, "ZeroDivisionError: division by zero"),
    ]
    assert caplog.messages == ["handling GET_CONSUMER_STATUS_FROM_CLIENT (221) of h:1 failed"]
    assert not connections._answering
    connection.close()
    await connections._answer(connection, Command(40, 10))
    assert len(answers) == 3, "nobody reads it any more"
    await connections.close()


# -- sockets


class Loop:
    """The parts of an event loop that make connections."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *faults: BaseException | None) -> None:
        self.faults = list(faults)
        self.tried: list[Any] = []
        self.sockets: list[socket.socket] = []
        self.options: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        for name in ("sock_connect", "create_connection", "getaddrinfo"):
            monkeypatch.setattr(loop, name, getattr(self, name))

    async def sock_connect(self, sock: socket.socket, where: Any) -> None:
        assert not sock.getblocking()
        self.sockets.append(sock)
        self.tried.append((sock.family, where))
        self._next()

    async def create_connection(self, make: Any, **options: Any) -> None:
        self.options.append({"protocol": make(), **options})
        self._next()
        make().connection_made(SimpleNamespace(close=lambda: None))

    async def getaddrinfo(self, host: str, port: int, **options: Any) -> list[tuple[Any, ...]]:
        assert (host, port, options) == ("name.example", 7, {"type": socket.SOCK_STREAM})
        self._next()
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 7)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 7, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.2", 7)),
        ]

    def _next(self) -> None:
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault


def connecting(connections: ConnectionPool, host: str = "10.0.0.1") -> Coroutine[Any, Any, socket.socket]:
    return module._connected_socket(host, 7, connections.connect_timeout)


async def test_the_addresses_of_a_name_are_tried_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch, None, OSError(111, "refused"))
    with await connecting(ConnectionPool(), "name.example") as sock:
        assert loop.tried == [(socket.AF_INET, ("10.0.0.1", 7)), (socket.AF_INET6, ("::1", 7, 0, 0))]
        assert [each.fileno() < 0 for each in loop.sockets] == [True, False]
        assert sock is loop.sockets[1]
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_the_last_fault_of_a_name_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch, None, OSError(1, "first"), OSError(2, "second"), OSError(3, "third"))
    with pytest.raises(OSError, match="third"):
        await connecting(ConnectionPool(), "name.example")
    assert [each.fileno() for each in loop.sockets] == [-1, -1, -1]
    monkeypatch.setattr(module, "_resolve", lambda *_: asyncio.sleep(0, []))
    with pytest.raises(OSError, match=r"name\.example has no address"):
        await connecting(ConnectionPool(), "name.example")


async def test_an_interrupted_attempt_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        await connecting(ConnectionPool())
    assert [each.fileno() for each in loop.sockets] == [-1]
    assert loop.tried == [(socket.AF_INET, ("10.0.0.1", 7))], "an address is not looked up"


async def test_a_connection_attempt_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    connections = ConnectionPool(connect_timeout=0.5)
    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", never)
    with pytest.raises(ConnectError, match=r"cannot connect to 10\.0\.0\.1:7: no connection within 0\.5 s"):
        await connections._connect("10.0.0.1:7")
    assert connections.ready("10.0.0.1:7") is None
    await connections.close()


async def test_tls_names_the_host_and_has_the_time_of_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for tls, expected in (
        (None, {}), (context, {"ssl": context, "server_hostname": "10.0.0.1", "ssl_handshake_timeout": 2.0}),
    ):  # fmt: skip
        loop, opened = Loop(monkeypatch), []
        connections = ConnectionPool(connect_timeout=2.0, tls=tls, on_open=opened.append)
        connection = await connections._connect("10.0.0.1:7")
        assert loop.options == [{"protocol": connection, "sock": loop.sockets[0], **expected}]
        assert opened == [connection] == [connections.ready("10.0.0.1:7")]
        connections.drop_all()
        loop.sockets[0].close()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            ConnectionResetError(104, "reset"),
            "the other end closed it during the TLS handshake; does it serve TLS there?",
        ),
        (ConnectionRefusedError(111, "x"), "Connection refused"),
        (ssl.SSLError("no shared cipher"), "TLS: no shared cipher"),
    ],
)
async def test_a_failed_handshake_says_why(monkeypatch: pytest.MonkeyPatch, fault: OSError, words: str) -> None:
    loop = Loop(monkeypatch, None, fault)
    connections = ConnectionPool(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    with pytest.raises(ConnectError) as caught:
        await connections._connect("10.0.0.1:7")
    assert str(caught.value) == f"cannot connect to 10.0.0.1:7: {words}"
    assert connections.ready("10.0.0.1:7") is None
    loop.sockets[0].close()


async def test_a_plain_connection_that_breaks_at_once_is_no_fault_of_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch, None, ConnectionResetError(104, "Connection reset by peer"))
    with pytest.raises(ConnectError, match=r"cannot connect to 10\.0\.0\.1:7: Connection reset by peer"):
        await ConnectionPool()._connect("10.0.0.1:7")
    loop.sockets[0].close()
