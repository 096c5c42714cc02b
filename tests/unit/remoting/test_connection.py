"""Connections over a scripted network: answers, deadlines, pushed requests, the end."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import (
    ClosedError,
    ConnectError,
    ConnectionLost,
    ForkedError,
    RequestTimeout,
    TopicNotExist,
)
from rocketmq_py.protocol.headers.group import GroupHeader
from rocketmq_py.remoting import connection as connection_module
from rocketmq_py.remoting.connection import Connection, answer_callback
from rocketmq_py.remoting.connection_pool import ConnectionPool
from rocketmq_py.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder
from rocketmq_py.wire.signing import Credentials
from tests.unit.client.scripted import Answerer, ScriptedNetwork


def made(answer: Answerer, **options: object) -> tuple[ConnectionPool, ScriptedNetwork]:
    network = ScriptedNetwork(answer)
    connections = ConnectionPool(**options)  # type: ignore[arg-type]
    network.carry(connections)
    return connections, network


async def test_responses_are_returned_and_error_codes_raised() -> None:
    connections, _ = made(lambda _, request: Command(0 if request.code == 1 else 17, remark="no such topic"))
    assert (await connections.invoke("h:1", 1)).code == 0
    with pytest.raises(TopicNotExist, match="h:1: no such topic"):
        await connections.invoke("h:1", 2)
    assert (await connections.invoke("h:1", 2, check=False)).code == 17
    await connections.close()


async def test_requests_of_one_loop_turn_are_written_together() -> None:
    connections, network = made(lambda _, request: Command(0, body=request.body))
    connection = await connections.get("h:1")
    bodies = [b"%d" % i for i in range(100)]
    replies = await asyncio.gather(*(connection.call(1, None, body, 1.0) for body in bodies))
    assert [reply.body for reply in replies] == bodies
    writes = [len(FrameDecoder().feed(data)) for data in network.transports["h:1"].written]
    assert writes == [32, 32, 32, 4], "the peer begins with the first"
    assert connection.in_flight == 0
    await connections.close()


async def test_concurrent_callers_share_a_connection() -> None:
    connections, _ = made(lambda *_: Command(0))
    first, second = await asyncio.gather(connections.get("h:1"), connections.get("h:1"))
    assert first is second is connections.ready("h:1")
    await connections.close()


async def test_a_request_times_out_and_a_late_answer_is_ignored() -> None:
    connections, network = made(lambda _, request: None if request.code == 105 else Command(0))
    with pytest.raises(RequestTimeout, match=r"h:1 did not answer GET_ROUTEINFO_BY_TOPIC \(105\) within 0.01 s"):
        await connections.invoke("h:1", 105, timeout=0.01)
    (_, request) = network.requests[0]
    network.transports["h:1"].deliver(encode_command(Command(0, request.opaque, 1)))
    await connections.invoke("h:1", 1)
    await connections.close()


async def test_each_request_has_its_own_deadline() -> None:
    connections, _ = made(lambda *_: None)
    connection = await connections.get("h:1")
    times = (0.3, 0.1, 0.2)
    done: list[float] = []

    async def call(timeout: float) -> None:
        with pytest.raises(RequestTimeout):
            await connection.call(1, None, b"", timeout)
        done.append(timeout)

    await asyncio.gather(*map(call, times))
    assert done == sorted(times)
    await connections.close()


def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other machine is gone without a word: no end of the connection ever comes."""
    monkeypatch.setattr(connection_module, "SILENCE_SECONDS", 0.01)

    async def main() -> None:
        connections, network = made(lambda *_: None)
        connection = await connections.get("h:1")
        held = asyncio.ensure_future(connection.call(11, None, b"", 60.0))
        with pytest.raises(RequestTimeout):
            await connection.call(1, None, b"", 0.01)
        with pytest.raises(ConnectionLost, match=r"not answered in time, and nothing arrived since$"):
            await held
        network.answer = lambda *_: Command(0)
        assert (await connections.invoke("h:1", 1)).code == 0
        assert connections.ready("h:1") is not connection
        await connections.close()

    asyncio.run(main())


async def test_a_connection_with_any_traffic_stays_open() -> None:
    connections, _ = made(lambda _, request: None if request.code == 105 else Command(0))
    connection = await connections.get("h:1")
    with pytest.raises(RequestTimeout):
        await connection.call(105, None, b"", 0.01)
    assert connection._silence is not None
    await connection.call(1, None, b"", 10.0)
    assert connection._silence is None
    assert connections.ready("h:1") is connection
    await connections.close()


async def test_pending_requests_fail_with_their_connection() -> None:
    connections, network = made(lambda *_: None)
    connection = await connections.get("h:1")
    calls = [asyncio.ensure_future(connection.call(1, None, b"", 10.0)) for _ in range(3)]
    await asyncio.sleep(0)
    connection.connection_lost(OSError("reset by peer"))
    for call in calls:
        with pytest.raises(ConnectionLost, match="the connection to h:1 ended: reset by peer"):
            await call
    with pytest.raises(ConnectionLost):
        await connection.call(1, None, b"", 10.0)
    network.answer = lambda *_: Command(0)
    assert (await connections.invoke("h:1", 1)).code == 0
    assert connections.ready("h:1") is not connection
    await connections.close()


async def test_garbage_ends_the_connection() -> None:
    connections, network = made(lambda *_: None)
    connection = await connections.get("h:1")
    call = asyncio.ensure_future(connection.call(1, None, b"", 10.0))
    await asyncio.sleep(0)
    network.transports["h:1"].deliver(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ConnectionLost, match="not a RocketMQ peer"):
        await call
    assert connections.ready("h:1") is None
    await connections.close()


async def test_a_request_is_repeated_over_a_new_connection_after_go_away() -> None:
    answers = [Command(1500), Command(0)]
    connections, _ = made(lambda *_: answers.pop(0))
    first = await connections.get("h:1")
    assert (await connections.invoke("h:1", 1)).code == 0
    assert connections.ready("h:1") is not first
    assert first.closed
    await connections.close()


async def test_a_retired_connection_closes_after_its_last_answer() -> None:
    connections, network = made(lambda *_: None)
    connection = await connections.get("h:1")
    call = asyncio.ensure_future(connection.call(1, None, b"", 10.0))
    await network.asked.wait()
    connections.retire(connection)
    assert not connection.closed
    network.transports["h:1"].deliver(encode_command(Command(0, network.requests[0][1].opaque, 1)))
    await call
    assert connection.closed
    await connections.close()


async def test_a_retired_connection_closes_with_its_client() -> None:
    connections, network = made(lambda *_: None)
    connection = await connections.get("h:1")
    call = asyncio.ensure_future(connection.call(1, None, b"", 10.0))
    await network.asked.wait()
    connections.retire(connection)
    await connections.close()
    assert connection.closed
    with pytest.raises(ConnectionLost):
        await call


async def test_each_connection_is_told_of_when_it_is_open() -> None:
    """Over a socket: the scripted network stands in for the method that tells."""
    opened: list[Connection] = []
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    connections = ConnectionPool(on_open=opened.append)
    first = await connections.get(address)
    assert opened == [first]
    server.close()
    await server.wait_closed()
    connections.drop_all()
    with pytest.raises(ConnectError):
        await connections.get(address)
    assert opened == [first], "the other was never open"
    await connections.close()


# -- a peer that does not read


async def test_nothing_is_written_while_the_peer_does_not_read() -> None:
    connections, network = made(lambda _, request: Command(0, body=request.body))
    connection = await connections.get("h:1")
    connection.pause_writing()
    calls = [asyncio.ensure_future(connection.call(1, None, b"%d" % i, 1.0)) for i in range(100)]
    drained = asyncio.ensure_future(connection.drain())
    for _ in range(5):
        await asyncio.sleep(0)
    assert network.transports["h:1"].written == []
    assert not drained.done()
    connection.resume_writing()
    assert [(await call).body for call in calls] == [b"%d" % i for i in range(100)]
    await drained
    await connection.drain()  # it keeps up: no wait
    await connections.close()


async def test_the_end_of_a_connection_ends_the_wait_for_its_peer() -> None:
    connections, network = made(lambda *_: None)
    connection = await connections.get("h:1")
    connection.pause_writing()
    drained = asyncio.ensure_future(connection.drain())
    await asyncio.sleep(0)
    assert not drained.done()
    network.transports["h:1"].abort()
    await drained
    await connections.close()


# -- requests of the peer


async def test_pushed_requests_are_handled_and_answered() -> None:
    answered: asyncio.Queue[Command] = asyncio.Queue()
    handled: list[str] = []

    def script(_: str, request: Command) -> None:
        if request.is_response:
            answered.put_nowait(request)

    async def later(address: str, request: Command) -> Command:
        handled.append(f"{address} {GroupHeader.from_ext(request.ext).consumer_group}")
        return Command(0, body=b"info")

    connections, network = made(script)
    connections.on_request(307, later)
    connections.on_request(40, lambda address, _: handled.append(address))  # type: ignore[func-returns-value]
    connections.on_request(221, lambda *_: 1 / 0)  # type: ignore[arg-type, return-value]
    await connections.get("h:1")
    push = network.transports["h:1"].deliver
    push(encode_command(Command(307, 5, ext={"consumerGroup": "g"})))
    answer = await answered.get()
    assert (answer.code, answer.opaque, answer.body, handled) == (0, 5, b"info", ["h:1 g"])
    push(encode_command(Command(999, 6)))
    answer = await answered.get()
    assert (answer.code, answer.opaque) == (3, 6)
    push(encode_command(Command(40, 7, ONEWAY_FLAG)))
    push(encode_command(Command(221, 8)))
    answer = await answered.get()
    assert (answer.code, answer.opaque) == (1, 8)
    assert "ZeroDivisionError" in (answer.remark or "")
    assert handled == ["h:1 g", "h:1"]
    await connections.close()


# -- the end


async def test_closed_and_forked_clients_raise() -> None:
    connections, _ = made(lambda *_: Command(0))
    connections._process._generation += 1
    with pytest.raises(ForkedError, match="do not survive a fork"):
        await connections.invoke("h:1", 1)
    connections._process._generation -= 1
    await connections.close()
    with pytest.raises(ClosedError):
        await connections.invoke("h:1", 1)


async def test_an_unreachable_address_comes_with_a_hint_and_its_mapping() -> None:
    connections, network = made(
        lambda *_: None, hint=lambda address: f"Look at {address}", address_map={"h:1": "localhost:2"}
    )
    network.unreachable = {"h:1"}
    with pytest.raises(ConnectError, match=r"to h:1 \(mapped to localhost:2\): Connection refused. Look at h:1"):
        await connections.invoke("h:1", 1)
    await connections.close()


# -- one connection over a transport that only remembers


class Transport:
    """``over_tls``: what the transport says about itself."""

    def __init__(self, over_tls: bool = False) -> None:
        self.done: list[Any] = []
        self._ssl_object = object() if over_tls else None

    def write(self, data: bytes) -> None:
        self.done += [decode_command(frame) for frame in FrameDecoder().feed(data)]

    def close(self) -> None:
        self.done.append("close")

    def abort(self) -> None:
        self.done.append("abort")

    def get_extra_info(self, name: str) -> object:
        return {"ssl_object": self._ssl_object}[name]


class Bench:
    """A connection, what it does to its transport, and whom it tells of its peer's requests and of its end."""

    def __init__(self, credentials: Credentials | None = None, *, over_tls: bool = False) -> None:
        self.pushed: list[tuple[Connection, Command]] = []
        self.lost: list[Connection] = []
        self.connection = Connection("h:1", lambda *push: self.pushed.append(push), self.lost.append, credentials)
        self.transport = Transport(over_tls)
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self.answers: list[Any] = []

    def ask(self, seconds: float = 60.0) -> int:
        return self.connection.expect(self.answers.append, asyncio.get_running_loop().time() + seconds)

    def answer(self, opaque: int) -> None:
        self.connection.data_received(encode_command(Command(0, opaque, RESPONSE_FLAG)))


@pytest.mark.parametrize("credentials", [None, Credentials("user", "secret")])
async def test_requests_are_numbered_signed_and_written_together(credentials: Credentials | None) -> None:
    bench = Bench(credentials)
    connection = bench.connection
    given = Command(103, 77, 4, "remark", {"a": "1"}, b"b", "GO", 500)
    tasks = [asyncio.ensure_future(connection.send(given, asyncio.get_running_loop().time() + 60))]
    await asyncio.sleep(0)
    connection.send_oneway(given)
    connection.oneway(34, GroupHeader(consumer_group="g"), b"x")
    connection.oneway(34, None)
    tasks.append(asyncio.ensure_future(connection.call(1, GroupHeader(consumer_group="h"), b"y", 60.0)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    requests = bench.transport.done
    assert [(one.code, one.opaque, one.flag, one.remark, one.body, one.language, one.version) for one in requests] == [
        (103, 0, 4, "remark", b"b", "GO", 500), (103, 1, 6, "remark", b"b", "GO", 500),
        (34, 2, 2, None, b"x", "PYTHON", 513), (34, 3, 2, None, b"", "PYTHON", 513),
        (1, 4, 0, None, b"y", "PYTHON", 513),
    ]  # fmt: skip
    bodies = (b"b", b"b", b"x", b"", b"y")
    fields = ({"a": "1"}, {"a": "1"}, {"consumerGroup": "g"}, {}, {"consumerGroup": "h"})
    for request, ext, body in zip(requests, fields, bodies, strict=True):
        assert request.ext == (ext if credentials is None else credentials.signed(ext, body))
    assert repr(connection) == "Connection(h:1, open, in_flight=2)"
    bench.answer(4)
    bench.answer(0)
    assert [(await task).opaque for task in tasks] == [0, 4]
    connection.close()
    assert repr(connection) == "Connection(h:1, closed, in_flight=0)"


async def test_what_was_written_is_sent_before_the_connection_closes() -> None:
    bench = Bench()
    bench.connection.oneway(34, None)
    bench.connection.close()
    assert [getattr(step, "code", step) for step in bench.transport.done] == [34, "close"]
    bench.connection.oneway(35, None)
    await asyncio.sleep(0)
    assert len(bench.transport.done) == 2
    assert (bench.connection.closed, bench.connection.closed_here) == (True, True)


async def test_a_connection_is_aborted_that_does_not_close_in_time() -> None:
    gone, stuck = Bench(), Bench()
    gone.connection.connection_lost(None)
    await gone.connection.wait_closed(1.0)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    await stuck.connection.wait_closed(1.0)
    assert loop.time() - begin >= 1.0
    assert (gone.transport.done, stuck.transport.done) == ([], ["abort"])


async def test_a_connection_to_be_closed_waits_for_its_answers_only() -> None:
    idle, busy = Bench(), Bench()
    opaques = [busy.ask() for _ in range(2)]
    idle.connection.retire()
    busy.connection.retire()
    assert (idle.transport.done, busy.transport.done) == (["close"], [])
    busy.answer(opaques[1])
    assert busy.transport.done == []
    busy.answer(opaques[0])
    assert busy.transport.done == ["close"]


async def test_a_fault_of_one_caller_does_not_cost_the_others_their_answers() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    bench = Bench()
    deadline = asyncio.get_running_loop().time() + 60
    for _ in range(2):
        bench.connection.expect(lambda _: 1 // 0, deadline)
        bench.ask()
    frames = [encode_command(Command(0, opaque, RESPONSE_FLAG)) for opaque in (0, 1)]
    bench.connection.data_received(b"".join(frames))
    assert [answer.opaque for answer in bench.answers] == [1]
    bench.connection.connection_lost(None)
    assert [type(answer) for answer in bench.answers] == [Reply, ConnectionLost]
    assert [context["message"] for context in reported] == ["handling an answer of h:1 failed"] * 2
    assert {type(context["exception"]) for context in reported} == {ZeroDivisionError}


async def test_the_end_of_a_connection_is_told_once_with_its_cause() -> None:
    hint, reset = "the other end closed it without a reason", "Connection reset by peer"
    cases: list[tuple[Bench, bool, Exception | None, str]] = [
        (Bench(), False, None, f"{hint}; does it require TLS (the option tls)?"),
        (Bench(over_tls=True), False, None, f"{hint}; it may require a client certificate, or another one"),
        (Bench(), True, None, "the other end closed it"),
        (Bench(), True, OSError(104, "x"), reset),
        (Bench(), False, OSError(104, "x"), f"{reset} without a reason; does it require TLS (the option tls)?"),
        (Bench(over_tls=True), False, ssl.SSLError("bad record"), "TLS: bad record"),
        (Bench(), True, ValueError("odd"), "odd"),
    ]  # fmt: skip
    for bench, heard, cause, words in cases:
        bench.ask()
        if heard:
            bench.connection.data_received(encode_command(Command(40, 9)))
        for fault in (cause, OSError("later")):
            bench.connection.connection_lost(fault)
        [error] = bench.answers
        assert str(error) == f"the connection to h:1 ended: {words}"
        assert error.__cause__ is cause
        assert bench.lost == [bench.connection]
        assert (bench.connection.closed, bench.connection.closed_here) == (True, False)
        assert [(connection, push.opaque) for connection, push in bench.pushed] == [(bench.connection, 9)] * heard
        bench.ask()
        assert len(bench.answers) == 1
        await asyncio.sleep(0)
        assert len(bench.answers) == 2, "a request after the end fails in the next turn"


async def test_requests_of_a_connection_closed_here_say_so() -> None:
    bench = Bench()
    bench.ask()
    bench.connection.close()
    bench.connection.connection_lost(None)
    assert [str(error) for error in bench.answers] == ["the connection to h:1 ended: it was closed here"]


async def test_silence_after_a_timeout_ends_a_connection_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[tuple[float, Any]] = []

    class Handle:
        def cancel(self) -> None:
            timers.append((-1.0, self))

    def call_later(seconds: float, callback: Any) -> Handle:
        timers.append((seconds, callback))
        return Handle()

    bench = Bench()
    bench.ask(-1.0)
    bench.ask(-1.0)
    bench.ask(60.0)
    monkeypatch.setattr(bench.connection._loop, "call_later", call_later)
    bench.connection._expire()
    assert [str(error) for error in bench.answers] == ["h:1 did not answer in time"] * 2
    assert bench.answers[0] is not bench.answers[1]
    bench.connection._expire()
    silence = [callback for seconds, callback in timers if seconds == 1.0]
    assert len(silence) == 1, "one request that is late is enough"
    silence[0]()
    assert bench.transport.done == ["abort"]
    assert str(bench.answers[2]) == (
        "the connection to h:1 ended: a request was not answered in time, and nothing arrived since"
    )
    assert bench.lost == [bench.connection]
    monkeypatch.undo()


async def test_garbage_aborts_a_connection() -> None:
    bench = Bench()
    bench.ask()
    bench.connection.data_received(b"HTTP/1.1 400 Bad Request\r\n")
    assert bench.transport.done == ["abort"]
    assert bench.lost == [bench.connection]
    [error] = bench.answers
    assert "not a RocketMQ peer" in str(error)


async def test_an_answer_to_a_caller_that_has_left_is_dropped() -> None:
    loop = asyncio.get_running_loop()
    gone, answered, failed = loop.create_future(), loop.create_future(), loop.create_future()
    gone.cancel()
    answer_callback(gone)(Reply(0, 1))
    answer_callback(answered)(Reply(0, 2))
    answer_callback(failed)(RequestTimeout("late"))
    assert (await answered).opaque == 2
    with pytest.raises(RequestTimeout, match="late"):
        await failed
