"""The JSON document in which options, checkpoints and progress reports name the offsets of many queues.

Its form is ``{topic: {broker: {queue: offset}}}``, with queue ids as strings because JSON keys are strings. No IO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue

Offsets = dict[MessageQueue, int]
Document = dict[str, dict[str, dict[str, int]]]


START = "$start"
"""Extra key of a checkpoint's first document, whose value is the document of the query's starting offsets.

No topic can have this name.
"""


class Boundary(Enum):
    """A symbolic offset: the earliest or the latest of a queue."""

    EARLIEST = "earliest"
    LATEST = "latest"

    @property
    def number(self) -> int:
        """The number that means this boundary in a JSON document of offsets: -2 earliest, -1 latest."""
        return -2 if self is Boundary.EARLIEST else -1


class Bounds(NamedTuple):
    """The offset of a queue's oldest message, and the offset that its next message will get."""

    earliest: int
    latest: int


class FromGroup(NamedTuple):
    """A position: the offset that a consumer group has committed for each queue; the earliest one if it has none."""

    group: str


class Times(NamedTuple):
    """A position: the first message of each queue that was stored at or after a time, in ms since 1970.

    A negative time is relative: so many milliseconds before the time at which the read is planned.

    :ivar everywhere: the time for all queues; ignored if ``by_queue`` is given.
    :ivar by_queue: the time for each queue; it must name every queue of the read. None: ``everywhere`` is used.
    :ivar or_latest: use the latest offset of a queue that has no such message, instead of failing.
    """

    everywhere: int
    by_queue: dict[MessageQueue, int] | None = None
    or_latest: bool = False


Position: TypeAlias = Boundary | Offsets | FromGroup | Times
"""The start or end of a read: the same boundary for all queues, an offset for each, a group's offsets, or times."""


def to_document(offsets: Mapping[MessageQueue, int]) -> Document:
    """Return ``{topic: {broker: {queue: offset}}}``, sorted so that equal offsets give equal JSON."""
    document: Document = {}
    for queue in sorted(offsets):
        brokers = document.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return document


def from_document(document: Any, least: int = Boundary.EARLIEST.number, *, empty: bool = False) -> Offsets:
    """Return the offset of each queue that a document ``{topic: {broker: {queue: offset}}}`` names.

    :param least: the smallest offset allowed; -2 by default, so that -2 (earliest) and -1 (latest) are accepted.
    :param empty: accept a document without queues, such as the checkpoint of a pattern that no topic matches yet.
    :raises ConfigError: the document has another form; the message names the wrong member.
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


def moments_of_document(document: Any, moment: Callable[[str], int]) -> Offsets:
    """Return the time of each queue in a document ``{topic: {broker: {queue: time}}}``.

    :param moment: parses a time that is given as text, such as a relative one.
    :raises ConfigError: the document has another form, or a time is illegal; the message names the wrong member.
    """
    numbers = {
        topic: {
            broker: {
                queue: moment(time) if isinstance(time, str) else _offset(time, topic, broker, queue, 0)
                for queue, time in _members(queues, f"broker {broker!r} of topic {topic!r}")
            }
            for broker, queues in _members(brokers, f"topic {topic!r}")
        }
        for topic, brokers in _members(document, "the document")
    }
    return from_document(numbers, _LONG_AGO)


_LONG_AGO = -(1 << 62)


def start_of_document(document: Any) -> Offsets | None:
    """Return the query's starting offsets from a checkpoint's document; None if the document does not have them.

    :raises ConfigError: as :func:`from_document`.
    """
    return from_document(document[START], 0, empty=True) if START in document else None


def queues_of_document(document: Any) -> frozenset[MessageQueue]:
    """Return the queues that a document ``{topic: {broker: [queue, ...]}}`` names.

    :raises ConfigError: the document has another form or names no queue; the message names the wrong member.
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
