"""Texts in POP headers: the handle of a popped message, and the queues and offsets from which messages were popped.

Formats: ExtraInfoUtil and KeyBuilder of Apache RocketMQ. Words are separated by blanks, entries by semicolons. A *retry
flag* is the kind of topic: ``"0"`` for the subscribed topic, ``"1"`` and ``"2"`` for the group's retry topic of it, in
the first and the second naming scheme.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, Self

import msgspec

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.names import RETRY_PREFIX

_encode = msgspec.json.Encoder().encode

NORMAL = "0"
RETRY_V1 = "1"
RETRY_V2 = "2"

ORDER_REVIVE_QUEUE = 999
"""The revive queue id in handles of orderly pops, which use no revive queue."""

Place = tuple[str, int]
"""A queue of a pop: retry flag and queue id."""


class InitMode(enum.IntEnum):
    """Where pops of a group without an offset start: at the queue's min or max offset."""

    MIN = 0
    MAX = 1


# -- retry topics


def pop_retry_topic(topic: str, group: str, *, v2: bool = False) -> str:
    """Return the retry topic of a topic and group, in which brokers store popped messages that were not acked.

    :param v2: use the second naming scheme, with ``+`` instead of ``_`` between group and topic.
    """
    return f"{RETRY_PREFIX}{group}{'+' if v2 else '_'}{topic}"


def retry_flag(topic: str) -> str:
    """Return the retry flag of a topic: ``1`` or ``2``, the naming scheme of a retry topic; ``0`` for other topics."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def normal_topic(topic: str, group: str) -> str:
    """Return the subscribed topic of a group's pop retry topic; any other topic is returned unchanged."""
    for mark in "+_":
        prefix = f"{RETRY_PREFIX}{group}{mark}"
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return topic


def real_topic(topic: str, group: str, flag: str) -> str:
    """Return the topic to which a retry flag refers: ``topic`` or the group's retry topic of it.

    :raises BadHeader: the flag is unknown.
    """
    if flag == NORMAL:
        return topic
    if flag in (RETRY_V1, RETRY_V2):
        return pop_retry_topic(topic, group, v2=flag == RETRY_V2)
    raise BadHeader(f"retry flag {flag!r} of topic {topic}, group {group} is not known; 0, 1 and 2 are")


# -- the handle


class ExtraInfo(NamedTuple):
    """The handle (receipt) of a popped message, for acking it or changing its invisible time (POP_CK, ``extraInfo``).

    ``start_offset`` is the pop's first offset in the queue, ``pop_time`` the time of the pop in milliseconds since the
    epoch, ``retry`` the retry flag (see :func:`retry_flag`), ``offset`` the queue offset of the message, which is
    missing in some requests.
    """

    start_offset: int
    pop_time: int
    invisible_ms: int
    revive_queue: int
    retry: str
    broker_name: str
    queue_id: int
    offset: int | None = None

    @property
    def is_order(self) -> bool:
        """True if the message was popped by an orderly pop."""
        return self.revive_queue == ORDER_REVIVE_QUEUE

    def encode(self) -> str:
        """Return the handle as text."""
        return " ".join([str(word) for word in self if word is not None])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a handle.

        :raises BadHeader: the text is not a handle of a popped message.
        """
        words = text.split(" ")
        try:
            start, pop_time, invisible, revive, retry, broker, queue, *offset = words
            return cls(
                int(start), int(pop_time), int(invisible), int(revive), retry, broker, int(queue),
                int(offset[0]) if offset else None,
            )  # fmt: skip
        except ValueError:
            raise BadHeader(
                f"{text!r} is not a handle of a popped message: it has 7 or 8 words, most of them numbers"
            ) from None


# -- queues and offsets of popped messages


def start_offset_entry(topic: str, queue_id: int, start: int) -> str:
    """Return an entry of header field startOffsetInfo: the first offset of a pop in a queue."""
    return f"{retry_flag(topic)} {queue_id} {start}"


def msg_offset_entry(topic: str, queue_id: int, offsets: Iterable[int]) -> str:
    """Return an entry of header field msgOffsetInfo: the offsets of the messages popped from a queue."""
    numbers = _encode(list(offsets)).decode()[1:-1]  # a JSON list without its brackets: faster than str for each
    return f"{retry_flag(topic)} {queue_id} {numbers}"


def queue_count_entry(topic: str, queue_id: int, count: int) -> str:
    """Return an entry of header field orderCountInfo: the number of earlier pops of all messages from a queue."""
    return f"{retry_flag(topic)} {queue_id} {count}"


def offset_count_entry(topic: str, queue_id: int, offset: int, count: int) -> str:
    """Return an entry of header field orderCountInfo: the number of earlier pops of one message."""
    return f"{retry_flag(topic)} {offset_count_key(queue_id, offset)} {count}"


def offset_count_key(queue_id: int, offset: int) -> str:
    """Return the key that stands for a single message in an entry of orderCountInfo, after the retry flag."""
    return f"qo{queue_id}%{offset}"


def join_entries(entries: Iterable[str]) -> str:
    """Join entries with semicolons."""
    return ";".join(entries)


def parse_start_offsets(text: str | None) -> dict[Place, int]:
    """Parse startOffsetInfo; return the first offset of the pop by retry flag and queue id, empty for None.

    :raises BadHeader: the text has another format.
    """
    return {(flag, _number(key, text)): _number(value, text) for flag, key, value in _entries(text)}


def parse_msg_offsets(text: str | None) -> dict[Place, list[int]]:
    """Parse msgOffsetInfo; return the offsets of the popped messages by retry flag and queue id, empty for None.

    :raises BadHeader: the text has another format.
    """
    return {
        (flag, _number(key, text)): [_number(offset, text) for offset in value.split(",")]
        for flag, key, value in _entries(text)
    }


def parse_order_counts(text: str | None) -> dict[tuple[str, str], int]:
    """Parse orderCountInfo; return the number of earlier orderly pops, empty for None.

    The keys are pairs of the retry flag and the queue id (for all messages of the queue) or :func:`offset_count_key`
    (for one message).

    :raises BadHeader: the text has another format.
    """
    return {(flag, key): _number(value, text) for flag, key, value in _entries(text)}


def _entries(text: str | None) -> list[tuple[str, str, str]]:
    found: dict[tuple[str, str], tuple[str, str, str]] = {}
    for entry in text.split(";") if text else ():
        words = entry.split(" ")
        if len(words) != 3 or (words[0], words[1]) in found:
            raise BadHeader(
                f"the offset info {text!r} is wrong at {entry!r}: retry flag, key and value, each pair once"
            )
        found[words[0], words[1]] = (words[0], words[1], words[2])
    return list(found.values())


def _number(word: str, text: str | None) -> int:
    try:
        return int(word)
    except ValueError:
        raise BadHeader(f"the offset info {text!r} has {word!r} where a number belongs") from None


# -- sets of small numbers


def encode_bits(numbers: Iterable[int]) -> str:
    """Encode a set of small numbers as base64 of little-endian bits: {0, 3, 9} is ``CQI=``."""
    value = 0
    for number in numbers:
        value |= 1 << number
    return base64.b64encode(value.to_bytes((value.bit_length() + 7) // 8, "little")).decode()


def decode_bits(text: str) -> Sequence[int]:
    """Decode a set of small numbers encoded by :func:`encode_bits`; return them in ascending order.

    Consecutive numbers are returned as a range, with which acks of whole pops need no work for each message. Sets of
    the numbers below 64 are cached: most acks are of whole pops, which are alike.

    :raises BadHeader: the text is not base64.
    """
    return _cached_bits(text) if len(text) <= _CACHED_LENGTH else _decode_bits(text)


def _decode_bits(text: str) -> Sequence[int]:
    try:
        value = int.from_bytes(base64.b64decode(text, validate=True), "little")
    except ValueError as e:
        raise BadHeader(f"{text!r} is not a set of bits: {e}") from e
    lowest = value & -value
    if not value & (value + lowest):
        return range(lowest.bit_length() - 1, value.bit_length()) if value else ()
    return tuple([place for place in range(value.bit_length()) if value >> place & 1])


_cached_bits = lru_cache(maxsize=1024)(_decode_bits)
_CACHED_LENGTH = 12
"""Base64 of 8 bytes."""
