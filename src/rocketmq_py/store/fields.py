"""What queues and index take from a record's properties.

Knows the stored form of properties and a few of their names. Looks single values up in the bytes: decoding all of them
would cost more than everything else the store does with a message.
"""

from __future__ import annotations

from rocketmq_py.wire.javahash import tags_code

TAGS = b"TAGS"
KEYS = b"KEYS"
UNIQ_KEY = b"UNIQ_KEY"
DELAY = b"DELAY"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"


def value_span(properties: bytes, name: bytes) -> tuple[int, int] | None:
    """Where the value of a property is; None when it is absent or empty. The last of several counts, as in Java."""
    mark = name + b"\x01"
    at = properties.rfind(b"\x02" + mark)
    if at >= 0:
        begin = at + 1 + len(mark)
    elif properties.startswith(mark):
        begin = len(mark)
    else:
        return None
    end = properties.find(b"\x02", begin)
    end = len(properties) if end < 0 else end
    return (begin, end) if end > begin else None


def value(properties: bytes, name: bytes) -> str | None:
    """The value of a property; None when it is absent or empty."""
    span = value_span(properties, name)
    return properties[span[0] : span[1]].decode("utf-8", "replace") if span else None


def stored_tags_code(topic: str, properties: bytes, store_timestamp: int, delays: list[int]) -> int:
    """The tags code of a record's consume queue entry: its tags' hash, or its deliver time in the delay topic.

    :param delays: milliseconds of the delay levels, level 1 first.
    """
    if topic == SCHEDULE_TOPIC:
        level = value(properties, DELAY)
        if level is not None and level.isdecimal() and int(level) > 0:
            return store_timestamp + delays[min(int(level), len(delays)) - 1]
    return tags_code(value(properties, TAGS))
