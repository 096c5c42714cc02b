from __future__ import annotations

import pytest

from rocketmq_py.core.broker.topic_group_index import TopicGroupIndex


@pytest.fixture
def index() -> TopicGroupIndex[int]:
    made: TopicGroupIndex[int] = TopicGroupIndex()
    for key, (topic, group) in enumerate([("a", "g"), ("a", "h"), ("b", "g"), ("a", "")]):
        made.add(key, topic, group)
    return made


def test_keys_are_found_by_either(index: TopicGroupIndex[int]) -> None:
    assert index.of_topic("a") == {0: "g", 1: "h", 3: ""}
    assert index.of_group("g") == {0: "a", 2: "b"}
    assert index.of_topic("c") == index.of_group("i") == index.of_group("") == {}


def test_a_removed_key_is_removed_from_both_indexes(index: TopicGroupIndex[int]) -> None:
    assert index.take_topic("a") == {0: "g", 1: "h", 3: ""}
    assert index.of_topic("a") == index.of_group("h") == index.take_topic("a") == {}
    assert index.of_group("g") == {2: "b"}
    assert index.take_group("g") == {2: "b"}
    assert index.of_topic("b") == {}


def test_a_key_can_be_added_twice_and_again_after_removal(index: TopicGroupIndex[int]) -> None:
    index.add(0, "a", "g")
    assert index.take_group("g") == {0: "a", 2: "b"}
    index.add(0, "a", "g")
    assert index.of_topic("a") == {0: "g", 1: "h", 3: ""}


def test_nothing_is_kept_of_names_without_keys(index: TopicGroupIndex[int]) -> None:
    """Names come from clients: a deleted one must not fill the memory."""
    index.take_topic("a")
    assert index._by_group.keys() == {"g"}
    index.take_group("g")
    assert index._by_topic == index._by_group == {}
