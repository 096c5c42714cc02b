"""The smallest and largest numbers of queues, permission bits and queue ids that are accepted."""

import pytest

from rocketmq_py.core.queue_limits import (
    MAX_QUEUES,
    MAX_ROUTE_QUEUES,
    clamp_queue_number,
    parse_queue_id,
    perm_fault,
    retry_queues_fault,
    topic_queues_fault,
)


def test_the_limits_of_a_broker_and_of_a_route():
    assert (MAX_QUEUES, MAX_ROUTE_QUEUES) == (8192, 16 * 8192)


@pytest.mark.parametrize(("read", "write"), [(0, 0), (1, 0), (0, 8192), (8192, 8192)])
def test_numbers_of_queues_up_to_the_limit_are_valid(read, write):
    assert topic_queues_fault("T", read, write) is None


@pytest.mark.parametrize(
    ("read", "write", "fault"),
    [
        (-1, 0, "readQueueNums of topic T is -1: 0 to 8192 is expected"),
        (8193, 0, "readQueueNums of topic T is 8193: 0 to 8192 is expected"),
        (0, -1, "writeQueueNums of topic T is -1: 0 to 8192 is expected"),
        (8192, 8193, "writeQueueNums of topic T is 8193: 0 to 8192 is expected"),
    ],
)
def test_numbers_of_queues_beyond_the_limit_have_a_fault(read, write, fault):
    assert topic_queues_fault("T", read, write) == fault


@pytest.mark.parametrize(("perm", "valid"), [(-1, False), (0, True), (7, True), (8, False)])
def test_permission_bits_have_three_bits(perm, valid):
    assert (perm_fault("T", perm) is None) is valid
    assert valid or perm_fault("T", perm) == f"perm of topic T is {perm}: 0 to 7 is expected"


@pytest.mark.parametrize(("number", "valid"), [(-1, False), (0, True), (8192, True), (8193, False)])
def test_retry_queues_of_a_group_have_the_same_limit(number, valid):
    assert (retry_queues_fault("g", number) is None) is valid
    assert valid or retry_queues_fault("g", number) == f"retryQueueNums of group g is {number}: 0 to 8192 is expected"


@pytest.mark.parametrize(
    ("text", "queue_id"),
    [(None, None), ("", None), ("0", 0), ("1", 1), ("8191", 8191), ("8192", None), ("-1", None), ("1.0", None),
     ("0000000007", 7), ("00000000007", None), ("9" * 5000, None), ("x", None), ("²", None)],
)  # fmt: skip
def test_a_queue_id_is_a_short_decimal_number_below_the_limit(text, queue_id):
    assert parse_queue_id(text) == queue_id


@pytest.mark.parametrize(("number", "clamped"), [(-1, 0), (0, 0), (1, 1), (8192, 8192), (8193, 8192)])
def test_a_number_of_queues_is_clamped_to_the_limits(number, clamped):
    assert clamp_queue_number(number) == clamped
