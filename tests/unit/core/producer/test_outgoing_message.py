"""Messages made ready: checks before the wire, unique keys, compression, batches; answers understood."""

from __future__ import annotations

import random
import zlib

import msgspec
import pytest

from rocketmq_py.core.peer import Reply
from rocketmq_py.core.producer.outgoing_message import OutgoingMessage, Packer, SendHead, check_limits
from rocketmq_py.errors import BrokerError, ConfigError, MessageIllegal, TopicNotExist
from rocketmq_py.model import Message, MessageQueue, SendStatus
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.compression import CompressionType, decompress
from rocketmq_py.wire.frame import FrameDecoder
from rocketmq_py.wire.ids import UniqueKeys
from tests.golden import files

QUEUE = MessageQueue("t", 'broker "a"', 3)
HEAD = SendHead("g", QUEUE, "TBW102", 4)
NOW = 1_700_000_000_000


def packer(**options: object) -> Packer:
    return Packer(UniqueKeys(b"\x7f\0\0\1", 1, 2), **options)  # type: ignore[arg-type]


def sent(outgoing: OutgoingMessage, *, oneway: bool = False) -> tuple[Command, SendMessageV2]:
    (frame,) = FrameDecoder().feed(outgoing.frame(HEAD, 77, oneway=oneway))
    command = decode_command(frame)
    return command, SendMessageV2.from_ext(command.ext)


def test_a_message_travels_as_java_sends_it() -> None:
    message = Message("t", b"body", tags="A", keys=["k1", "k2"], flag=5, properties={"näme": "wert\n"})
    command, header = sent(packer().pack(message, NOW))
    assert (command.code, command.opaque, command.flag) == (310, 77, 0)
    assert (command.language, command.body) == ("PYTHON", b"body")
    assert header == SendMessageV2(
        producer_group="g", topic="t", default_topic="TBW102", default_topic_queue_nums=4, queue_id=3, sys_flag=0,
        born_timestamp=NOW, flag=5, properties=header.properties, reconsume_times=0, unit_mode=False, batch=False,
        bname='broker "a"',
    )  # fmt: skip
    assert decode_properties(header.properties.encode()) == {
        "TAGS": "A", "KEYS": "k1 k2", "WAIT": "true", "näme": "wert\n", "UNIQ_KEY": message.msg_id,
    }  # fmt: skip


def test_a_oneway_message_has_the_oneway_flag() -> None:
    command, _ = sent(packer().pack(Message("t", b"x"), NOW), oneway=True)
    assert command.is_oneway


def test_a_unique_key_is_given_once() -> None:
    pack = packer().pack
    message = Message("t", b"x")
    assert pack(message, NOW).msg_id == message.msg_id == pack(message, NOW).msg_id
    assert pack(Message("t", b"x"), NOW).msg_id != message.msg_id


@pytest.mark.parametrize(("kind", "flags"), [("ZLIB", 0x301), ("LZ4", 0x101), ("ZSTD", 0x201)])
def test_large_bodies_are_compressed_and_the_message_keeps_its_own(kind: str, flags: int) -> None:
    message = Message("t", b"x" * 5000)
    command, header = sent(packer(compression=CompressionType[kind]).pack(message, NOW))
    assert header.sys_flag == flags
    assert decompress(command.body, header.sys_flag) == message.body == b"x" * 5000


def test_the_level_of_compression_is_that_of_java_unless_it_is_given() -> None:
    body = b"".join(b"%d " % (i * i) for i in range(2000))
    levels = [zlib.compress(body, level) for level in range(10)]
    assert len({*levels[4:7]}) == 3
    for made, level in ((packer(), 5), (packer(compression_level=9), 9)):
        assert sent(made.pack(Message("t", body), NOW))[0].body == levels[level]


@pytest.mark.parametrize(("size", "over", "compressed"), [(4095, 4096, 0), (4096, 4096, 1), (100_000, None, 0)])
def test_the_compression_threshold_decides_what_is_large(size: int, over: int | None, compressed: int) -> None:
    _, header = sent(packer(compress_over=over).pack(Message("t", b"x" * size), NOW))
    assert header.sys_flag & 1 == compressed


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (Message("t", b""), "the body is empty"),
        (Message("t", b"x" * (4 * 1024 * 1024 + 1)), "4194305 bytes, 4194304 are allowed"),
        (Message("", b"x"), "the topic name is empty"),
        (Message("a b", b"x"), "illegal characters"),
        (Message("x" * 128, b"x"), "128 characters"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "belongs to the brokers"),
        (Message("t", b"x", properties={"a": "b\x01c"}), "U.0001"),
        (Message("t", b"x", properties={"a\x02": "b"}), "U.0002"),
        (Message("t", b"x", properties={"a": "ä" * 16384}), "the properties have"),
    ],
)
def test_illegal_messages_are_refused_before_they_are_sent(message: Message, fault: str) -> None:
    with pytest.raises(MessageIllegal, match=fault):
        packer().pack(message, NOW)


def test_the_largest_body_passes() -> None:
    packer(compress_over=None).pack(Message("t", b"x" * 4 * 1024 * 1024), NOW)


def test_properties_up_to_the_limit_pass() -> None:
    packer().pack(Message("t", b"x", properties={"a": "x" * 32600}), NOW)


def test_a_message_for_a_retry_topic_carries_its_counts_in_the_header() -> None:
    message = Message("%RETRY%g", b"x", properties={"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16", "a": "b"})
    _, header = sent(packer().pack(message, NOW))
    assert (header.reconsume_times, header.max_reconsume_times) == (3, 16)
    assert set(decode_properties(header.properties.encode())) == {"a", "WAIT", "UNIQ_KEY"}


# -- batches


def test_a_batch_is_one_request_with_a_key_for_each_message() -> None:
    messages = [Message("t", b"%d" % i, tags=f"T{i}", flag=i) for i in range(3)]
    outgoing = packer().pack_batch(messages, NOW)
    command, header = sent(outgoing)
    assert (command.code, header.batch, set(decode_properties(header.properties.encode()))) == (
        320, True, {"UNIQ_KEY", "WAIT"},
    )  # fmt: skip
    unpacked = [(flag, body, decode_properties(raw)) for flag, body, raw in decode_batch(command.body)]
    assert unpacked == [(m.flag, m.body, m.properties) for m in messages]
    assert outgoing.msg_id == ",".join(m.msg_id or "" for m in messages)


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([], "there are none"),
        ([Message("t", b"x"), Message("u", b"x")], "topics differ: t, u"),
        ([Message("t", b"x", delay_level=3)], "delay level"),
        ([Message("t", b"x"), Message("t", b"x", delay=3)], "delivery time"),
        ([Message("t", b"x"), Message("t", b"x", wait_store_ok=False)], "some wait"),
        ([Message("%RETRY%g", b"x")], "retry topic"),
        ([Message("t", b"")], "the body is empty"),
        ([Message("t", b"x" * 3_000_000)] * 2, "send it in parts"),
    ],
)
def test_illegal_batches_are_refused(messages: list[Message], fault: str) -> None:
    with pytest.raises(MessageIllegal, match=fault):
        packer().pack_batch(messages, NOW)


@pytest.mark.parametrize("name", ["send_v2", "send_batch", "send_zlib", "send_lz4", "send_zstd", "send_oneway"])
def test_the_fields_are_those_java_sends(name: str) -> None:
    (frame,) = FrameDecoder().feed(files.request(name))
    java = decode_command(frame)
    kind = name.removeprefix("send_").upper()
    compression = CompressionType[kind] if kind in CompressionType.__members__ else None
    pack = packer(compression=compression or CompressionType.ZLIB)
    message = Message("golden", b"x" * (5000 if compression else 1), flag=int(java.ext["h"]))
    outgoing = pack.pack_batch([message], NOW) if name == "send_batch" else pack.pack(message, NOW)
    ours, _ = sent(outgoing, oneway=name == "send_oneway")
    assert (ours.code, ours.flag, ours.version, set(ours.ext)) == (java.code, java.flag, java.version, set(java.ext))
    changing = {"a", "b", "e", "g", "i", "n"}
    assert {k: v for k, v in ours.ext.items() if k not in changing} == {
        k: v for k, v in java.ext.items() if k not in changing
    }


# -- answers


def reply(code: int, **ext: str) -> Reply:
    return Reply(code, 77, 1, "why", msgspec.Raw(msgspec.json.encode(ext)))


@pytest.mark.parametrize("status", SendStatus)
def test_every_send_status_is_a_result(status: SendStatus) -> None:
    outgoing = packer().pack(Message("t", b"x"), NOW)
    answer = reply(status.value, msgId="OFF", queueId="3", queueOffset="12", transactionId="T", MSG_REGION="R")
    result = outgoing.result(QUEUE, answer, "h:1")
    assert result[:7] == (status, outgoing.msg_id, QUEUE, 12, "OFF", "T", "R")
    untraced = reply(status.value, msgId="OFF", queueId="3", queueOffset="12", TRACE_ON="false")
    assert (result.trace_on, outgoing.result(QUEUE, untraced, "h:1").trace_on) == (True, False)


def test_the_queue_id_of_the_answer_is_the_result() -> None:
    outgoing = packer().pack(Message("t", b"x"), NOW)
    result = outgoing.result(QUEUE, reply(0, msgId="OFF", queueId="1", queueOffset="0"), "h:1")
    assert result.queue == MessageQueue("t", 'broker "a"', 1)


def test_a_refusal_names_the_broker_and_the_reason() -> None:
    outgoing = packer().pack(Message("t", b"x"), NOW)
    with pytest.raises(TopicNotExist, match="17 from h:1: why"):
        outgoing.result(QUEUE, reply(17), "h:1")
    with pytest.raises(BrokerError, match="99 from h:1"):
        outgoing.result(QUEUE, reply(99), "h:1")


@pytest.mark.parametrize("limits", [(4096, 0), (0, 10)])
def test_invalid_limits_are_refused(limits: tuple[int, int]) -> None:
    with pytest.raises(ConfigError):
        check_limits(*limits)


def test_java_can_inflate_zlib_bodies() -> None:
    command, _ = sent(packer().pack(Message("t", b"abc" * 2000), NOW))
    assert zlib.decompress(command.body) == b"abc" * 2000


@pytest.mark.parametrize("compress_over", [None, 4096])
def test_a_body_that_fits_into_no_frame_is_refused_whatever_the_limit(compress_over: int | None) -> None:
    packer = Packer(
        UniqueKeys(b"\x7f\x00\x00\x01", 1, 1, 1), max_message_size=1 << 30, compress_over=compress_over,
        compression_level=1,
    )  # fmt: skip
    body = random.Random(1).randbytes(1 << 20) * 20
    if compress_over is not None:
        body = random.Random(1).randbytes(20 << 20)
    with pytest.raises(MessageIllegal, match=r"20971520 bytes .* servers close a connection on requests of more than"):
        packer.pack(Message("t", body), 0)


def test_a_large_body_that_compresses_well_is_sent() -> None:
    packer = Packer(UniqueKeys(b"\x7f\x00\x00\x01", 1, 1, 1), max_message_size=1 << 30)
    assert len(packer.pack(Message("t", bytes(20 << 20)), 0).body) < 1 << 20


def test_a_body_leaves_room_for_the_header_in_a_frame_of_16_mebibytes() -> None:
    largest, pack = 16_777_216 - 131_072, packer(compress_over=None, max_message_size=1 << 30).pack
    body = bytes(largest + 1)
    assert len(pack(Message("t", body[:-1]), NOW).body) == largest
    with pytest.raises(MessageIllegal):
        pack(Message("t", body), NOW)
