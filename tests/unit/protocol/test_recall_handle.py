"""Recall handles of version 1."""

from __future__ import annotations

import base64

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.recall_handle import RecallHandle

HANDLE = RecallHandle("t", "b", 1700000000000, "KEY")


def text(words: str) -> str:
    return base64.urlsafe_b64encode(words.encode()).decode()


def test_a_handle_is_base64_of_five_words() -> None:
    assert HANDLE.encode() == text("v1 t b 1700000000000 KEY")
    assert RecallHandle.decode(HANDLE.encode()) == HANDLE


@pytest.mark.parametrize("key", ["K", "KE", "KEY", "KEYS", "\xfb\xff"])
def test_padding_may_be_missing(key: str) -> None:
    expected = HANDLE._replace(unique_key=key)
    assert RecallHandle.decode(expected.encode().rstrip("=")) == expected


@pytest.mark.parametrize(
    ("word", "timestamp"),
    [("0", 0), ("9" * 19, int("9" * 19)), ("1" + "0" * 19, -1), ("-5", -1), ("x", -1), ("", -1), ("\u0663", -1)],
)
def test_an_invalid_timestamp_is_minus_one(word: str, timestamp: int) -> None:
    assert RecallHandle.decode(text(f"v1 t b {word} KEY")) == HANDLE._replace(timestamp=timestamp)


def test_more_words_are_ignored() -> None:
    assert RecallHandle.decode(text("v1 t b 1700000000000 KEY more")) == HANDLE


@pytest.mark.parametrize(
    "handle", ["", "?", "a", text("v1 t b 1"), text("v2 t b 1 KEY"), base64.urlsafe_b64encode(b"\xff v1").decode()]
)
def test_other_texts_are_no_handles(handle: str) -> None:
    with pytest.raises(ConfigError, match="recall handle is invalid"):
        RecallHandle.decode(handle)
