"""The topic whose permissions cover a record."""

from __future__ import annotations

import pytest

from rocketmq_py.core.access.record_topics import real_topic


@pytest.mark.parametrize(
    ("stored_in", "expected"),
    [
        ("t", "t"), ("RMQ_SYS_TRANS_HALF_TOPIC", "real"), ("SCHEDULE_TOPIC_XXXX", "real"),
        ("rmq_sys_wheel_timer", "real"), ("%RETRY%g", "%RETRY%g"), ("%RETRY%g+t", "%RETRY%g"),
    ],
)  # fmt: skip
def test_deferred_messages_are_those_of_the_topic_they_were_sent_to(stored_in: str, expected: str) -> None:
    assert real_topic(stored_in, lambda: {"REAL_TOPIC": "real"}) == expected


def test_a_deferred_message_without_a_topic_is_one_of_the_internal_topic() -> None:
    assert real_topic("SCHEDULE_TOPIC_XXXX", dict) == "SCHEDULE_TOPIC_XXXX"


def test_properties_are_decoded_only_where_they_matter() -> None:
    assert real_topic("t", lambda: pytest.fail("they do not matter")) == "t"
