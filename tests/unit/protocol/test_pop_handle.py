from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import pytest
from hypothesis import given, strategies as st

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol import pop_handle
from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.protocol.bodies.pop import BatchAck, BatchAckRequest, MessageRequestModes, QueryAssignmentResponse
from rocketmq_py.protocol.pop_handle import ExtraInfo


def test_a_handle_equals_that_of_java() -> None:
    with_offset = "100 1700000000000 60000 3 1 broker-a 2 104"
    info = ExtraInfo(100, 1_700_000_000_000, 60_000, 3, pop_handle.RETRY_V1, "broker-a", 2, 104)
    assert info.encode() == with_offset
    assert ExtraInfo.parse(with_offset) == info
    assert ExtraInfo.parse("100 1700000000000 60000 3 1 broker-a 2") == info._replace(offset=None)
    assert not info.is_order
    assert info._replace(revive_queue=999).is_order


@pytest.mark.parametrize("text", ["", "1 2 3", "a 2 3 4 0 b 6 7", "1 2 3 4 0 b 6 x"])
def test_an_invalid_handle_is_refused(text: str) -> None:
    with pytest.raises(BadHeader, match="not a handle of a popped message"):
        ExtraInfo.parse(text)


@pytest.mark.parametrize(
    ("topic", "flag", "normal"),
    [("T", "0", "T"), ("%RETRY%g_T", "1", "T"), ("%RETRY%g+T", "2", "T"), ("%RETRY%g_T_1", "1", "T_1"),
     ("%RETRY%other_T", "1", "%RETRY%other_T")],
)  # fmt: skip
def test_retry_topics_are_converted_both_ways(topic: str, flag: str, normal: str) -> None:
    assert pop_handle.retry_flag(topic) == flag
    assert pop_handle.normal_topic(topic, "g") == normal
    if normal != topic:
        assert pop_handle.real_topic(normal, "g", flag) == topic


def test_an_unknown_retry_flag_is_refused() -> None:
    with pytest.raises(BadHeader, match="retry flag '3' of topic T, group g"):
        pop_handle.real_topic("T", "g", "3")


def test_offset_infos_equal_those_of_java() -> None:
    starts = pop_handle.join_entries(
        [pop_handle.start_offset_entry("T", 0, 7), pop_handle.start_offset_entry("%RETRY%g_T", 0, 1)]
    )
    assert starts == "0 0 7;1 0 1"
    assert pop_handle.parse_start_offsets(starts) == {("0", 0): 7, ("1", 0): 1}
    offsets = pop_handle.join_entries([pop_handle.msg_offset_entry("T", 3, [7, 8, 10])])
    assert offsets == "0 3 7,8,10"
    assert pop_handle.parse_msg_offsets(offsets) == {("0", 3): [7, 8, 10]}
    counts = pop_handle.join_entries(
        [pop_handle.queue_count_entry("T", 3, 1), pop_handle.offset_count_entry("T", 3, 7, 2)]
    )
    assert counts == "0 3 1;0 qo3%7 2"
    assert pop_handle.parse_order_counts(counts) == {("0", "3"): 1, ("0", pop_handle.offset_count_key(3, 7)): 2}


@pytest.mark.parametrize("empty", [None, ""])
def test_empty_offset_infos_are_decoded(empty: str | None) -> None:
    assert pop_handle.parse_start_offsets(empty) == {}
    assert pop_handle.parse_msg_offsets(empty) == {}
    assert pop_handle.parse_order_counts(empty) == {}


@pytest.mark.parametrize("text", ["0 1", "0 1 2;0 1 3", "0 1 2 3", "0 1 x", "0 x 1"])
def test_malformed_offset_infos_are_refused(text: str) -> None:
    with pytest.raises(BadHeader, match="offset info"):
        pop_handle.parse_start_offsets(text)


def test_ack_bits_equal_those_of_java() -> None:
    assert pop_handle.encode_bits([0, 3, 9]) == "CQI="
    assert list(pop_handle.decode_bits("CQI=")) == [0, 3, 9]
    assert pop_handle.encode_bits([]) == ""
    with pytest.raises(BadHeader, match="not a set of bits"):
        pop_handle.decode_bits("?")


@given(st.lists(st.integers(0, 2**63 - 1), max_size=5))
def test_offsets_are_written_with_commas(offsets: list[int]) -> None:
    assert pop_handle.msg_offset_entry("T", 3, offsets) == f"0 3 {','.join(map(str, offsets))}"
    assert pop_handle.msg_offset_entry("T", 3, range(8, 11)) == "0 3 8,9,10"


def test_decoded_ack_bits_are_cached_if_they_are_short_and_cannot_be_changed() -> None:
    short, long = pop_handle.encode_bits([0, 63]), pop_handle.encode_bits([0, 80])
    assert pop_handle.decode_bits(short) is pop_handle.decode_bits(short)
    assert pop_handle.decode_bits(long) is not pop_handle.decode_bits(long)
    assert pop_handle.decode_bits(short) == (0, 63)
    for _ in range(2):
        with pytest.raises(BadHeader, match="'=' is not a set of bits"):
            pop_handle.decode_bits("=")


@given(st.sets(st.integers(0, 200)))
def test_ack_bits_are_decoded(numbers: set[int]) -> None:
    assert list(pop_handle.decode_bits(pop_handle.encode_bits(numbers))) == sorted(numbers)


@given(st.integers(0, 100), st.integers(0, 100))
def test_ack_bits_of_neighbours_are_decoded_as_a_range(first: int, count: int) -> None:
    assert list(pop_handle.decode_bits(pop_handle.encode_bits(range(first, first + count)))) == [
        *range(first, first + count)
    ]
    assert isinstance(pop_handle.decode_bits(pop_handle.encode_bits(range(first, first + count + 1))), range)


def test_a_batch_ack_has_the_member_names_of_java() -> None:
    body = b'{"acks":[{"b":"CQI=","c":"g","it":60000,"pt":5,"q":1,"r":"0","rq":2,"so":100,"t":"T"}],"brokerName":"b"}'
    ack = BatchAck(
        consumer_group="g", topic="T", retry="0", start_offset=100, queue_id=1, revive_queue_id=2, pop_time=5,
        invisible_time=60_000, bits="CQI=",
    )  # fmt: skip
    assert BatchAckRequest.decode(body) == BatchAckRequest(broker_name="b", acks=[ack])
    assert BatchAckRequest(broker_name="b", acks=[ack]).encode() == body


VALUES = st.sampled_from([None, 0, "0", "7", 7, -1, 2**31, 2**63, 1.0, 1.5, "x", "", True, [], {}, [1]])
ACK = st.dictionaries(st.sampled_from(["c", "t", "r", "so", "q", "b", "rq", "pt", "it", "other"]), VALUES)
USUAL_ACK = st.fixed_dictionaries(
    {"c": st.just("g"), "t": st.just("T"), "r": st.just("0"), "so": VALUES, "q": VALUES, "rq": st.just(1),
     "pt": st.just("5"), "it": st.just(3)},
    optional={"b": VALUES, "other": VALUES},
)  # fmt: skip
ACKS = st.one_of(
    st.fixed_dictionaries(
        {}, optional={"brokerName": VALUES, "acks": st.lists(st.one_of(USUAL_ACK, ACK)), "x": VALUES}
    ),
    VALUES,
)


@given(ACKS, st.sampled_from(["", " ", "x", ",", "\ud800"]))
def test_batch_acks_are_decoded_in_one_step_as_in_two(acks: object, behind: str) -> None:
    data = msgspec.json.encode(acks) + behind.encode("utf-8", "surrogatepass")

    def result(decode: Callable[[bytes], BatchAckRequest]) -> BatchAckRequest | str:
        try:
            return decode(data)
        except BadHeader as e:
            return str(e)

    general = partial(Body.decode.__func__, BatchAckRequest)  # type: ignore[attr-defined]
    assert result(BatchAckRequest.decode) == result(general)


def test_bodies_of_request_modes_are_decoded_and_encoded() -> None:
    text = b'{"messageRequestModeMap":{"T":{"g":{"consumerGroup":"g","mode":"POP","popShareQueueNum":0,"topic":"T"}}}}'
    assert MessageRequestModes.decode(text).encode() == text
    found = QueryAssignmentResponse.decode(
        b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"b","queueId":-1,"topic":"T"},"mode":"POP"}]}'
    )
    [one] = found.message_queue_assignments or []
    assert (one.message_queue.queue_id, one.mode) == (-1, "POP")
    assert QueryAssignmentResponse.decode(b"{}").message_queue_assignments is None
