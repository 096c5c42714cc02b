"""Fields of a record's properties that consume queues and index need.

All functions work on the encoded properties (bytes): decoding is not needed here.
"""

from __future__ import annotations

from functools import lru_cache

from rocketmq_py.wire.java_hash import string_hash

TAGS = b"TAGS"
KEYS = b"KEYS"
UNIQ_KEY = b"UNIQ_KEY"
DELAY = b"DELAY"
INNER_NUM = b"INNER_NUM"
INNER_BATCH_FLAGS = 0xC0
"""System flags of a record whose body is a batch that consumers split."""
_INNER_BATCH = 0x80
_TRANSACTION = 0xC
"""System flags of the kind of a transactional message."""
_PREPARED, _ROLLBACK = 0x4, 0xC
_NEXT = 2
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"


def parse(properties: bytes) -> dict[bytes, bytes]:
    """Decode properties by Java's rules: empty values are dropped, the last of several equal names counts."""
    found = {}
    for entry in properties.split(b"\x02"):
        name, _, value = entry.partition(b"\x01")
        if value:
            found[name] = value
    return found


def value_span(properties: bytes, name: bytes) -> tuple[int, int] | None:
    """Return begin and end (exclusive) of the value that :func:`parse` returns for ``name``; None if there is none."""
    mark = name + b"\x01"
    at = properties.rfind(mark)
    while at >= 0:
        begin = at + len(mark)
        end = properties.find(b"\x02", begin)
        end = len(properties) if end < 0 else end
        if end > begin and (at == 0 or properties[at - 1] == _NEXT):
            return begin, end
        at = properties.rfind(mark, 0, at)
    return None


def differing_spans(one: bytes, other: bytes) -> list[tuple[int, int]] | None:
    """Return begin and end (exclusive) of each value that differs between two encoded properties of equal length.

    None if anything else than values differs, or if the tags differ.
    """
    if one == other:
        return []
    spans, at = [], 0
    for mine, others in zip(one.split(b"\x02"), other.split(b"\x02"), strict=False):
        if mine != others:
            name, _, value = mine.partition(b"\x01")
            if len(mine) != len(others) or not value or name == TAGS or not others.startswith(name + b"\x01"):
                return None
            spans.append((at + len(name) + 1, at + len(mine)))
        at += len(mine) + 1
    return spans


@lru_cache(maxsize=4096)
def tags_code(tags: bytes | None) -> int:
    """Java's hash of tags in UTF-8, 0 for none."""
    return string_hash(tags.decode("utf-8", "replace")) if tags else 0


def stored_tags_code(topic: str, properties: dict[bytes, bytes], store_timestamp: int, delays: list[int]) -> int:
    """Return the tags code of a record's consume queue entry: the hash of its tags.

    In the delay topic it is the delivery time instead, in milliseconds since the epoch.

    :param delays: milliseconds of the delay levels, level 1 first.
    """
    if topic == SCHEDULE_TOPIC:
        level = properties.get(DELAY, b"")
        if level.isdigit() and int(level) > 0:
            return store_timestamp + delays[min(int(level), len(delays)) - 1]
    return tags_code(properties.get(TAGS))


def inner_batch(count: int, base: int) -> bytes:
    """Encoded properties of an inner batch: number of messages, and queue offset of the first."""
    return b"INNER_NUM\x01%d\x02INNER_BASE\x01%d\x02" % (count, base)


def has_entry(sys_flag: int) -> bool:
    """True if a record has a consume queue entry: half messages and records of rollbacks have none."""
    return sys_flag & _TRANSACTION not in (_PREPARED, _ROLLBACK)


def is_inner_batch(sys_flag: int) -> bool:
    """True if the body of a record is a batch."""
    return bool(sys_flag & _INNER_BATCH)


def inner_count(sys_flag: int, properties: dict[bytes, bytes]) -> int:
    """Number of messages in a record: that of its ``INNER_NUM`` for an inner batch, otherwise 1."""
    text = properties.get(INNER_NUM, b"") if is_inner_batch(sys_flag) else b""
    return int(text) if text.isdigit() else 1
