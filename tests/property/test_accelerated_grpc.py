"""Whatever clients of gRPC send, a broker with the accelerator stores and answers the same as one without it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import example, given, settings, strategies as st

from rocketmq_py.broker.grpc import service
from rocketmq_py.errors import CorruptFrame
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.grpc.definition import Digest, Message, Resource, SystemProperties, Timestamp
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.service import SendMessageRequest, SendMessageResponse
from rocketmq_py.wire.http2.hpack import (
    _STATIC,
    TABLE_SIZE,
    BlockDecoder,
    CompiledHpackDecoder,
    HeaderListTooLarge,
    HpackDecoder,
)
from rocketmq_py.wire.http2.huffman import LENGTHS
from tests.accelerated import accelerator, needs_accelerator
from tests.examples import examples
from tests.unit.broker.harness import START_MS, InProcess
from tests.unit.grpc.calls import Calls, Running
from tests.unit.store.memoryfs import MemoryFileSystem

pytestmark = needs_accelerator

# -- header blocks

MAX_LIST = 300
pieces = st.one_of(
    st.sampled_from([
        b"\x82", b"\xbe", b"\xbf", b"\xc0", b"\x80", b"\xff\x00", b"\xff\x90\x01", b"\x3f\xe1\x1f", b"\x20",
        b"\x3f\x21", b"\x40\x01a\x01b", b"\x41\x03www", b"\x7e\x02xy", b"\x00\x01n\x00", b"\x10\x00\x00",
        b"\x0f\x2f\x02zz", b"\x40\x7f\x05" + b"n" * 132 + b"\x01v", b"\x41\x8cf1",
        b"\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
        b"\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", b"\x01\x81\xff",
        b"\x01\x84\xff\xff\xff\xff", b"\xff\xff\xff\xff\xff\x7f", b"\x41\xff\xff\xff\xff\xff\x0f",
    ]),
    st.binary(max_size=4),
    st.builds(lambda raw: b"\x01" + bytes((0x80 | len(raw),)) + raw, st.binary(max_size=20)),
)  # fmt: skip


def outcome(decoder: BlockDecoder, block: bytes) -> Any:
    try:
        return decoder.decode(block)
    except HeaderListTooLarge as e:
        return str(e)
    except CorruptFrame:
        return None


@given(st.lists(st.lists(pieces, max_size=8).map(b"".join), max_size=8))
@settings(max_examples=examples(1000))
def test_header_blocks(blocks: list[bytes]) -> None:
    tables = accelerator().HeaderTables(_STATIC, LENGTHS, TABLE_SIZE)
    plain, fast = HpackDecoder(MAX_LIST), CompiledHpackDecoder(MAX_LIST, tables)
    for block in blocks:
        found = outcome(plain, block)
        assert outcome(fast, block) == found
        if found is None:  # the connection ends
            return


# -- sends

texts = st.sampled_from(["A", "a b", "", " ", "ü", "x\x01y", "\x7f", "\x85", "|", "k" * 90, "0AFE", "\u3000", "a\x02"])
usual = st.fixed_dictionaries({
    "message_id": st.text("0123456789ABCDEF", min_size=1, max_size=32),
    "born_timestamp": st.integers(0, 2**41).map(Timestamp.of_ms),
})  # fmt: skip
odd = st.fixed_dictionaries({}, optional={
    "message_id": texts, "tag": texts, "keys": st.lists(texts, max_size=3), "message_group": texts,
    "trace_context": texts, "born_host": texts, "lite_topic": texts, "body_encoding": st.integers(-1, 4),
    "message_type": st.integers(0, 5), "delivery_attempt": st.integers(-1, 3), "priority": st.integers(-2, 9),
    "body_digest": st.builds(Digest, type=st.integers(0, 3), checksum=texts), "queue_id": st.integers(-1, 3),
    "delivery_timestamp": st.sampled_from([START_MS - 1, START_MS + 10**9]).map(Timestamp.of_ms),
    "born_timestamp": st.builds(Timestamp, seconds=st.integers(-2, 2**33), nanos=st.integers(-5, 2**31 - 1)),
})  # fmt: skip
common = st.fixed_dictionaries({}, optional={
    "tag": st.sampled_from(["A", "B"]), "keys": st.lists(st.sampled_from(["k", "l m", "ä"]), max_size=2),
    "body_digest": st.builds(Digest, type=st.just(1), checksum=st.sampled_from(["1F", "2E"])),
    "message_group": st.sampled_from(["g", "h"]), "body_encoding": st.sampled_from([1, 2]),
    "message_type": st.just(1), "trace_context": st.just("00-ab"),
})  # fmt: skip


@st.composite
def sends(draw: st.DrawFn) -> bytes:
    system = draw(usual) | draw(common) | draw(st.one_of(st.just({}), st.just({}), odd))
    user = draw(st.one_of(st.just({}), st.just({"a": "b"}), st.dictionaries(st.one_of(texts, st.just("TAGS")), texts)))
    topic = draw(st.sampled_from(["t", "t", "t", "fifo", "read", "new", "%RETRY%g", "no such", ""]))
    body = draw(st.binary(max_size=30))
    message = Message(topic=Resource(name=topic), user_properties=user, body=body)
    message.system_properties = SystemProperties(**system)
    raw = SendMessageRequest(messages=[message] * draw(st.sampled_from([1, 1, 1, 1, 1, 1, 0, 2]))).encode()
    if draw(st.integers(0, 5)) == 0 and raw:
        changed = bytearray(raw)
        for _ in range(draw(st.integers(1, 2))):
            changed[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
        raw = bytes(changed)[: draw(st.sampled_from([len(raw), len(raw), len(raw) - 1]))]
    return raw


STORE = {"timer_wheel_enable": False, "mapped_file_size_commit_log": 16_384}


class Broker:
    """A broker whose topics have one queue for sends each, so that its answers do not depend on whose turn it is."""

    def __init__(self, *, is_fast: bool) -> None:
        self.running = InProcess(Path("/store"), STORE, fs=MemoryFileSystem())
        self.running.services.sender._property_writer._new_key = lambda: "MADE"
        topics = [("t", {}, 6), ("fifo", {"message.type": "FIFO"}, 6), ("read", {}, 4)]
        self.running.services.topics.put([
            TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1, attributes=attributes, perm=perm)
            for name, attributes, perm in topics
        ])  # fmt: skip
        with mock.patch.object(service, "installed", accelerator if is_fast else lambda: None):
            self.calls = Calls(self.running)

    def read(self, requests: list[bytes]) -> list[Any]:
        """The answers to calls that came in one read."""
        random.seed(0)  # which decides the queues of messages to new topics
        running: list[Running] = []
        for request in requests:
            self.calls._ports = 50_000
            running.append(self.calls.begin("SendMessage"))
            running[-1].tell(request)
        assert self.calls.service.finish_read() is None
        return [(one.carrier.end, one.received(SendMessageResponse)) for one in running]

    def log(self) -> dict[str, bytes]:
        nodes = self.running.services._fs.nodes
        return {str(path): bytes(node.content) for path, node in nodes.items() if "commitlog" in str(path)}


@given(st.lists(st.lists(sends(), max_size=6), max_size=3))
@settings(max_examples=examples(100), deadline=None)
@example([[b"\n\x00"]])
def test_sends(reads: list[list[bytes]]) -> None:
    plain, fast = Broker(is_fast=False), Broker(is_fast=True)
    for read in reads:
        assert fast.read(read) == plain.read(read)
        assert fast.log() == plain.log()


def plain_send(number: int) -> bytes:
    system = SystemProperties(message_id=f"{number:032X}", born_timestamp=Timestamp.of_ms(START_MS), message_type=1)
    message = Message(topic=Resource(name="t"), body=b"x", system_properties=system)
    return SendMessageRequest(messages=[message]).encode()


def test_plain_sends_are_stored_together() -> None:
    broker = Broker(is_fast=True)
    store = broker.running.services.store
    broker.read([plain_send(0)])
    with mock.patch.object(store._writer, "append", side_effect=AssertionError("one was stored alone")):
        answers = broker.read([plain_send(number) for number in range(1, 6)])
    offsets = [answer.entries[0].offset for _, [answer] in answers]
    assert offsets == [1, 2, 3, 4, 5]
    assert {answer.status.code for _, [answer] in answers} == {Code.OK}
