import zlib

import pytest

from rocketmq_py.core.consumer.pull_result import (
    add_queue_bounds,
    damaged_offsets,
    filter_by_tags,
    located_records,
    may_be_transactional,
    pulled_messages,
    queue_end,
    restore_topic,
    restore_transaction_ids,
    tag_of,
)
from rocketmq_py.errors import BadHeader, CorruptRecord
from rocketmq_py.model import MessageQueue, RecordHead
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.wire.compression import DecompressionLimits
from rocketmq_py.wire.record import BodyRules, encode_record


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


# -- damaged, undecodable and postponed messages

QUEUE = MessageQueue("T", "broker-a", 1)


def header_to(following: int, damaged: str | None = None) -> PullResponse:
    return PullResponse(
        suggest_which_broker_id=0, next_begin_offset=following, min_offset=2, max_offset=99, damaged=damaged
    )


def compressed(offset: int, body: bytes, properties: bytes = b"") -> bytes:
    host = bytes([127, 0, 0, 1, 0, 0, 42, 159])
    return encode_record(RecordHead(0, 0, 0, 1, 0, offset, 0, 1, 1, host, 2, host, 0, 0, 0), "T", body, properties)


def offsets(found) -> list[int]:
    return [message.queue_offset for message in found.messages]


def undecoded(found) -> list[int]:
    return [record.message.queue_offset for record in found.undecoded]


def test_a_sound_pull_ends_at_the_suggested_offset_and_has_bounds() -> None:
    found = pulled_messages(stored(1, 4) + stored(1, 5), header_to(9), QUEUE, 4, ())
    assert (offsets(found), found.next_offset, found.undecoded, found.damage) == ([4, 5], 9, (), None)
    assert {message.broker_name for message in found.messages} == {"broker-a"}
    bounds = {(message.properties["MIN_OFFSET"], message.properties["MAX_OFFSET"]) for message in found.messages}
    assert bounds == {("2", "99")}
    assert queue_end(found.messages) == 99
    assert queue_end([]) == 0


def test_only_prepared_messages_get_a_transaction_id() -> None:
    prepared = b"UNIQ_KEY\x01U\x02TRAN_MSG\x01true\x02"
    body = compressed(4, zlib.compress(b"a"), prepared) + compressed(5, zlib.compress(b"b"), b"UNIQ_KEY\x01V\x02")
    found = pulled_messages(body, header_to(6), QUEUE, 4, ()).messages
    assert [message.transaction_id for message in found] == ["U", None]


@pytest.mark.parametrize(
    ("damaged", "left_out"),
    [(None, []), ("5", [5]), ("8,5,7", [5, 7, 8]), ("3", []), ("4", [4]), ("9", []), ("8", [8]), ("-1,100", [])],
)
def test_damaged_offsets_count_within_the_pull(damaged: str | None, left_out: list[int]) -> None:
    assert damaged_offsets(header_to(9, damaged), 4) == left_out


@pytest.mark.parametrize("damaged", ["", "x", "5,", "5;6"])
def test_a_malformed_list_of_damaged_offsets_is_refused(damaged: str) -> None:
    with pytest.raises(BadHeader, match="of a pull's answer is no list of offsets"):
        damaged_offsets(header_to(9, damaged), 4)


def test_messages_stop_before_the_first_damaged_one() -> None:
    found = pulled_messages(stored(1, 4) + stored(1, 5) + stored(1, 7), header_to(9, "6,8"), QUEUE, 4, ())
    assert (offsets(found), found.next_offset, undecoded(found)) == ([4, 5], 6, [])
    assert str(found.damage) == "its broker found it damaged and does not send it"


def test_messages_that_cannot_be_decoded_are_told_apart() -> None:
    body = stored(1, 4) + compressed(5, b"no zlib") + stored(1, 6)
    found = pulled_messages(body, header_to(9), QUEUE, 4, ())
    assert (offsets(found), undecoded(found), found.next_offset, found.damage) == ([4, 6], [5], 9, None)


@pytest.mark.parametrize(("damaged", "kept"), [("6", [5]), ("5", []), ("4", [])])
def test_undecodable_messages_behind_a_damaged_one_come_later(damaged: str, kept: list[int]) -> None:
    body = b"".join(compressed(offset, b"no zlib") for offset in (5, 7))
    found = pulled_messages(body, header_to(9, damaged), QUEUE, 4, ())
    assert (undecoded(found), found.next_offset) == (kept, int(damaged))


def test_undecodable_messages_with_other_tags_are_left_out() -> None:
    body = compressed(4, b"no zlib", b"TAGS\x01a\x02") + compressed(5, b"no zlib", b"TAGS\x01b\x02")
    assert undecoded(pulled_messages(body, header_to(9), QUEUE, 4, {"b"})) == [5]
    assert undecoded(pulled_messages(body, header_to(9), QUEUE, 4, ())) == [4, 5]


@pytest.mark.parametrize(("body", "following"), [(stored(1, 4), 5), (compressed(4, b"no zlib"), 5), (b"", 4)])
def test_the_next_pull_begins_at_a_damaged_record(body: bytes, following: int) -> None:
    found = pulled_messages(body + b"\0\0\0\5damage", header_to(9), QUEUE, 4, ())
    assert found.next_offset == following
    assert found.damage is not None
    assert len(found.messages) + len(found.undecoded) == following - 4


def test_a_record_of_another_queue_is_damage() -> None:
    found = pulled_messages(stored(2, 4), header_to(9), QUEUE, 4, ())
    assert (offsets(found), found.next_offset, found.damage is None) == ([], 4, False)


def test_damage_in_a_logical_queue_leaves_all_out() -> None:
    header = header_to(9)
    header.offset_delta = 100
    found = pulled_messages(b"\0\0\0\5", header, MessageQueue("T", "__syslo__global__", 7), 104, ())
    assert (offsets(found), found.next_offset, found.damage is None) == ([], 104, False)


SMALL = BodyRules(DecompressionLimits(max_body=1000, max_total=1500))


@pytest.mark.parametrize(
    ("damaged", "messages", "following", "has_damage"),
    [(None, [4], 5, False), ("5", [4], 5, True), ("7", [4], 5, False), ("4", [], 4, True)],
)
def test_messages_beyond_the_limit_of_a_response_are_pulled_again(
    damaged: str | None, messages: list[int], following: int, has_damage: bool
) -> None:
    body = b"".join(compressed(offset, zlib.compress(bytes(1000))) for offset in (4, 5, 6))
    found = pulled_messages(body, header_to(9, damaged), QUEUE, 4, (), SMALL)
    assert (offsets(found), found.next_offset, found.damage is not None) == (messages, following, has_damage)
