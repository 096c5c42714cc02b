from rocketmq_py.core.received import annotate, matching, restore_topic, tag_of


def test_the_tag_is_found_wherever_it_stands(message):
    assert tag_of(message(0, properties=b"TAGS\x01a\x02KEYS\x01k\x02")) == "a"
    assert tag_of(message(0, properties=b"KEYS\x01k\x02TAGS\x01b")) == "b"
    assert tag_of(message(0, properties=b"MYTAGS\x01no\x02TAGS\x01c\x02")) == "c"
    assert tag_of(message(0, properties=b"MYTAGS\x01no\x02")) is None
    assert tag_of(message(0, properties=b"TAGS\x01\x02")) is None
    assert tag_of(message(0)) is None


def test_hash_collisions_are_dropped(message):
    colliding = [message(0, properties=b"TAGS\x01Aa\x02"), message(1, properties=b"TAGS\x01BB\x02"), message(2)]
    assert matching(colliding, {"Aa"}) == colliding[:1]
    assert matching(colliding, set()) == colliding


def test_bounds_and_transaction_id_are_added(message):
    plain = message(4, properties=b"UNIQ_KEY\x01U\x02")
    prepared = message(5, properties=b"UNIQ_KEY\x01U\x02TRAN_MSG\x01true\x02")
    looked_at = message(6)
    assert looked_at.properties == {}
    annotate([plain, prepared, looked_at], 1, 9)
    assert plain.properties == {"UNIQ_KEY": "U", "MIN_OFFSET": "1", "MAX_OFFSET": "9"}
    assert looked_at.properties == {"MIN_OFFSET": "1", "MAX_OFFSET": "9"}
    assert (plain.transaction_id, prepared.transaction_id) == (None, "U")
    assert plain.raw_properties == b"UNIQ_KEY\x01U\x02"


def test_a_static_topic_shifts_offsets(message):
    shifted = message(4)
    annotate([shifted], 0, 9, offset_delta=100)
    assert shifted.queue_offset == 104


def test_a_retried_message_shows_its_first_topic(message):
    retried = message(0, topic="%RETRY%g", properties=b"RETRY_TOPIC\x01T\x02")
    stray = message(1, topic="%RETRY%g")
    restore_topic([retried, stray], "%RETRY%g")
    assert (retried.topic, stray.topic) == ("T", "%RETRY%g")
