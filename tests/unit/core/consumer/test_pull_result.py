import pytest

from rocketmq_py.core.consumer.pull_result import (
    add_queue_bounds,
    filter_by_tags,
    located_records,
    may_be_transactional,
    pulled_messages,
    restore_topic,
    restore_transaction_ids,
    tag_of,
)
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.model import MessageQueue, RecordHead
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.wire.record import encode_record


def test_the_tag_is_found_at_any_position(message):
    assert tag_of(message(0, properties=b"TAGS\x01a\x02KEYS\x01k\x02")) == "a"
    assert tag_of(message(0, properties=b"KEYS\x01k\x02TAGS\x01b")) == "b"
    assert tag_of(message(0, properties=b"MYTAGS\x01no\x02TAGS\x01c\x02")) == "c"
    assert tag_of(message(0, properties=b"MYTAGS\x01no\x02")) is None
    assert tag_of(message(0, properties=b"TAGS\x01\x02")) is None
    assert tag_of(message(0)) is None


def test_hash_collisions_are_dropped(message):
    colliding = [message(0, properties=b"TAGS\x01Aa\x02"), message(1, properties=b"TAGS\x01BB\x02"), message(2)]
    assert filter_by_tags(colliding, {"Aa"}) == colliding[:1]
    assert filter_by_tags(colliding, set()) == colliding


def test_bounds_are_added_without_decoding(message):
    plain, looked_at = message(4, properties=b"UNIQ_KEY\x01U\x02"), message(6)
    assert looked_at.properties == {}
    add_queue_bounds([plain, looked_at], 1, 9)
    assert plain.properties == {"UNIQ_KEY": "U", "MIN_OFFSET": "1", "MAX_OFFSET": "9"}
    assert looked_at.properties == {"MIN_OFFSET": "1", "MAX_OFFSET": "9"}
    assert plain.raw_properties == b"UNIQ_KEY\x01U\x02"


def test_a_message_of_a_transaction_has_its_id(message):
    properties = b"UNIQ_KEY\x01U\x02TRAN_MSG\x01true\x02"
    plain, prepared = message(4, properties=b"UNIQ_KEY\x01U\x02"), message(5, properties=properties)
    restore_transaction_ids([plain, prepared])
    assert (plain.transaction_id, prepared.transaction_id) == (None, "U")
    assert may_be_transactional(b"..." + properties)
    assert not may_be_transactional(b"UNIQ_KEY\x01U\x02")


def test_messages_of_a_logical_queue_have_their_place_there() -> None:
    """They are stored in a physical queue, with another id and other offsets."""
    body = stored(queue_id=1, offset=4) + stored(queue_id=1, offset=5)
    header = PullResponse(suggest_which_broker_id=0, next_begin_offset=106, min_offset=100, max_offset=106)
    queue = MessageQueue("T", "__syslo__global__", 7)
    physical = pulled_messages(body, header, queue, 104, ()).messages
    assert [(message.queue_id, message.queue_offset) for message in physical] == [(1, 4), (1, 5)]
    header.offset_delta = 100
    logical = pulled_messages(body, header, queue, 104, ()).messages
    assert [(message.queue, message.queue_offset) for message in logical] == [(queue, 104), (queue, 105)]
    assert [message.body for message in logical] == [b"body", b"body"]
    header.offset_delta = 0  # the first physical queue
    assert [message.queue_id for message in pulled_messages(body, header, queue, 104, ()).messages] == [7, 7]


@pytest.mark.parametrize("size", [-1, 0, 10, 1000])
def test_records_of_a_logical_queue_with_a_wrong_size_are_refused(size: int) -> None:
    header = PullResponse(suggest_which_broker_id=0, next_begin_offset=1, min_offset=0, max_offset=1, offset_delta=5)
    with pytest.raises(CorruptRecord, match="record at byte 0"):
        located_records(size.to_bytes(4, "big", signed=True) + stored(queue_id=0, offset=0)[4:], header, 0)


def stored(queue_id: int, offset: int) -> bytes:
    host = bytes([127, 0, 0, 1, 0, 0, 42, 159])
    return encode_record(RecordHead(0, 0, 0, queue_id, 0, offset, 0, 0, 1, host, 2, host, 0, 0, 0), "T", b"body", b"")


def test_a_retried_message_shows_its_first_topic(message):
    retried = message(0, topic="%RETRY%g", properties=b"RETRY_TOPIC\x01T\x02")
    stray = message(1, topic="%RETRY%g")
    restore_topic([retried, stray], "%RETRY%g")
    assert (retried.topic, stray.topic) == ("T", "%RETRY%g")
