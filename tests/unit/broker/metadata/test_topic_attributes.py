"""Attributes of topics: the form of changes, values, and what cannot be changed."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.metadata.topic_attributes import alter, has_batch_queues, parse_changes, refuse_mixed
from rocketmq_py.errors import BrokerError

LARGEST = 9_223_372_036_854_775_807


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (None, {}),
        ("", {}),
        ("+a=1", {"+a": "1"}),
        ("+a=1,,-b", {"+a": "1", "-b": ""}),
        ("+a=x=y", {"+a": "x=y"}),
        ("+a=", {"+a": ""}),
    ],
)
def test_changes_are_parsed(text: str | None, changes: dict[str, str]) -> None:
    assert parse_changes(text) == changes


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("a=1", "add/alter attribute format is wrong: a"),
        ("-a=1", "add/alter attribute format is wrong: -a"),
        ("+a", "delete attribute format is wrong: +a"),
        ("a", "delete attribute format is wrong: a"),
        ("+a=1,+a=2", "key duplication: +a"),
        ("-a,-a", "key duplication: -a"),
    ],
)
def test_malformed_changes_are_refused(text: str, remark: str) -> None:
    with pytest.raises(BrokerError) as refused:
        parse_changes(text)
    assert (refused.value.code, refused.value.remark) == (1, remark)


@pytest.mark.parametrize(
    ("current", "changes", "found"),
    [
        (None, {}, {}),
        (None, {"+message.type": "FIFO"}, {"message.type": "FIFO"}),
        (None, {"+queue.type": "BatchCQ", "+cleanup.policy": "DELETE"},
         {"queue.type": "BatchCQ", "cleanup.policy": "DELETE"}),
        ({"message.type": "FIFO"}, {"+message.type": "NORMAL"}, {"message.type": "NORMAL"}),
        ({"message.type": "FIFO", "reserve.time": "1"}, {"-message.type": ""}, {"reserve.time": "1"}),
        ({}, {"+reserve.time": "-1"}, {"reserve.time": "-1"}),
        ({}, {"+reserve.time": "0"}, {"reserve.time": "0"}),
        ({}, {"+reserve.time": str(LARGEST)}, {"reserve.time": str(LARGEST)}),
    ],
)  # fmt: skip
def test_changes_are_made(current: dict[str, str] | None, changes: dict[str, str], found: dict[str, str]) -> None:
    before = dict(current) if current is not None else None
    assert alter(current, changes) == found
    assert current == before


UNKNOWN_TYPE = "value is not in set: [UNSPECIFIED, MIXED, TRANSACTION, PRIORITY, FIFO, DELAY, LITE, NORMAL]"
NO_LITE = (
    "message.type=LITE is not supported by this broker; supported: UNSPECIFIED, MIXED, TRANSACTION, PRIORITY, FIFO, "
    "DELAY, NORMAL"
)
NOT_IN_RANGE = f"value is not in range(-1, {LARGEST})"


@pytest.mark.parametrize(
    ("current", "changes", "remark"),
    [
        (None, {"-message.type": ""}, "only add attribute is supported while creating topic. key: message.type"),
        ({}, {"*message.type": "FIFO"}, "wrong format key: message.type"),
        ({}, {"-message.type": ""}, "attempt to delete a nonexistent key: message.type"),
        ({}, {"+mine": "1"}, "unsupported key: mine"),
        ({"mine": "1"}, {"-mine": ""}, "unsupported key: mine"),
        ({}, {"+queue.type": "BatchCQ"}, "attempt to update an unchangeable attribute. key: queue.type"),
        ({"cleanup.policy": "DELETE"}, {"-cleanup.policy": ""},
         "attempt to update an unchangeable attribute. key: cleanup.policy"),
        ({}, {"+": "1"}, "kv string format wrong."),
        ({}, {"+a+b": "1"}, "kv string format wrong."),
        ({}, {"+a-b": "1"}, "kv string format wrong."),
        ({"message.type": "FIFO"}, {"+message.type": "FIFO", "-message.type": ""},
         "alter duplication key. key: message.type"),
        ({}, {"+message.type": "fifo"}, UNKNOWN_TYPE),
        (None, {"+queue.type": ""}, "value is not in set: [BatchCQ, SimpleCQ]"),
        (None, {"+cleanup.policy": "COMPACTION"},
         "cleanup.policy=COMPACTION is not supported by this broker; supported: DELETE"),
        ({}, {"+message.type": "LITE"}, NO_LITE),
        *(({}, {"+reserve.time": value}, NOT_IN_RANGE)
          for value in ("-2", str(LARGEST + 1), "x", "", "-", "--5", "1.5", "\u0661", "9" * 5_000)),
    ],
)  # fmt: skip
def test_impossible_changes_are_refused_with_java_s_remarks(
    current: dict[str, str] | None, changes: dict[str, str], remark: str
) -> None:
    with pytest.raises(BrokerError) as refused:
        alter(current, changes)
    assert (refused.value.code, refused.value.remark) == (1, remark)


@pytest.mark.parametrize(
    ("attributes", "batched"), [({}, False), ({"queue.type": "SimpleCQ"}, False), ({"queue.type": "BatchCQ"}, True)]
)
def test_batch_queues_are_an_attribute(attributes: dict[str, str], batched: bool) -> None:
    assert has_batch_queues(attributes) is batched


def test_mixed_types_are_refused_unless_allowed() -> None:
    refuse_mixed({"+message.type": "MIXED"}, allowed=True)
    refuse_mixed({"+message.type": "FIFO"}, allowed=False)
    with pytest.raises(BrokerError) as refused:
        refuse_mixed({"+message.type": "MIXED"}, allowed=False)
    assert (refused.value.code, refused.value.remark) == (29, "MIXED message type is not supported.")
