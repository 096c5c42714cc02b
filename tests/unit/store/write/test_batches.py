"""Messages of one shape: appended with others' shapes, and found again in the log."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.errors import MessageIllegal
from rocketmq_py.store import (
    MessageStore,
    NewBatch,
    StoreConfig,
    UniformBatch,
    UniformMessages,
    adjacent_records,
    uniform_messages,
)
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.record import decode_records, pack_host
from tests.unit.store.helpers import CLIENT, NOW, Stores, fill, read_queue, record

ROOMY = StoreConfig(
    mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=1 << 16, max_hash_slot_num=97, max_index_num=999
)
SIX = pack_host("2001:db8::7", 1234)


def batch(n: int, body: bytes = b"body-%03d", more: bytes = b"") -> bytes:
    own = b"UNIQ_KEY\x01B%05d\x02KEYS\x01w%03d\x02TAGS\x01A\x02"
    return encode_batch((9, body % i, own % (i, i) + more) for i in range(n))


def shape(n: int = 8, **more: Any) -> UniformMessages:
    found = uniform_messages(batch(n, **more))
    assert found is not None
    return found


def raw(store: MessageStore, first: int, count: int) -> bytes:
    """The bytes of messages of a queue."""
    found = [store.record_at_queue("T", 0, offset) for offset in range(first, first + count)]
    return b"".join(one or b"" for one in found)


def test_uniform_messages_have_the_fields_of_the_batch() -> None:
    found = shape()
    assert found.properties == b"UNIQ_KEY\x01B00000\x02KEYS\x01w000\x02TAGS\x01A\x02"
    assert found.properties_size == len(found.properties)
    assert found.varied == {b"UNIQ_KEY", b"KEYS"}
    longer = found.extended(b"a\x01b\x02").extended(b"c\x01", found.uniq_keys, b"\x02d\x01e\x02")
    assert longer.properties == found.properties + b"a\x01b\x02c\x01B00000\x02d\x01e\x02"
    assert longer.properties_size == len(longer.properties)
    assert longer.varied == {b"UNIQ_KEY", b"KEYS", b"c"}
    shorter = longer.shortened(b"d\x01e\x02")
    assert shorter is not None
    assert shorter.properties == found.properties + b"a\x01b\x02c\x01B00000\x02"
    for no_tail in (b"e\x02", b"d\x01f\x02", b"B00000\x02d\x01e\x02"):
        assert longer.shortened(no_tail) is None


@pytest.mark.parametrize("host", [CLIENT, SIX], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("prepared", [(), tuple(range(700, 708))], ids=["plain", "of half messages"])
def test_uniform_messages_equal_single_ones_on_disk(stores: Stores, prepared: tuple[int, ...], host: bytes) -> None:
    store = stores.open(ROOMY)
    fill(store, 1)
    longer = shape().extended(b"__ID__\x01", shape().uniq_keys, b"\x02x\x01y\x02")
    done = store.append_uniform(UniformBatch("T", 0, longer, 8, NOW - 9, host, 2, prepared))
    for i, physical in enumerate(done.physical_offsets):
        own = b"UNIQ_KEY\x01B%05d\x02KEYS\x01w%03d\x02TAGS\x01A\x02__ID__\x01B%05d\x02x\x01y\x02" % (i, i, i)
        single = record(
            body=b"body-%03d" % i, properties=own, flag=9, born_timestamp=NOW - 9, reconsume_times=2, sys_flag=8,
            born_host=host, prepared_transaction_offset=prepared[i] if prepared else 0,
        )  # fmt: skip
        (wanted,) = decode_records(store.message_at(store.append(single).physical_offset) or b"")
        (found,) = decode_records(store.message_at(physical) or b"")
        assert found.head._replace(queue_offset=0, physical_offset=0) == wanted.head._replace(
            queue_offset=0, physical_offset=0
        )
        assert (found.topic, found.body, found.properties) == (wanted.topic, wanted.body, wanted.properties)
        assert (found.queue_offset, found.commit_log_offset) == (1 + i, physical)
    assert done.queue_offset == 1


@pytest.mark.parametrize("host", [CLIENT, SIX], ids=["IPv4", "IPv6"])
def test_uniform_records_are_recognized_in_the_log(stores: Stores, host: bytes) -> None:
    store = stores.open(ROOMY)
    fill(store, 3)
    store.append_batch(NewBatch("T", 0, batch(8), b"", 8, NOW - 9, host, 2))
    found = adjacent_records(raw(store, 3, 8), 8)
    assert found is not None
    assert found.shape == shape()
    assert found.topic == "T"
    assert found.head == read_queue(store)[3].head
    part = adjacent_records(raw(store, 5, 4), 4)
    assert part is not None
    assert part.shape.uniq_keys == tuple(b"B%05d" % i for i in range(2, 6))


def test_records_that_are_not_uniform_give_none(stores: Stores) -> None:
    store = stores.open(ROOMY)
    store.append_batch(NewBatch("T", 0, batch(8)))
    store.append_batch(NewBatch("T", 0, batch(8), born_timestamp=1))
    store.append_batch(NewBatch("T", 1, batch(8)))
    store.append_batch(NewBatch("T", 0, batch(8, more=b"a\x01b\x02")))
    store.append_batch(NewBatch("T", 0, batch(4) + batch(4, more=b"\x02")))
    assert adjacent_records(raw(store, 0, 8), 8) is not None
    assert adjacent_records(raw(store, 0, 16), 16) is None, "born at two times"
    assert adjacent_records(raw(store, 0, 4) + raw(store, 5, 4), 8) is None, "with a gap"
    assert adjacent_records(raw(store, 16, 8) + raw(store, 24, 8), 16) is None, "of two sizes"
    assert adjacent_records(raw(store, 24, 8), 8) is None, "of two sizes, in one batch"
    assert adjacent_records(raw(store, 0, 3), 3) is None, "too few to be worth it"


@pytest.mark.parametrize(
    ("at", "put"),
    [
        (0, b"\1"),
        (4, b"\0\0\0\0"),
        (20, b"\xff"),
        (28, b"\xff"),
        (84, b"\x7f\xff\xff\xff"),
        (84, b"\xff"),
        (96, b"\xff"),
    ],
)
def test_bytes_that_are_not_records_give_none(stores: Stores, at: int, put: bytes) -> None:
    store = stores.open(ROOMY)
    store.append_batch(NewBatch("T", 0, batch(8)))
    good = raw(store, 0, 8)
    size = len(good) // 8
    assert good[96] == 1, "the length of the topic"
    for begin in (0, size, 7 * size):
        bad = good[: begin + at] + put + good[begin + at + len(put) :]
        assert adjacent_records(bad, 8) is None
    assert adjacent_records(good[:-1], 8) is None
    assert adjacent_records(good, 7) is None
    assert adjacent_records(b"", 0) is None
    assert adjacent_records(b"\0" * 400, 4) is None


def test_too_large_uniform_messages_are_refused_as_a_whole(stores: Stores) -> None:
    store = stores.open()
    with pytest.raises(MessageIllegal):
        store.append_uniform(UniformBatch("T", 0, shape(99)))
    assert store.queue_range("T", 0) == (0, 0)
    assert store.max_physical_offset == 0


def test_values_of_uniform_messages() -> None:
    messages = shape(4)
    assert list(messages.values(b"UNIQ_KEY")) == [b"B00000", b"B00001", b"B00002", b"B00003"]
    assert list(messages.values(b"KEYS")) == [b"w000", b"w001", b"w002", b"w003"]
    assert list(messages.values(b"TAGS")) == [b"A"] * 4
    assert list(messages.values(b"other")) == [b""] * 4


def test_some_of_uniform_messages() -> None:
    messages = shape(4)
    assert messages.only([0, 1, 2, 3]) is messages
    some = messages.only([2, 0])
    assert (list(some.bodies), list(some.values(b"KEYS"))) == ([b"body-002", b"body-000"], [b"w002", b"w000"])
    assert (list(some.uniq_keys or ()), list(some.words or ())) == ([b"B00002", b"B00000"], [b"w002", b"w000"])
    assert some.varied == messages.varied


def test_properties_of_uniform_messages_are_shortened() -> None:
    messages = shape(4)
    longer = messages.extended(b"X\x011\x02")
    assert longer.shortened(b"X\x011\x02") == messages
    assert longer.shortened(b"X\x012\x02") is None
    assert longer.shortened(b"\x011\x02") is None
