"""A stored record in its parts, for short topics and for long ones, whose length takes two bytes."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.model import RecordHead
from rocketmq_py.wire.record import encode_record, pack_host

V4, V6 = pack_host("127.0.0.1", 10911), pack_host("::1", 10911)
BORN_V6, STORE_V6 = 0x10, 0x20


def record(topic: str, body: bytes = b"body", sys_flag: int = 0) -> bytes:
    born, store = V6 if sys_flag & BORN_V6 else V4, V6 if sys_flag & STORE_V6 else V4
    head = RecordHead(0, 0, 0, 3, 7, 11, 1000, sys_flag, 17, born, 18, store, 2, 0, 0)
    return encode_record(head, topic, body, b"TAGS\x01A\x02")


@pytest.mark.parametrize("length", [1, 127, 128, 255, 256, 700])
@pytest.mark.parametrize("sys_flag", [0, BORN_V6, STORE_V6, BORN_V6 | STORE_V6])
def test_a_record_is_split_into_what_it_was_made_of(length: int, sys_flag: int) -> None:
    topic = "".join(chr(ord("a") + i % 26) for i in range(length))
    found = read_stored(record(topic, sys_flag=sys_flag))
    assert (found.topic, found.body, found.properties) == (topic, b"body", b"TAGS\x01A\x02")
    assert (found.head.queue_id, found.head.queue_offset, found.head.sys_flag) == (3, 11, sys_flag)
    assert (found.head.body_length, found.head.reconsume_times) == (4, 2)


@pytest.mark.parametrize("length", [1, 300])
def test_an_empty_body_is_no_end(length: int) -> None:
    found = read_stored(record("t" * length, b""))
    assert (found.topic, found.body, found.properties) == ("t" * length, b"", b"TAGS\x01A\x02")


@pytest.mark.parametrize("cut", [0, 8, 40, 80])
def test_a_record_that_ends_too_early_is_corrupt(cut: int) -> None:
    with pytest.raises(CorruptRecord, match=f"record of {cut} bytes"):
        read_stored(record("t")[:cut])


def test_another_magic_is_corrupt() -> None:
    raw = bytearray(record("t"))
    raw[4:8] = b"\x01\x02\x03\x04"
    with pytest.raises(CorruptRecord, match="magic 0x1020304"):
        read_stored(bytes(raw))
