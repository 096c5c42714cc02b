"""Places of messages in URLs and forms: ``broker:queue:offset``, and offsets of a reset."""

from __future__ import annotations

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue

MOST = 200
"""Number of dead letters that one request resends."""


def parse_pick(topic: str, text: str) -> tuple[MessageQueue, int]:
    """Parse the place of a message: its queue and its offset.

    :raises ConfigError: the text has another form.
    """
    broker, *numbers = text.rsplit(":", 2)
    if len(numbers) != 2 or not broker or not all(map(_is_number, numbers)):
        raise ConfigError(f"{text[:80]!r} is no place of a message: BROKER:QUEUE:OFFSET")
    queue_id, offset = map(int, numbers)
    return MessageQueue(topic, broker, queue_id), offset


def pick_of(broker: str, queue: int, offset: int) -> str:
    """Return the text that :func:`parse_pick` parses."""
    return f"{broker}:{queue}:{offset}"


def parse_move(topic: str, text: str) -> tuple[MessageQueue, int | None, int]:
    """Parse one queue of a reset: its old offset (None if it has none) and its new one.

    :raises ConfigError: the text has another form.
    """
    place, _, to = text.rpartition(":")
    broker, *numbers = place.rsplit(":", 2)
    if len(numbers) != 2 or not broker or not _is_number(numbers[0]) or not _is_number(to):
        raise ConfigError(f"{text[:80]!r} is no queue of a reset: BROKER:QUEUE:FROM:TO")
    if numbers[1] and not _is_number(numbers[1]):
        raise ConfigError(f"{text[:80]!r} has an old offset that is no number")
    return MessageQueue(topic, broker, int(numbers[0])), int(numbers[1]) if numbers[1] else None, int(to)


def move_of(broker: str, queue: int, old: int | None, new: int) -> str:
    """Return the text that :func:`parse_move` parses."""
    return f"{broker}:{queue}:{'' if old is None else old}:{new}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19
