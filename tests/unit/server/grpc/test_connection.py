"""A connection over a transport that only remembers: one write per read, deferred events, slow readers, faults."""

import asyncio
import logging

import pytest

from rocketmq_py.server import Peer
from rocketmq_py.server.buffers import Buffers
from rocketmq_py.server.fault_log import FaultLog
from rocketmq_py.server.grpc import connection as grpc_connection
from rocketmq_py.server.grpc.connection import GrpcConnection
from rocketmq_py.wire.grpc import GrpcStatus, framed
from rocketmq_py.wire.http2 import frames
from rocketmq_py.wire.http2.hpack import HpackDecoder, encode_headers

POST = [(b":method", b"POST"), (b":path", b"/echo"), (b"content-type", b"application/grpc+proto")]
BEGIN = frames.PREFACE + frames.settings({})


class Transport:
    def __init__(self, tls=None):
        self.writes, self.done, self.backlog, self.closing, self.tls = [], [], 0, False, tls

    def get_extra_info(self, name):
        return self.tls if name == "ssl_object" else None

    def write(self, data):
        self.writes.append(bytes(data))

    def writelines(self, pieces):
        self.writes.append(b"".join(pieces))

    def get_write_buffer_size(self):
        return self.backlog

    def is_closing(self):
        return self.closing

    def __getattr__(self, name):
        def act():
            self.done.append(name)
            self.closing |= name in ("close", "abort")

        return act


class Methods:
    """``/echo`` answers at once, ``/keep`` never, ``/fail`` raises."""

    def __init__(self):
        self.kept, self.cancelled, self.stored, self.fault, self.ended = [], [], 0, None, []

    def find(self, path):
        return {b"/echo": self.echo, b"/keep": self.keep, b"/fail": self.fail}.get(path)

    def echo(self, call):
        call.on_message = call.answer

    def keep(self, call):
        self.kept.append(call)
        call.on_message = lambda message: None
        call.on_cancel = lambda: self.cancelled.append(call)
        call.on_end = lambda: self.ended.append(call)

    def fail(self, call):
        def fail(message):
            raise KeyError(message)

        call.on_message = fail

    def finish_read(self):
        self.stored += 1
        return self.fault


class Turns:
    """The time that all connections may take in a turn of the event loop; it is used up if ``is_over``."""

    def __init__(self):
        self.is_over = False

    def admits(self):
        return not self.is_over

    def wait(self, serve):
        asyncio.get_running_loop().call_soon(serve)


class Owner:
    def __init__(self):
        self.turns = Turns()
        self.buffers = Buffers(1 << 40)
        self.fault_log = FaultLog()
        self.max_frame = 1000
        self.write_limit = 100_000
        self.slow_turns = self
        self.long = []
        self.gone = []

    def note(self, name, seconds):
        self.long.append(name)

    def connected(self, connection):
        self.connection = connection

    def disconnected(self, connection):
        self.gone.append(connection)


class Site:
    def __init__(self, tls=None):
        self.owner, self.methods, self.transport = Owner(), Methods(), Transport(tls)
        self.connection = GrpcConnection(self.owner, self.methods, self.transport, Peer(("10.0.0.9", 5)))
        self.connection.data_received(BEGIN)
        self.transport.writes.clear()

    def frames(self):
        found, raw = [], b"".join(self.transport.writes)
        self.transport.writes.clear()
        while raw:
            head, _, stream = frames.unpack_head(raw)
            length = head >> 8
            found.append((head & 0xFF, stream, raw[9 : 9 + length]))
            raw = raw[9 + length :]
        return found

    def ends(self):
        """The status of each stream that has ended."""
        found = {}
        for kind, stream, payload in self.frames():
            if kind == frames.HEADERS:
                headers = dict(HpackDecoder(10_000).decode(payload))
                found[stream] = headers.get(b"grpc-status", headers.get(b":status"))
        return found


def begin(stream, path=b"/echo", *more):
    headers = [(b":method", b"POST"), (b":path", path), (b"content-type", b"application/grpc"), *more]
    return frames.frame(frames.HEADERS, frames.END_HEADERS, stream, encode_headers(headers))


def message(stream, data, flags=frames.END_STREAM):
    return frames.frame(frames.DATA, flags, stream, framed(data))


def call(stream, path=b"/echo", data=b"x"):
    return begin(stream, path) + message(stream, data)


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(grpc_connection, "SLICE_SECONDS", 100)
    return Site()


def test_the_calls_of_a_read_are_stored_once_and_answered_in_one_write(site):
    site.connection.data_received(call(1, data=b"a") + call(3, data=b"b"))
    assert site.methods.stored == 2  # one of the preface
    assert len(site.transport.writes) == 1
    data = [(stream, payload) for kind, stream, payload in site.frames() if kind == frames.DATA]
    assert data == [(1, framed(b"a")), (3, framed(b"b"))]


def test_over_tls_the_answers_are_one_buffer():
    site = Site(tls=object())
    site.transport.writelines = None
    site.connection.data_received(call(1) + call(3))
    assert len(site.transport.writes) == 1


def test_what_cannot_be_stored_is_unavailable(site):
    site.methods.fault = "the disk is full"
    site.connection.data_received(call(1))
    assert site.ends() == {1: b"14"}


def test_a_call_that_fails_does_not_close_the_connection(site, caplog):
    site.connection.data_received(call(1, b"/fail") + call(3))
    assert site.ends() == {1: b"13", 3: b"0"}
    assert "KeyError" in caplog.text
    assert not site.transport.closing


def test_answers_that_come_later_are_stored_and_written_in_the_next_turn(site):
    async def answer():
        site.connection.data_received(call(1, b"/keep") + call(3, b"/keep") + call(5, b"/keep"))
        first, second, third = site.methods.kept
        assert site.methods.ended == [first, second, third]
        first.answer(b"late")
        first.answer(b"twice")
        second.send(b"one")
        second.send(b"two")
        second.end(GrpcStatus.INTERNAL, "why")
        second.send(b"after the end")
        third.answer_many([b"1", b"2"])
        assert site.transport.writes == []
        before = site.methods.stored
        await asyncio.sleep(0)
        assert site.methods.stored == before + 1
        assert len(site.transport.writes) == 1

    asyncio.run(answer())
    found = site.frames()
    data = {
        stream: [payload for kind, one, payload in found if kind == frames.DATA and one == stream]
        for stream in (1, 3, 5)
    }
    assert data == {1: [framed(b"late")], 3: [framed(b"one"), framed(b"two")], 5: [framed(b"1") + framed(b"2")]}
    last = [payload for kind, stream, payload in found if kind == frames.HEADERS and stream == 3][-1]
    assert dict(HpackDecoder(1000).decode(last)) == {b"grpc-status": b"13", b"grpc-message": b"why"}


def test_a_call_without_messages_ends_with_trailers_only(site):
    async def end():
        site.connection.data_received(call(1, b"/keep"))
        site.methods.kept[0].end(GrpcStatus.UNAVAILABLE, "gone")
        await asyncio.sleep(0)

    asyncio.run(end())
    assert site.ends() == {1: b"14"}


def test_cancelled_calls_are_told_once(site):
    reset = frames.rst_stream(1, frames.ErrorCode.CANCEL)
    site.connection.data_received(call(1, b"/keep") + call(3, b"/keep") + reset)
    first, second = site.methods.kept
    assert site.methods.cancelled == [first]
    assert (first.is_open, second.is_open) == (False, True)
    assert second.peer.address == "10.0.0.9:5"
    with pytest.raises(RuntimeError):
        _ = first.peer
    site.connection.connection_lost(OSError("broken"))
    assert site.methods.cancelled == [first, second]
    assert site.owner.gone == [site.connection]
    assert site.connection.peer.closed


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (begin(1, b"/none"), b"12"),
        (begin(1, b"/echo", (b"grpc-timeout", b"0m")), b"4"),
        (begin(1, b"/echo", (b"grpc-timeout", b"5")), b"13"),
        (message(1, b"x" * 1001), b"8"),
        (frames.frame(frames.DATA, frames.END_STREAM, 1, framed(b"abc")[:-1]), b"13"),
        (frames.frame(frames.DATA, 0, 1, b"\1\0\0\0\0"), b"12"),
        (frames.frame(frames.DATA, frames.END_STREAM, 1, b""), b"13"),
    ],
    ids=["method", "deadline", "timeout", "large", "short", "compressed", "nothing"],
)
def test_calls_that_are_refused(site, raw, status):
    site.connection.data_received(raw if raw[3] == frames.HEADERS else begin(1) + raw)
    assert site.ends() == ({1: status})


@pytest.mark.parametrize(("headers", "status"), [
    ([(b":method", b"GET"), (b":path", b"/echo")], b"405"), ([(b":method", b"POST")], b"400"),
    ([(b":method", b"POST"), (b":path", b"/echo")], b"415"), (POST, b"13"),
])  # fmt: skip
def test_requests_that_are_no_calls(site, headers, status):
    flags = frames.END_HEADERS | frames.END_STREAM
    site.connection.data_received(frames.frame(frames.HEADERS, flags, 1, encode_headers(headers)))
    assert site.ends() == {1: status}


def test_a_deadline_is_known_to_the_call(site):
    site.connection.data_received(begin(1, b"/keep", (b"grpc-timeout", b"100S"), (b"x", b"y")) + begin(3, b"/keep"))
    with_deadline, without = site.methods.kept
    assert 90 < with_deadline.seconds_left() <= 100
    assert without.seconds_left() is None
    assert (with_deadline.header(b"x"), with_deadline.header(b"z")) == ("y", "")


def test_large_metadata_are_refused(site):
    large = encode_headers([(b"x", b"y" * 9_000)])
    site.connection.data_received(
        frames.frame(frames.HEADERS, 0, 1, large) + frames.frame(frames.CONTINUATION, 4, 1, large)
    )
    assert site.ends() == {1: b"8"}


def test_a_fault_of_the_protocol_is_answered_and_ends_the_connection(site, caplog):
    with caplog.at_level(logging.WARNING):
        site.connection.data_received(frames.frame(frames.PING, 0, 1, b"12345678"))
    [(kind, _, payload)] = site.frames()
    assert (kind, payload[4:8]) == (frames.GOAWAY, b"\0\0\0\1")
    assert site.transport.done == ["close"]
    assert "HTTP/2 PROTOCOL_ERROR" in caplog.text


def test_the_events_of_a_long_read_are_handled_in_several_turns(site, monkeypatch):
    monkeypatch.setattr(grpc_connection, "SLICE_SECONDS", -1)

    async def turns():
        site.connection.data_received(call(1) + call(3))
        assert site.transport.done == ["pause_reading"]
        site.connection.data_received(call(5))  # read before the transport was paused
        while site.connection._events:  # noqa: ASYNC110 - each turn of the loop handles one
            await asyncio.sleep(0)
        assert site.transport.done[-1] == "resume_reading"

    asyncio.run(turns())
    assert site.ends() == {1: b"0", 3: b"0", 5: b"0"}
    assert "calls of 10.0.0.9:5" in site.owner.long


def test_calls_wait_for_the_next_turn_if_other_connections_have_used_up_this_one(site):
    site.owner.turns.is_over = True

    async def turns():
        site.connection.data_received(call(1) + frames.frame(frames.PING, 0, 0, b"12345678"))
        assert site.transport.done == ["pause_reading"]
        assert [kind for kind, _, _ in site.frames()] == [frames.PING]
        site.connection.data_received(call(3))
        await asyncio.sleep(0)
        assert site.transport.done[-1] == "resume_reading"

    asyncio.run(turns())
    assert site.ends() == {1: b"0", 3: b"0"}


def test_a_client_that_does_not_read_is_not_read_from_and_cut_off_in_the_end(site, caplog):
    site.connection.pause_writing()
    assert site.transport.done == ["pause_reading"]
    site.transport.backlog = 100_001
    site.connection.data_received(call(1))
    assert site.transport.done[-1] == "abort"
    assert "100001 bytes are buffered for it" in caplog.text
    site.connection.cut_off("once more")
    assert site.transport.done.count("abort") == 1


def test_reading_goes_on_when_the_client_reads(site):
    site.connection.pause_writing()
    site.connection.resume_writing()
    assert site.transport.done == ["pause_reading", "resume_reading"]


def test_events_wait_while_the_client_does_not_read(site, monkeypatch):
    monkeypatch.setattr(grpc_connection, "SLICE_SECONDS", -1)

    async def wait():
        site.connection.data_received(call(1) + call(3))
        site.connection.pause_writing()
        await asyncio.sleep(0)
        left = len(site.connection._events)
        assert left
        await asyncio.sleep(0)
        assert len(site.connection._events) == left
        monkeypatch.setattr(grpc_connection, "SLICE_SECONDS", 100)
        site.connection.resume_writing()
        await asyncio.sleep(0)
        assert not site.connection._events

    asyncio.run(wait())
    assert set(site.ends()) == {1, 3}


def test_what_a_client_does_not_complete_or_take_is_counted(site):
    site.owner.max_frame = 1 << 24
    part = framed(b"x" * 2_000_000)[:16_000]
    site.connection.data_received(begin(1, b"/keep") + frames.frame(frames.DATA, 0, 1, part))
    assert site.connection.buffered == 16_000
    site.connection.data_received(frames.rst_stream(1, frames.ErrorCode.CANCEL))
    assert site.connection.buffered == 0
    site.connection.data_received(call(3, b"/keep"))
    site.owner.write_limit = 10_000_000

    async def answer():
        site.methods.kept[1].answer(b"y" * 1_200_000)
        await asyncio.sleep(0)

    asyncio.run(answer())
    assert site.connection.buffered == 1_200_000 + 5 - 65_535 + 3 + len(encode_headers([(b"grpc-status", b"0")])) - 3
    assert site.connection in site.owner.buffers._connections
    site.owner.write_limit = 1_000_000
    site.connection.data_received(call(5, b"/echo"))
    assert site.transport.done == ["abort"]


def test_half_a_frame_is_counted(site):
    whole = call(1, b"/keep")
    site.connection.data_received(whole[:-1])
    assert site.connection.buffered == len(message(1, b"x")) - 1
    site.connection.data_received(whole[-1:])
    assert site.connection.buffered == 0


def test_the_limit_of_all_connections_is_looked_at_from_a_mib_on(site):
    site.owner.max_frame = 1 << 24
    site.owner.write_limit = 1 << 30
    grown = []
    site.owner.buffers.grown = grown.append
    site.connection.data_received(begin(1, b"/keep"))
    piece, step = framed(b"x" * 4_000_000), 1 << 14
    for at in range(0, 1 << 20, step):
        site.connection.data_received(frames.frame(frames.DATA, 0, 1, piece[at : at + step]))
    assert (site.connection.buffered, grown) == (1 << 20, [])
    site.connection.data_received(frames.frame(frames.DATA, 0, 1, piece[:1]))
    assert grown == [site.connection]


def test_incomplete_messages_over_the_limit_end_the_connection(site):
    site.owner.max_frame = 1 << 24
    site.owner.write_limit = 1 << 20
    piece = framed(b"x" * 4_000_000)
    site.connection.data_received(begin(1, b"/keep"))
    for at in range(0, 1_200_000, 16_000):
        site.connection.data_received(frames.frame(frames.DATA, 0, 1, piece[at : at + 16_000]))
        if site.transport.closing:
            break
    assert site.transport.done == ["abort"]


def test_closing_says_goodbye_and_waits_for_no_slow_reader(site):
    site.connection.close("idle")
    assert site.frames()[0][0] == frames.GOAWAY
    assert site.transport.done == ["close"]
    other = Site()
    other.connection.pause_writing()
    other.connection.close()
    assert other.transport.done == ["pause_reading", "abort"]


def test_frames_of_remoting_are_not_sent_to_it(site):
    site.connection.peer.write(b"frame")
    assert site.transport.writes == []
    site.connection.peer.close()
    assert site.transport.done == ["close"]


def test_data_after_a_pause_calm_the_connection(site):
    flood = frames.frame(frames.PING, 0, 0, b"12345678") * 1_500
    site.connection.data_received(flood)
    site.connection.quiet_sweeps = 1
    site.connection.data_received(flood)
    assert site.connection.quiet_sweeps == 0
    assert not site.transport.closing
    site.connection.data_received(flood)
    assert site.transport.closing
