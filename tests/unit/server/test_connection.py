"""A connection over a transport that only remembers: one write per read, slow readers, faults."""

import asyncio
import gc
import logging
import socket
import weakref

import pytest

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.server import Peer, Reply, Router, handles
from rocketmq_py.server.buffers import Buffers
from rocketmq_py.server.connection import ServerConnection
from rocketmq_py.server.fault_log import FaultLog
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.server.sliced_work import ReadTurns
from rocketmq_py.server.tls_acceptor import Opening
from rocketmq_py.wire.command import Command, encode_command


class Echo:
    @handles(RequestCode.GET_MAX_OFFSET)
    def echo(self, peer: Peer, request, body):
        return Reply(body=body)


class Socket:
    def __init__(self):
        self.options = []

    def setsockopt(self, *option):
        self.options.append(option)


class Transport:
    """What a connection does to its transport; ``backlog`` is what the other end has not taken."""

    def __init__(self):
        self.writes = []
        self.gathered = 0
        self.socket = Socket()
        self.done = []
        self.backlog = 0
        self.closing = False

    def get_extra_info(self, name):
        addresses = {"peername": ("10.0.0.9", 5), "sockname": ("10.0.0.1", 6)}
        return {"socket": self.socket, "ssl_object": None, **addresses}[name]

    def set_write_buffer_limits(self, high):
        self.high = high

    def write(self, data):
        self.writes.append(bytes(data))

    def writelines(self, pieces):
        self.gathered += 1
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


class Owner:
    max_frame = 1000
    write_limit = 5000

    def __init__(self):
        self.dispatcher = Dispatcher(Router(Echo()))
        self.buffers = Buffers(1_000_000)
        self.fault_log = FaultLog()
        self.turns = ReadTurns()
        self.events = []

    def connected(self, connection):
        self.events.append("connected")

    def disconnected(self, connection):
        self.events.append("disconnected")


class CountedBuffers:
    """Notes which connections are counted, instead of their sizes."""

    def __init__(self):
        self.steps = []

    def grown(self, connection):
        self.steps.append("grown")

    def discard(self, connection):
        self.steps.append("discard")


@pytest.fixture
def connection():
    connection = ServerConnection(Owner())
    connection.connection_made(Transport())
    return connection


@pytest.fixture
def counted(connection):
    """The connection, whose owner notes what is counted."""
    connection._owner.buffers = CountedBuffers()
    return connection


ASK = encode_command(Command(30, ext={"topic": "t", "queueId": "0"}, body=b"hello"))


def test_all_answers_of_a_read_are_written_at_once(connection):
    connection.data_received(ASK * 5)
    assert len(connection._transport.writes) == 1
    assert connection._transport.writes[0].count(b"hello") == 5
    assert connection._transport.gathered == 1
    connection.data_received(ASK)
    assert connection._transport.gathered == 1, "one buffer needs no gathering"


def test_a_new_connection_sends_small_answers_at_once_and_buffers_four_mebibytes(connection):
    assert connection._transport.socket.options == [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    assert connection._transport.high == 4_194_304
    assert (connection.peer.address, connection.peer.local_address) == ("10.0.0.9:5", "10.0.0.1:6")


def test_a_proxy_names_the_client_and_bytes_that_were_read_come_first():
    connection = ServerConnection(Owner(), Opening(("203.0.113.7", 50_000), ASK[:2]))
    connection.connection_made(Transport())
    assert (connection.peer.address, connection.peer.local_address) == ("203.0.113.7:50000", "10.0.0.1:6")
    connection.data_received(ASK[2:])
    connection.data_received(ASK)
    assert [write.count(b"hello") for write in connection._transport.writes] == [1, 1]


def test_data_ends_the_silence_of_a_connection(connection):
    assert connection.quiet_sweeps == 0
    connection.quiet_sweeps = 3
    connection.data_received(ASK[:5])
    assert connection.quiet_sweeps == 0


class TlsTransport(Transport):
    """One that seals every piece on its own."""

    def get_extra_info(self, name):
        return object() if name == "ssl_object" else super().get_extra_info(name)

    def writelines(self, pieces):
        self.writes += map(bytes, pieces)


def test_answers_of_a_read_are_joined_over_tls():
    connection = ServerConnection(Owner())
    connection.connection_made(TlsTransport())
    connection.data_received(ASK * 5)
    assert [write.count(b"hello") for write in connection._transport.writes] == [5]


def test_a_frame_may_arrive_byte_by_byte(connection):
    for byte in ASK:
        connection.data_received(bytes([byte]))
    assert len(connection._transport.writes) == 1


def test_a_connection_that_does_not_read_is_not_read_from(connection):
    connection.pause_writing()
    connection.resume_writing()
    assert connection._transport.done == ["pause_reading", "resume_reading"]


def answered(connection):
    return sum(write.count(b"hello") for write in connection._transport.writes)


async def test_large_answers_continue_when_the_first_part_was_read():
    connection = ServerConnection(Owner())
    connection.connection_made(Transport())
    connection.data_received(ASK * 40)
    assert answered(connection) == 32
    connection.pause_writing()
    await asyncio.sleep(0)
    assert answered(connection) == 32
    connection.data_received(ASK.replace(b"hello", b"later"))  # what the loop had read already
    assert len(connection._transport.writes) == 1
    connection.resume_writing()
    await asyncio.sleep(0)
    assert answered(connection) == 40
    assert connection._transport.writes[-1].endswith(b"later")
    assert connection._transport.done[-1] == "resume_reading"
    connection.data_received(ASK)
    assert answered(connection) == 41


async def test_a_fast_reader_gets_all_answers_at_once():
    connection = ServerConnection(Owner())
    connection.connection_made(Transport())
    connection.data_received(ASK * 70 + b"\x00\x00\x00\x06\x07\x00\x00\x02{}")
    for _ in range(3):
        await asyncio.sleep(0)
    assert answered(connection) == 70
    assert connection._transport.done == ["pause_reading", "pause_reading", "resume_reading", "close"]


async def test_the_rest_is_dropped_with_the_connection():
    connection = ServerConnection(Owner())
    connection.connection_made(Transport())
    connection.data_received(ASK * 40)
    connection.close("test")
    await asyncio.sleep(0)
    assert answered(connection) == 32


async def test_a_connection_that_is_being_closed_is_neither_stopped_nor_resumed(counted):
    counted._transport.closing = True
    counted.data_received(ASK * 40)
    counted.pause_writing()
    counted.data_received(ASK)
    counted.resume_writing()
    await asyncio.sleep(0)
    assert (answered(counted), counted._transport.done) == (32, [])


async def test_reading_is_resumed_only_where_answers_are_taken(connection):
    for paused, closing in ((True, False), (False, True), (True, True)):
        connection._paused, connection._transport.closing = paused, closing
        connection._resume_reading()
    assert connection._transport.done == []


def test_large_incomplete_frames_and_unread_answers_are_counted(counted):
    counted._owner.max_frame = counted._frames.max_frame = 4_000_000
    counted.data_received((3_000_000).to_bytes(4, "big") + bytes(1_048_572))
    assert (counted.buffered, counted._owner.buffers.steps) == (1_048_576, [])
    counted.data_received(b"\0")
    assert (counted.buffered, counted._owner.buffers.steps) == (1_048_577, ["grown"])
    counted.pause_writing()
    counted.peer.write(b"push")
    counted.resume_writing()
    counted.peer.write(b"another")
    assert counted._transport.writes == [b"push", b"another"]
    assert counted._owner.buffers.steps[1:] == ["grown", "grown", "discard"]
    counted._transport.backlog = 7
    assert counted.buffered == 1_048_584
    counted.connection_lost(None)
    assert counted._owner.buffers.steps[4:] == ["discard"]


def test_incomplete_frames_of_all_connections_are_counted_together(caplog):
    owner = Owner()
    owner.max_frame = 4_000_000
    owner.buffers = Buffers(4_000_000)
    connections = [ServerConnection(owner) for _ in range(3)]
    for size, connection in zip((1_500_000, 2_000_000, 1_200_000), connections, strict=True):
        connection.connection_made(Transport())
        connection.data_received((3_000_000).to_bytes(4, "big") + bytes(4 + size))
    assert [connection._transport.done for connection in connections] == [[], ["abort"], []]
    assert "holds most of the 4000000 bytes" in caplog.text


@pytest.mark.parametrize("push", [False, True], ids=["answers", "pushes"])
def test_too_many_unread_answers_end_the_connection(connection, push, caplog):
    connection.pause_writing()
    for backlog in (5000, 5001):
        connection._transport.backlog = backlog
        if push:
            connection.peer.write(b"x")
        else:
            connection.data_received(ASK)
    assert connection._transport.done == ["pause_reading", "abort"]
    assert "5001 bytes wait for it to read" in caplog.text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x00\x00\x10\x00" + bytes(8), "a frame of 4096 bytes is announced, the limit is 1000"),
        (b"\x00\x00\x00\x08\x00\x00\x00\xff", "header length 255 does not fit into a frame of 8 bytes"),
        (b"\x00\x00\x00\x06\x07\x00\x00\x02{}", "unknown serialize type 7"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x02??", "cannot be understood"),
        (b"GET / HTTP/1.1\r\n\r\n", "not a RocketMQ peer"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "look like TLS"),
    ],
    ids=["oversized", "header beyond frame", "serialize type", "garbage header", "http", "tls"],
)
def test_a_fault_ends_the_connection_with_one_log_line(connection, data, said, caplog):
    connection.data_received(data)
    assert connection._transport.done == ["close"]
    assert len(caplog.records) == 1
    assert "10.0.0.9:5" in caplog.text
    assert said in caplog.text


def test_an_attack_is_a_few_lines_and_a_number(caplog):
    owner = Owner()
    for _ in range(1000):
        attacked = ServerConnection(owner)
        attacked.connection_made(Transport())
        attacked.data_received(b"\x00\x00\x00\x06\x07\x00\x00\x02{}")
        assert attacked._transport.done == ["close"]
    assert len(caplog.records) == 3


def test_requests_before_a_fault_are_answered(connection):
    connection.data_received(ASK + b"\x00\x00\x00\x06\x07\x00\x00\x02{}")
    assert b"hello" in connection._transport.writes[0]
    assert connection._transport.done == ["close"]


def test_closing_a_connection_that_does_not_read_does_not_wait(connection):
    connection.pause_writing()
    connection.close("idle")
    assert connection._transport.done[-1] == "abort"


def test_a_lost_connection_is_reported(connection):
    connection.connection_lost(ConnectionResetError("reset"))
    assert connection.peer.closed
    assert connection._owner.events == ["connected", "disconnected"]


@pytest.mark.parametrize(("fault", "lines"), [
    (ConnectionResetError("reset by peer"), ["connection of 10.0.0.9:5 broke: reset by peer"]), (None, []),
])  # fmt: skip
def test_a_connection_that_breaks_is_logged_for_debugging(connection, fault, lines, caplog):
    caplog.set_level(logging.DEBUG)
    connection.connection_lost(fault)
    assert caplog.messages == lines


def test_closing_waits_for_the_answers_and_logs_a_reason(connection, caplog):
    caplog.set_level(logging.DEBUG)
    connection.close()
    assert (connection._transport.done, caplog.messages) == (["close"], [])
    connection.close("idle")
    assert caplog.messages == ["closing the connection of 10.0.0.9:5: idle"]


def test_a_connection_is_cut_off_once(connection, caplog):
    for _ in range(2):
        connection.cut_off("too many bytes")
    assert connection._transport.done == ["abort"]
    assert caplog.messages == ["closing the connection of 10.0.0.9:5: too many bytes"]


@pytest.mark.parametrize("transport", [Transport, TlsTransport])
def test_a_lost_connection_is_freed_without_the_garbage_collector(transport):
    gc.disable()
    try:
        connection = ServerConnection(Owner())
        connection.connection_made(transport())
        connection.pause_writing()
        connection.data_received(ASK * 40)
        held = weakref.ref(connection._transport)
        connection.connection_lost(None)
        del connection
        assert held() is None
    finally:
        gc.enable()


class Refusing(ReadTurns):
    """A turn whose budget is used up; those that wait are served by hand."""

    def __init__(self):
        super().__init__()
        self.is_crowded = True
        self.asked = 0
        self.waiting = []

    def admits(self):
        self.asked += 1
        return False

    def wait(self, serve):
        self.waiting.append(serve)


def echo(opaque):
    return encode_command(Command(RequestCode.GET_MAX_OFFSET, opaque, body=b"%d" % opaque))


@pytest.fixture
def crowded():
    owner = Owner()
    owner.turns = Refusing()
    connection = ServerConnection(owner)
    connection.connection_made(Transport())
    return connection, owner.turns, connection._transport


def test_requests_of_a_turn_whose_budget_is_used_up_wait_in_their_order(crowded):
    connection, turns, transport = crowded
    connection.data_received(echo(1))
    assert (transport.writes, transport.done, len(turns.waiting)) == ([], ["pause_reading"], 1)
    connection.data_received(echo(2)[:9])
    connection.data_received(echo(2)[9:])
    assert (turns.asked, len(turns.waiting)) == (1, 1), "the loop had read them before reading was paused"
    turns.waiting.pop()()
    assert transport.done == ["pause_reading", "resume_reading"]
    assert b"".join(transport.writes).count(b"1") >= 1
    assert [body in b"".join(transport.writes) for body in (b"1", b"2")] == [True, True]
    connection.data_received(echo(3)[:9])
    assert (turns.asked, turns.waiting) == (1, []), "nothing to serve yet"
    turns.is_crowded = False
    connection.data_received(echo(3)[9:])
    assert (turns.asked, turns.waiting, len(transport.writes)) == (1, [], 2), "few connections do not ask"


def test_a_corrupt_frame_of_a_turn_whose_budget_is_used_up_closes_the_connection(crowded):
    connection, turns, transport = crowded
    connection.data_received(b"\xff" * 8)
    assert (transport.done, turns.asked) == (["close"], 0)


def test_requests_of_a_closed_connection_that_wait_are_dropped(crowded):
    connection, turns, transport = crowded
    connection.data_received(echo(1))
    transport.closing = True
    turns.waiting.pop()()
    assert transport.writes == []
