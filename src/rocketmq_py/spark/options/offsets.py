"""Offsets of many queues: how they are written in options, checkpoints and progress reports.

The document is ``{topic: {broker: {queue: offset}}}`` with queue ids as strings, since it travels as JSON. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue

Offsets = dict[MessageQueue, int]
Document = dict[str, dict[str, dict[str, int]]]


START = "$start"
"""Member of the first document of a checkpoint: the offsets where the query began. No topic has this name."""


class Boundary(Enum):
    """An end of a queue instead of a number."""

    EARLIEST = "earliest"
    LATEST = "latest"

    @property
    def number(self) -> int:
        """Its number in a JSON document of offsets."""
        return -2 if self is Boundary.EARLIEST else -1


class Bounds(NamedTuple):
    """What a queue holds: the offset of its oldest message, and the offset its next one will get."""

    earliest: int
    latest: int


class FromGroup(NamedTuple):
    """The committed offsets of a consumer group; the earliest offset of queues without one."""

    group: str


class Times(NamedTuple):
    """The first message of each queue that was stored at or after a time, in ms since 1970.

    :ivar everywhere: the time for every queue, where ``by_queue`` is None.
    :ivar by_queue: the time for each queue; it must name all of them.
    :ivar or_latest: take the end of a queue without such a message instead of failing.
    """

    everywhere: int
    by_queue: dict[MessageQueue, int] | None = None
    or_latest: bool = False


Position: TypeAlias = Boundary | Offsets | FromGroup | Times
"""Where a read starts or ends."""


def to_document(offsets: Mapping[MessageQueue, int]) -> Document:
    """The document of ``offsets``, sorted so that equal offsets are written alike."""
    document: Document = {}
    for queue in sorted(offsets):
        brokers = document.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return document


def from_document(document: Any, least: int = Boundary.EARLIEST.number, *, empty: bool = False) -> Offsets:
    """The offsets of a document.

    :param least: the smallest number allowed.
    :param empty: whether it may name no queue at all, as the checkpoint of a pattern that matched nothing yet.
    :raises ConfigError: it is of another shape; says where.
    """
    offsets: Offsets = {}
    for topic, brokers in _members(document, "the document"):
        if topic == START:
            continue
        for broker, queues in _members(brokers, f"topic {topic!r}"):
            for queue, offset in _members(queues, f"broker {broker!r} of topic {topic!r}"):
                offsets[MessageQueue(topic, broker, _queue_id(queue))] = _offset(offset, topic, broker, queue, least)
    if not offsets and not empty:
        raise ConfigError("no queue is named; expected is {topic: {broker: {queue: offset}}}")
    return offsets


def start_of_document(document: Any) -> Offsets | None:
    """The offsets where a query began, if the document says; errors as :func:`from_document`."""
    return from_document(document[START], 0, empty=True) if START in document else None


def queues_of_document(document: Any) -> frozenset[MessageQueue]:
    """The queues of a document ``{topic: {broker: [queue, ...]}}``.

    :raises ConfigError: it is of another shape; says where.
    """
    form = "{topic: {broker: [queue, ...]}}"
    queues: set[MessageQueue] = set()
    for topic, brokers in _members(document, "the document", form):
        for broker, ids in _members(brokers, f"topic {topic!r}", form):
            if not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids):
                raise ConfigError(f"broker {broker!r} of topic {topic!r} holds {ids!r}; expected is {form}")
            queues.update(MessageQueue(topic, broker, i) for i in ids)
    if not queues:
        raise ConfigError(f"no queue is named; expected is {form}")
    return frozenset(queues)


def _members(value: Any, where: str, form: str = "{topic: {broker: {queue: offset}}}") -> Any:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} holds {value!r}; expected is {form}")
    return value.items()


def _queue_id(text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"{text!r} is no queue id")
    return int(text)


def _offset(value: Any, topic: str, broker: str, queue: str, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{value!r} is no offset for queue {queue} of broker {broker!r}, topic {topic!r}")
    return value
