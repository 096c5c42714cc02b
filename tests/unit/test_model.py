"""Messages as applications make them."""

from __future__ import annotations

import array

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import (
    Message,
    MessageExt,
    MessageQueue,
    RecordHead,
    SendResult,
    SendStatus,
    TransactionSendResult,
    TransactionState,
)


@pytest.mark.parametrize("body", [b"abc", bytearray(b"abc"), memoryview(b"abc"), "abc", array.array("b", b"abc")])
def test_a_body_is_bytes_like_or_text(body: object) -> None:
    assert Message("t", body).body == b"abc"  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [3, None, 1.5, [1, 2], {"a": 1}, object])
def test_another_body_is_refused_by_name(body: object) -> None:
    with pytest.raises(TypeError, match="bytes-like or str is expected") as caught:
        Message("t", body)  # type: ignore[arg-type]
    assert repr(body) in str(caught.value)
    assert type(body).__name__ in str(caught.value)


def test_a_priority_is_javas_property() -> None:
    message = Message("t", b"x", priority=3)
    assert message.properties["_SYS_MSG_PRIORITY_"] == "3"
    assert message.priority == 3
    assert Message("t", b"x").priority is None


@pytest.mark.parametrize("priority", [-1, 2**31, 1.5, "3", True])
def test_another_priority_is_refused_by_name(priority: object) -> None:
    with pytest.raises(ConfigError, match="priority="):
        Message("t", b"x", priority=priority)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "priority"), [("7", 7), ("", None), ("-1", None), ("x", None), ("9" * 5000, None)])
def test_a_stored_priority_is_read_or_absent(text: str, priority: int | None) -> None:
    assert Message("t", b"x", properties={"_SYS_MSG_PRIORITY_": text}).priority == priority


def test_the_longest_priority_is_javas_largest_int() -> None:
    assert Message("t", b"x", priority=2**31 - 1).priority == 2**31 - 1


@pytest.mark.parametrize(("transaction_id", "expected"), [("T1", "T1"), (None, "M1")])
def test_a_transaction_has_its_own_id_or_that_of_its_message(transaction_id: str | None, expected: str) -> None:
    half = SendResult(SendStatus.SEND_OK, "M1", MessageQueue("t", "b", 0), 0, "O1", transaction_id)
    assert TransactionSendResult(half, TransactionState.COMMIT).transaction_id == expected


@pytest.mark.parametrize(("raw", "level"), [(b"", 0), (b"DELAY\x013\x02", 3)])
def test_a_message_has_a_delay_level_or_none(raw: bytes, level: int) -> None:
    head = RecordHead(0, 0, 0, 0, 0, 0, 0, 0, 1, bytes(8), 2, bytes(8), 0, 0, 0)
    assert MessageExt(head, "t", b"x", raw).delay_level == level


def test_a_message_of_topic_and_body_has_nothing_else() -> None:
    message = Message("t", b"x")
    assert (message.topic, message.body, message.flag, message.tags, message.keys) == ("t", b"x", 0, None, None)
