"""The audit of a chaos run: compares acknowledgements of producers with what consumers did.

Gets acknowledgements, deliveries and committed offsets with their times, and checks the rules they must follow. It has
no sockets and no clock.
"""

from __future__ import annotations

import enum
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from rocketmq_py.model import MessageQueue


class MessageId(NamedTuple):
    """The ``number``-th message of its ``lane``. Numbers of ordered lanes have no gaps."""

    lane: str
    number: int

    def __str__(self) -> str:
        return f"{self.lane}/{self.number}"

    @classmethod
    def of(cls, body: bytes | str) -> MessageId:
        """The id in the body of a message.

        :raises ValueError: the body contains none.
        """
        text = body.decode() if isinstance(body, bytes) else body
        lane, _, number = text.partition("/")
        return cls(lane, int(number))


class Acknowledged(NamedTuple):
    """A broker has confirmed a message. Times are seconds of the machine's monotonic clock, here and below."""

    at: float
    message_id: MessageId
    queue: MessageQueue
    offset: int


class Step(enum.Enum):
    """What a member of a group does."""

    BEGIN = "B"
    """A listener is called with a message."""
    END = "E"
    """It is done with it."""
    GONE = "G"
    """The member was killed or stopped: what it had begun counts as given up."""


class Report(NamedTuple):
    """What a member of a consumer group said it did; of a member that is gone, only who and when count."""

    at: float
    member: str
    step: Step
    queue: MessageQueue = MessageQueue("", "", 0)
    offset: int = 0
    message_id: MessageId = MessageId("", 0)


class Committed(NamedTuple):
    """A broker said up to where a group has consumed; ``at`` is when its answer had come."""

    at: float
    queue: MessageQueue
    offset: int


@dataclass(slots=True)
class Figures:
    """How much there was of what, and how long it took at worst, in seconds."""

    sent: int = 0
    acknowledged: int = 0
    consumed: int = 0
    duplicates: int = 0
    longest_send: float = 0.0
    """From the first attempt of a message to its acknowledgement."""
    longest_wait: float = 0.0
    """From an acknowledgement to the end of the first consumption."""


class Audit:
    """Takes events as they happen, from any thread, and holds each against all before it.

    :param ordered: topics whose messages are consumed in order.
    """

    def __init__(self, ordered: Iterable[str] = ()) -> None:
        self.changed = threading.Condition()
        """Held while anything here changes; notified of every acknowledgement and consumption."""
        self.open: set[MessageId] = set()
        """What was acknowledged and has not been consumed."""
        self.acknowledged_by: Counter[str] = Counter()
        """Acknowledgements by topic, by broker, and by lane."""
        self.consumed_from: Counter[str] = Counter()
        """Ends of deliveries by topic, by broker, and by lane."""
        self._acknowledged: list[Acknowledged] = []
        self._reports: list[Report] = []
        self._committed: list[Committed] = []
        self._ordered = frozenset(ordered)
        self._seen: set[MessageId] = set()
        self._places: dict[tuple[MessageQueue, int], MessageId] = {}
        self._done: dict[MessageId, float] = {}
        self._queues: dict[MessageQueue, _Queue] = defaultdict(_Queue)
        self._lanes: dict[str, int] = defaultdict(int)
        self._figures = Figures()

    def acknowledge(self, ack: Acknowledged) -> None:
        """Take down that a broker has confirmed a message."""
        with self.changed:
            self._acknowledged.append(ack)
            if ack.message_id not in self._seen:
                self.open.add(ack.message_id)
            self.acknowledged_by.update((ack.queue.topic, ack.queue.broker_name, ack.message_id.lane))
            self.changed.notify_all()

    def report(self, report: Report) -> None:
        """Take down what a consumer did."""
        with self.changed:
            self._reports.append(report)
            if report.step is Step.END:
                self._seen.add(report.message_id)
                self.open.discard(report.message_id)
                self.consumed_from.update((report.queue.topic, report.queue.broker_name, report.message_id.lane))
                self.changed.notify_all()

    def commit(self, committed: Committed) -> None:
        """Take down what a broker said of a group's offset."""
        with self.changed:
            self._committed.append(committed)

    def finish(self) -> tuple[list[str], Figures]:
        """Hold what was taken down since the last call against the rules.

        To be called when nothing is under way. Every acknowledged message must have been consumed by now, at the place
        it was acknowledged for; queues in order must have been consumed by one member at a time, each lane without
        gaps; an offset must never have been committed before everything up to it was done.

        :returns: what was not so, and the figures since the last call, without ``sent`` and ``longest_send``.
        """
        with self.changed:
            acknowledged, self._acknowledged = self._acknowledged, []
            reports, self._reports = self._reports, []
            committed, self._committed = self._committed, []
        self._figures = Figures(acknowledged=len(acknowledged))
        faults = [fault for ack in acknowledged for fault in self._acknowledge(ack)]
        events: list[Report | Committed] = [*reports, *committed]
        for event in sorted(events, key=attrgetter("at")):
            faults += self._commit(event) if isinstance(event, Committed) else self._step(event)
        for ack in acknowledged:
            done = self._done.get(ack.message_id)
            if done is None:
                faults.append(f"{ack.message_id}, acknowledged at {_place(ack)}, was never consumed")
            else:
                self._figures.longest_wait = max(self._figures.longest_wait, done - ack.at)
        return faults, self._figures

    # -- the rules

    def _acknowledge(self, ack: Acknowledged) -> list[str]:
        other = self._places.setdefault((ack.queue, ack.offset), ack.message_id)
        if other == ack.message_id:
            return []
        return [f"{_place(ack)} was acknowledged for {ack.message_id} and holds {other}"]

    def _step(self, report: Report) -> list[str]:
        if report.step is Step.BEGIN:
            return self._begin(report)
        if report.step is Step.END:
            self._finish(report)
        else:
            self._cancel_calls(report.member)
        return []

    def _begin(self, report: Report) -> list[str]:
        faults = []
        other = self._places.setdefault((report.queue, report.offset), report.message_id)
        if other != report.message_id:
            faults.append(f"{report.member} got {report.message_id} at {_place(report)}, where {other} belongs")
        if report.queue.topic in self._ordered:
            queue = self._queues[report.queue]
            if queue.busy is not None and queue.busy[0] != report.member:
                faults.append(
                    f"{report.member} began {report.message_id} at {_place(report)} while {queue.busy[0]} was still "
                    f"at work on offset {queue.busy[1]}"
                )
            queue.busy = (report.member, report.offset)
            last = self._lanes[report.message_id.lane]
            if report.message_id.number > last + 1:
                faults.append(
                    f"{report.member} began {report.message_id} at {_place(report)}, the last one done was {last}"
                )
        return faults

    def _finish(self, report: Report) -> None:
        self._figures.consumed += report.message_id not in self._done
        self._figures.duplicates += report.message_id in self._done
        self._done.setdefault(report.message_id, report.at)
        queue = self._queues[report.queue]
        queue.done(report.offset)
        if queue.busy == (report.member, report.offset):
            queue.busy = None
        if report.queue.topic in self._ordered and report.message_id.number == self._lanes[report.message_id.lane] + 1:
            self._lanes[report.message_id.lane] += 1

    def _cancel_calls(self, member: str) -> None:
        for queue in self._queues.values():
            if queue.busy is not None and queue.busy[0] == member:
                queue.busy = None

    def _commit(self, committed: Committed) -> list[str]:
        first = self._queues[committed.queue].first_open
        if committed.offset <= first:
            return []
        return [f"offset {committed.offset} of {_queue(committed.queue)} was committed, and {first} had not been done"]


@dataclass(slots=True)
class _Queue:
    """How far a queue was consumed. Everything below ``first_open`` has been done at least once."""

    first_open: int = 0
    busy: tuple[str, int] | None = None
    _ahead: set[int] = field(default_factory=set)

    def done(self, offset: int) -> None:
        if offset >= self.first_open:
            self._ahead.add(offset)
        while self.first_open in self._ahead:
            self._ahead.discard(self.first_open)
            self.first_open += 1


def _queue(queue: MessageQueue) -> str:
    return f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name}"


def _place(event: Acknowledged | Report) -> str:
    return f"offset {event.offset} of {_queue(event.queue)}"
