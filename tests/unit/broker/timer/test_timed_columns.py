"""Timed messages stored together: the same records as one by one, and one by one where they are not alike."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rocketmq_py.broker.timer.timed_columns import deliver_together
from rocketmq_py.broker.timer.timed_message import read_timed
from rocketmq_py.model import RecordHead
from rocketmq_py.protocol.names import NOT_ALLOWED_TO_SEND
from rocketmq_py.store import MessageStore, StoreConfig
from rocketmq_py.wire.record import decode_records, encode_record, pack_host

TOPIC = "rmq_sys_wheel_timer"
HEAD = RecordHead(0, 0, 0, 0, 3, 41, 1_000, 0, 5_000, pack_host("10.0.0.1", 4711), 6_000, bytes(8), 2, 0, 0)
HOSTS = [pack_host("10.0.0.1", 4711), pack_host("10.0.0.2", 80)]
NOW, DUE = 1_700_000_009_500, 1_700_000_009_000
WRITTEN = [1_700_000_000_000, 1_700_000_001_000]

Properties = dict[str, str]


def properties(number: int, queue_id: int = 0, **more: str) -> Properties:
    sent = {"UNIQ_KEY": f"K{number:04}", "KEYS": f"k{number:03}", "WAIT": "true", "TAGS": "red"}
    place = {"TIMER_OUT_MS": str(DUE), "REAL_TOPIC": "orders", "REAL_QID": str(queue_id)}
    return sent | {"TIMER_DELIVER_MS": str(DUE + number % 7)} | place | more


def raw(text: Properties, body: bytes = b"body", *, separator: bool = True, **head: object) -> bytes:
    stored = "".join(f"{name}\x01{value}\x02" for name, value in text.items()).encode()
    return encode_record(HEAD._replace(**head), TOPIC, body, stored if separator else stored[:-1])


@pytest.fixture
def stores(tmp_path: Path) -> tuple[MessageStore, MessageStore]:
    config = StoreConfig(mapped_file_size_commit_log=1 << 20, max_hash_slot_num=97, max_index_num=9_999)
    made = [MessageStore(tmp_path / name, config, store_host=HOSTS[0], clock=lambda: NOW) for name in ("one", "all")]
    for store in made:
        store.open()
    return made[0], made[1]


def stored(store: MessageStore) -> list[tuple[object, ...]]:
    """Everything in the queues, but for where it is in the log."""
    found: list[tuple[object, ...]] = []
    for queue_id in range(4):
        first, end = store.queue_range("orders", queue_id)
        for _, _, tags in store.queue_entries("orders", queue_id, first, end - first):
            found.append((queue_id, tags))
        for offset in range(first, end):
            one = store.record_at_queue("orders", queue_id, offset)
            assert one is not None
            (message,) = decode_records(one)
            head = message.head._replace(physical_offset=0)
            found.append((head, message.topic, message.body, list(message.properties.items())))
    return found


def test_batch_delivery_equals_single_delivery(stores: tuple[MessageStore, MessageStore]) -> None:
    one_by_one, at_once = stores
    luck = random.Random(11)
    for count in (4, 9, 30):
        raws = [
            raw(properties(n, luck.randrange(4)), b"%04d" % n, born_timestamp=n, born_host=luck.choice(HOSTS))
            for n in range(count)
        ]
        written = [luck.choice(WRITTEN) for _ in raws]
        for each, ms in zip(raws, written, strict=True):
            message = read_timed(each)
            assert message is not None
            one_by_one.append(message.delivered(ms, NOW))
        batches = deliver_together(raws, written, NOW)
        assert batches is not None
        assert sorted(number for members, _ in batches for number in members) == list(range(count))
        for _, batch in batches:
            at_once.append_uniform(batch)
    for store in stores:
        store.commit_pending()
    assert stored(at_once) == stored(one_by_one)
    for number in (0, 8, 29):
        for words in (f"K{number:04}", f"k{number:03}"):
            found = [store.query("orders", words, 9, 0, NOW + 1).count for store in stores]
            assert found[0] == found[1] > 0
    for store in stores:
        store.close()


ALIKE = [properties(n, n % 4) for n in range(6)]


@pytest.mark.parametrize(
    "raws",
    [
        [raw(text) for text in ALIKE[:3]],
        [raw(text) for text in ALIKE[:5]] + [raw(ALIKE[5], b"longer")],
        [raw(text) for text in ALIKE[:5]] + [raw(ALIKE[5] | {"TAGS": "rad"})],
        [raw(text) for text in ALIKE[:5]] + [raw(ALIKE[5] | {"REAL_TOPIC": "ordors"})],
        [raw(text) for text in ALIKE[:5]] + [raw(ALIKE[5], flag=4)],
        [raw(text) for text in ALIKE[:5]] + [raw(ALIKE[5], reconsume_times=3)],
        [raw(text | {"REAL_QID": "x"}) for text in ALIKE],
        [raw(text | {"REAL_TOPIC": min(NOT_ALLOWED_TO_SEND)}) for text in ALIKE],
        [raw(text | {"TIMER_ENQUEUE_MS": "1", "TIMER_DEQUEUE_MS": "2"}) for text in ALIKE],
        [raw({name: value for name, value in text.items() if name != "REAL_TOPIC"}) for text in ALIKE],
        [raw(text, separator=False) for text in ALIKE],
        [raw(text, born_host=pack_host("2001:db8::7", 1), sys_flag=16) for text in ALIKE],
        [encode_record(HEAD, "other", b"body", b"REAL_TOPIC\x01a\x02REAL_QID\x010\x02")] * 6,
        [b"no record"] * 6,
    ],
    ids=["few", "sizes", "tags", "topics", "flags", "retries", "no queue", "not allowed", "rolled", "no topic",
         "no separator", "IPv6", "another topic", "garbage"],
)  # fmt: skip
def test_messages_of_different_form_are_delivered_one_by_one(raws: list[bytes]) -> None:
    assert deliver_together(raws, [WRITTEN[0]] * len(raws), NOW) is None


def test_entries_with_and_without_a_write_time_are_delivered_singly() -> None:
    raws = [raw(text) for text in ALIKE]
    assert deliver_together(raws, [0, *[WRITTEN[0]] * 5], NOW) is None
    assert deliver_together(raws, [0] * 6, NOW) is not None
