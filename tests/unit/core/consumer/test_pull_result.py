from rocketmq_py.core.consumer.pull_result import (
    add_queue_bounds,
    filter_by_tags,
    may_be_transactional,
    restore_topic,
    restore_transaction_ids,
    shift_offsets,
    tag_of,
)


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


def test_a_static_topic_shifts_offsets(message):
    shifted = message(4)
    shift_offsets([shifted], 100)
    assert shifted.queue_offset == 104


def test_a_retried_message_shows_its_first_topic(message):
    retried = message(0, topic="%RETRY%g", properties=b"RETRY_TOPIC\x01T\x02")
    stray = message(1, topic="%RETRY%g")
    restore_topic([retried, stray], "%RETRY%g")
    assert (retried.topic, stray.topic) == ("T", "%RETRY%g")
