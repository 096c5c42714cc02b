"""Messages of the timers' topic: looked up in their stored text as if they were taken apart."""

import random

import pytest

from rocketmq_py.broker.timer.timed_message import read_timed
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.model import RecordHead
from rocketmq_py.properties import decode_properties
from rocketmq_py.wire.record import encode_record

HEAD = RecordHead(0, 0, 0, 0, 3, 41, 1_000, 0, 5_000, bytes(8), 6_000, bytes(8), 2, 0, 0)
PLACE = {"TIMER_OUT_MS": "7000", "REAL_TOPIC": "orders", "REAL_QID": "4"}
SENT = {"UNIQ_KEY": "K1", "KEYS": "a b", "TAGS": "red", "X-UNIQ_KEY": "no", "TIMER_DELIVER_MS": "7600"}


def record(properties: dict[str, str], *, last_separator: bool = True) -> bytes:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    return encode_record(HEAD, "rmq_sys_wheel_timer", b"body", text.encode()[: None if last_separator else -1])


def shuffled(properties: dict[str, str], seed: int) -> dict[str, str]:
    names = list(properties)
    random.Random(seed).shuffle(names)
    return {name: properties[name] for name in names}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("last_separator", [True, False])
def test_the_order_of_properties_does_not_matter(seed: int, *, last_separator: bool) -> None:
    properties = shuffled(SENT | PLACE, seed)
    message = read_timed(record(properties, last_separator=last_separator))
    assert message is not None
    assert (message.real_topic, message.real_queue_id, message.out_ms) == ("orders", 4, 7_000)
    assert message.properties == properties
    assert [message.get(name) for name in ("TAGS", "UNIQ", "TIMER_DELIVER_MS")] == ["red", None, "7600"]
    made = message.delivered(6_500, 7_610)
    assert (made.topic, made.queue_id, made.body, made.uniq_key, made.keys) == ("orders", 4, b"body", "K1", "a b")
    assert (made.flag, made.born_timestamp, made.reconsume_times) == (3, 5_000, 2)
    assert decode_properties(made.properties) == properties | {"TIMER_ENQUEUE_MS": "6500", "TIMER_DEQUEUE_MS": "7610"}
    assert made.tags_code != 0


def test_times_are_those_of_the_last_round() -> None:
    message = read_timed(record(SENT | PLACE))
    assert message is not None
    once = message.next_round(100, 200)
    assert (once.topic, once.queue_id) == ("rmq_sys_wheel_timer", 0)
    again = read_timed(encode_record(HEAD, once.topic, once.body, once.properties))
    assert again is not None
    twice = decode_properties(again.next_round(300, 400).properties)
    assert twice["TIMER_ROLL_TIMES"] == "2"
    told = {"TIMER_ROLL_TIMES": "1", "TIMER_ENQUEUE_MS": "500", "TIMER_DEQUEUE_MS": "600"}
    made = again.delivered(500, 600)
    assert made.topic == "orders"
    assert decode_properties(made.properties) == SENT | PLACE | told
    assert made.properties.count(b"TIMER_ENQUEUE_MS\x01") == 1


@pytest.mark.parametrize("wrong", [
    {"REAL_TOPIC": ""}, {"REAL_QID": "x"}, {"TIMER_OUT_MS": "-5"}, {"REAL_TOPIC": "SCHEDULE_TOPIC_XXXX"},
])  # fmt: skip
def test_messages_without_topic_or_time_are_invalid(wrong: dict[str, str]) -> None:
    assert read_timed(record(SENT | PLACE | wrong)) is None
    assert read_timed(record({name: value for name, value in (SENT | PLACE).items() if name not in wrong})) is None


def test_bytes_that_are_no_record_raise() -> None:
    whole = record(SENT | PLACE)
    for bad in (b"", whole[:60], whole[:92], whole[:4] + bytes(4) + whole[8:]):
        with pytest.raises(CorruptRecord):
            read_timed(bad)
