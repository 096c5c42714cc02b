"""What queues and index take from a record's properties.

Knows the stored form of properties and a few of their names. Looks single values up in the bytes: decoding all of them
would cost more than everything else the store does with a message.
"""

from __future__ import annotations

from functools import lru_cache

from rocketmq_py.wire.javahash import string_hash

TAGS = b"TAGS\x01"
KEYS = b"KEYS\x01"
UNIQ_KEY = b"UNIQ_KEY\x01"
DELAY = b"DELAY\x01"
_NEXT = 2
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"


def value_span(properties: bytes, mark: bytes) -> tuple[int, int] | None:
    """Where the value of a property is; None when it is absent or empty. The last of several counts, as in Java.

    :param mark: the property's name and the separator behind it.
    """
    begin = properties.rfind(mark)
    while begin > 0 and properties[begin - 1] != _NEXT:
        begin = properties.rfind(mark, 0, begin)
    if begin < 0:
        return None
    begin += len(mark)
    end = properties.find(b"\x02", begin)
    if end < 0:
        end = len(properties)
    return (begin, end) if end > begin else None


def value(properties: bytes, mark: bytes) -> bytes | None:
    """The value of a property in UTF-8; None when it is absent or empty."""
    if mark not in properties:
        return None
    span = value_span(properties, mark)
    return properties[span[0] : span[1]] if span else None


@lru_cache(maxsize=4096)
def _code(tags: bytes) -> int:
    return string_hash(tags.decode("utf-8", "replace"))


def tags_code(properties: bytes) -> int:
    """The hash of the tags in a record's properties, 0 for none."""
    tags = value(properties, TAGS)
    return _code(tags) if tags is not None else 0


def stored_tags_code(topic: str, properties: bytes, store_timestamp: int, delays: list[int]) -> int:
    """The tags code of a record's consume queue entry: its tags' hash, or its deliver time in the delay topic.

    :param delays: milliseconds of the delay levels, level 1 first.
    """
    if topic == SCHEDULE_TOPIC:
        level = value(properties, DELAY)
        if level is not None and level.isdigit() and int(level) > 0:
            return store_timestamp + delays[min(int(level), len(delays)) - 1]
    return tags_code(properties)
