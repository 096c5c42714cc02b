"""Offsets of many queues: how they are written in options, checkpoints and progress reports.

The document is ``{topic: {broker: {queue: offset}}}`` with queue ids as strings, since it travels as JSON. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue

Offsets = dict[MessageQueue, int]
Document = dict[str, dict[str, dict[str, int]]]


class Boundary(Enum):
    """An end of a queue instead of a number."""

    EARLIEST = "earliest"
    LATEST = "latest"

    @property
    def number(self) -> int:
        """What stands for it in a JSON document of offsets."""
        return -2 if self is Boundary.EARLIEST else -1


class Bounds(NamedTuple):
    """What a queue holds: the offset of its oldest message, and the offset its next one will get."""

    earliest: int
    latest: int


def to_document(offsets: Mapping[MessageQueue, int]) -> Document:
    """The document of ``offsets``, sorted so that equal offsets are written alike."""
    document: Document = {}
    for queue in sorted(offsets):
        brokers = document.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return document


def from_document(document: Any) -> Offsets:
    """The offsets of a document.

    :raises ConfigError: it is of another shape; says where.
    """
    offsets: Offsets = {}
    for topic, brokers in _members(document, "the document"):
        for broker, queues in _members(brokers, f"topic {topic!r}"):
            for queue, offset in _members(queues, f"broker {broker!r} of topic {topic!r}"):
                offsets[MessageQueue(topic, broker, _queue_id(queue))] = _offset(offset, topic, broker, queue)
    if not offsets:
        raise ConfigError("no queue is named; expected is {topic: {broker: {queue: offset}}}")
    return offsets


def _members(value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} holds {value!r}; expected is {{topic: {{broker: {{queue: offset}}}}}}")
    return value.items()


def _queue_id(text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"{text!r} is no queue id")
    return int(text)


def _offset(value: Any, topic: str, broker: str, queue: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < Boundary.EARLIEST.number:
        raise ConfigError(f"{value!r} is no offset for queue {queue} of broker {broker!r}, topic {topic!r}")
    return value
