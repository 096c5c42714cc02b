from __future__ import annotations

import pytest

from rocketmq_py.broker.metadata.topics import is_readable, is_writable
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol import names


@pytest.mark.parametrize("topic", ["a", "A-b_9", "%RETRY%group", "a|b", "x" * 127])
def test_legal_topics_are_accepted(topic: str) -> None:
    assert names.topic_fault(topic) is None
    assert names.check_topic(topic) == topic


@pytest.mark.parametrize(("topic", "why"), [
    ("", "empty"), ("   ", "empty"), ("a b", "illegal characters"), ("a/b", "illegal characters"),
    ("ä", "illegal characters"),
    ("a\n", "illegal characters"), ("x" * 128, "128 characters long, 127 are allowed"),
])  # fmt: skip
def test_illegal_topics_are_refused(topic: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        names.check_topic(topic)


@pytest.mark.parametrize(
    ("group", "why"), [("", "empty"), ("a b", "illegal characters"), ("g" * 256, "255 are allowed")]
)
def test_illegal_groups_are_refused(group: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        names.check_group(group)


def test_retry_and_dead_letter_topics_are_derived_from_the_group() -> None:
    assert names.check_group("g" * 255)
    assert (names.retry_topic("g"), names.dlq_topic("g")) == ("%RETRY%g", "%DLQ%g")
    assert names.is_retry_topic("%RETRY%g")
    assert not names.is_retry_topic("g")


def test_system_names_are_recognised() -> None:
    assert names.is_system_topic("TBW102")
    assert names.is_system_topic("rmq_sys_anything")
    assert not names.is_system_topic("orders")
    assert names.is_system_group("CID_RMQ_SYS_TRANS")
    assert names.is_system_group("TOOLS_CONSUMER")
    assert not names.is_system_group("orders")


def test_limits_are_those_of_java() -> None:
    assert (names.MAX_TOPIC_LENGTH, names.MAX_RETRY_TOPIC_LENGTH, names.MAX_GROUP_LENGTH) == (127, 255, 255)
    assert names.MAX_MESSAGE_SIZE == 4_194_304


def test_the_words_for_permissions_mean_to_brokers_what_they_say() -> None:
    assert {word: (is_readable(number), is_writable(number)) for word, number in names.PERMISSIONS.items()} == {
        "rw": (True, True), "r": (True, False), "w": (False, True), "none": (False, False),
    }  # fmt: skip
    assert not any(number & 1 for number in names.PERMISSIONS.values()), "they say nothing about inheritance"
