"""Bytes no client would send: each fault is named, ends at most its own connection, and the broker lives on."""

import logging
import struct

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.server.fault_log import FaultLog
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.command import Command, encode_command
from rocketmq_py.wire.frame import MAX_FRAME, encode_frame
from tests.server.rawpeer import RawPeer


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as cluster:
        cluster.create_topic("T", 1)
        yield cluster


@pytest.fixture
def witness(cluster):
    """A second connection, which must not notice anything."""
    with RawPeer(cluster.addresses[0]) as peer:
        yield peer


@pytest.fixture
def peer(cluster):
    cluster.brokers[0]._server.fault_log = FaultLog()  # few lines a minute are logged for each host
    with RawPeer(cluster.addresses[0]) as peer:
        yield peer


def send(peer: RawPeer, body: bytes = b"hello", topic: str = "T") -> Command:
    header = SendMessageV2(
        producer_group="g", topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
        born_timestamp=0, flag=0, properties="",
    )  # fmt: skip
    return peer.ask(Code.SEND_MESSAGE_V2, header.to_ext(), body)


def stored(peer: RawPeer) -> int:
    """Messages in the one queue of the topic."""
    return int(peer.ask(Code.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}).ext["offset"])


GOOD = encode_command(Command(Code.GET_MAX_OFFSET, ext={"topic": "T", "queueId": "0"}))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (struct.pack(">II", MAX_FRAME + 1, 10), f"a frame of {MAX_FRAME + 1} bytes is announced"),
        (struct.pack(">II", 0xFFFFFFFF, 10), "a frame of 4294967295 bytes is announced"),
        (struct.pack(">II", 3, 0), "does not fit into a frame of 3 bytes"),
        (struct.pack(">II", 20, 17) + bytes(16), "header length 17 does not fit into a frame of 20 bytes"),
        (encode_frame(b"{}", serialize_type=2), "unknown serialize type 2"),
        (encode_frame(b"no json at all"), "a JSON header of 14 bytes cannot be understood"),
        (encode_frame(b"{}"), "cannot be understood"),
        (encode_frame(b"\x00\x0a", serialize_type=1), "a ROCKETMQ header of 2 bytes cannot be understood"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "not a RocketMQ peer"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "look like TLS"),
    ],
    ids=["oversized", "huge", "too short", "header beyond frame", "serialize type", "garbage header", "no code",
         "binary header", "http", "tls"],
)  # fmt: skip
def test_a_corrupt_frame_ends_its_connection_only(peer, witness, caplog, data, said):
    before = stored(witness)
    with caplog.at_level(logging.WARNING, "rocketmq_py.server"):
        peer.send(data)
        peer.wait_closed()
    assert len([record for record in caplog.records if said in record.getMessage()]) == 1
    assert send(witness).code == 0
    assert stored(witness) == before + 1


def test_a_truncated_frame_is_dropped_with_its_connection(peer, witness):
    before = stored(witness)
    peer.send(GOOD[:-5])
    assert send(witness).code == 0
    peer.leave()
    assert stored(witness) == before + 1


def test_requests_before_the_corrupt_one_are_answered(peer):
    peer.send(GOOD + encode_frame(b"{}", serialize_type=9))
    assert peer.receive().code == 0
    peer.wait_closed()


def test_an_unknown_code_is_refused(peer):
    answer = peer.ask(424242)
    assert (answer.code, answer.remark) == (3, " request type 424242 not supported")
    assert send(peer).code == 0


@pytest.mark.parametrize(
    ("ext", "named"),
    [({"topic": "T"}, "queueId"), ({"queueId": "0"}, "topic"), ({"topic": "T", "queueId": "x"}, "queueId")],
)
def test_a_missing_or_wrong_field_is_named(peer, ext, named):
    answer = peer.ask(Code.GET_MAX_OFFSET, ext)
    assert answer.code == 1
    assert named in answer.remark
    assert send(peer).code == 0


def test_an_illegal_topic_name_is_named(peer):
    answer = send(peer, topic="no such:topic")
    assert answer.code == 29
    assert "illegal characters" in answer.remark
    assert send(peer).code == 0


def test_a_too_long_message_is_refused_and_the_next_one_stored(peer):
    before = stored(peer)
    answer = send(peer, b"x" * (4 * 1024 * 1024 + 1))
    assert answer.code == 13
    assert answer.remark
    assert send(peer).code == 0
    assert stored(peer) == before + 1


def test_many_broken_connections_leave_no_state(cluster, witness):
    for _ in range(50):
        with RawPeer(cluster.addresses[0]) as peer:
            peer.send(struct.pack(">II", 0xFFFFFFFF, 0))
            peer.wait_closed()
    assert send(witness).code == 0
