"""Messages that are checked when they are handed over, and encoded together when they leave."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest

from rocketmq_py.accelerator import installed
from rocketmq_py.core.producer.outgoing_message import OutgoingMessage, Packer
from rocketmq_py.errors import MessageIllegal
from rocketmq_py.model import Message
from rocketmq_py.properties import decode_properties
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.compression import decompress
from rocketmq_py.wire.ids import UniqueKeys

NOW = 1_700_000_000_000
BOTH = pytest.mark.parametrize("accelerator", [None, installed()], ids=["python", "compiled"])


def packer(accelerator: Any = None, **options: Any) -> Packer:
    return Packer(UniqueKeys(b"\x7f\0\0\1", 1, 2), accelerator=accelerator, **options)


def together(packer: Packer, *messages: Message) -> OutgoingMessage:
    return packer.join([packer.record(message, NOW) for message in messages])


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "no wait": {"wait_store_ok": False},
    "tagged": {"tags": "tag", "keys": ["key", "other"]},
    "umlaut": {"tags": "ä", "properties": {"ü": "€"}},
    "own key": {"properties": {"UNIQ_KEY": "K" * 5}},
    "least flag": {"flag": -(1 << 31)},
    "largest flag": {"flag": (1 << 31) - 1},
    "large": {"body": b"large" * 2000},
}


@BOTH
@pytest.mark.parametrize("shape", SHAPES)
def test_its_size_is_that_of_its_record(accelerator: Any, shape: str) -> None:
    pack = packer(accelerator)
    one = pack.record(Message(**{"topic": "t", "body": b"body"} | SHAPES[shape]), NOW)
    assert 2 * one.size == len(pack.join([one, one]).body)


def test_without_the_property_wait_it_waits_and_has_its_size() -> None:
    message, pack = Message("t", b"x"), packer()
    del message.properties["WAIT"]
    one = pack.record(message, NOW)
    assert one.waits
    assert 2 * one.size == len(pack.join([one, one]).body)


@BOTH
def test_a_batch_has_each_message_as_it_was_handed_over(accelerator: Any) -> None:
    pack, first = packer(accelerator), Message("t", b"a", "tag", flag=7)
    second = Message("t", bytearray(b"b"), flag=-1)
    records = [pack.record(first, NOW), pack.record(second, NOW)]
    first.properties["TAGS"] = "changed"
    second.properties["new"] = "1"
    first.body, first.flag = b"changed", 8
    found = [(flag, body, decode_properties(text)) for flag, body, text in decode_batch(pack.join(records).body)]
    assert found == [
        (7, b"a", {"TAGS": "tag", "WAIT": "true", "UNIQ_KEY": records[0].msg_id}),
        (-1, b"b", {"WAIT": "true", "UNIQ_KEY": records[1].msg_id}),
    ]
    assert [message.properties["UNIQ_KEY"] for message in (first, second)] == [one.msg_id for one in records]


def test_a_body_that_can_change_is_copied() -> None:
    message, pack = Message("t", b"x"), packer()
    message.body = body = bytearray(b"before")  # type: ignore[assignment]
    one = pack.record(message, NOW)
    body[:] = b"after!"
    assert one.body == b"before"


@BOTH
def test_large_bodies_are_compressed_one_by_one(accelerator: Any) -> None:
    outgoing = together(packer(accelerator), Message("t", b"a" * 5000), Message("t", b"b" * 5000))
    assert [decompress(body, 0x301) for _, body, _ in decode_batch(outgoing.body)] == [b"a" * 5000, b"b" * 5000]
    assert b'"f":"769"' not in outgoing.fields
    assert outgoing.fields.startswith(b'769"')


@BOTH
def test_one_message_leaves_as_if_it_were_sent_alone(accelerator: Any) -> None:
    make = lambda: Message("t", b"x", "tag", flag=3)  # noqa: E731
    assert together(packer(accelerator), make()).fields == packer(accelerator).pack(make(), NOW).fields


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (Message("t", b"x", properties={"a": "\x01"}), "separate them"),
        (Message("t", b"x", properties={"a\x02": "b"}), "separate them"),
        (Message("t", b"x", properties={"a": "b" * 32767}), "32767 are allowed"),
        (Message("t", b"x", properties={"UNIQ_KEY": "\x02"}), "separate them"),
        (Message("t", b"x", flag=1 << 31), "its flag is 2147483648, a 32-bit integer is expected"),
        (Message("t", b"x", flag=-(1 << 31) - 1), "its flag is -2147483649, a"),
        (Message("t", b"x", flag=1.0), "its flag is 1.0, a"),  # type: ignore[arg-type]
        (Message("t", b""), "the body is empty"),
    ],
)
def test_what_cannot_be_encoded_is_refused_when_it_is_handed_over(message: Message, fault: str) -> None:
    with pytest.raises(MessageIllegal, match=fault):
        packer(installed()).record(message, NOW)


def test_a_wait_with_a_separator_is_refused() -> None:
    message = Message("t", b"x")
    message.properties["WAIT"] = "\x01"
    with pytest.raises(MessageIllegal, match="separate them"):
        packer().record(message, NOW)


class Kind(IntEnum):
    FIRST = 5


@BOTH
def test_values_that_are_no_plain_text_or_number_are_converted_at_once(accelerator: Any) -> None:
    pack = packer(accelerator)
    odd = Message("t", b"x", flag=Kind.FIRST, properties={"number": 7})  # type: ignore[dict-item]
    records = [pack.record(odd, NOW), pack.record(Message("t", b"y"), NOW)]
    assert records[0].properties["number"] == "7"
    assert type(records[0].flag) is int
    assert [flag for flag, _, _ in decode_batch(pack.join(records).body)] == [5, 0]


def test_what_a_batch_must_have_in_common() -> None:
    pack = packer()
    plain = pack.record(Message("t", b"x"), NOW).kind
    assert pack.record(Message("t", b"y", "tag"), NOW).kind == plain
    assert pack.record(Message("t", b"y" * 5000), NOW).kind != plain, "compressed"
    assert pack.record(Message("t", b"y", wait_store_ok=False), NOW).kind != plain
    assert pack.record(Message("t", b"x"), NOW, 5.0).kind != plain, "another timeout"
