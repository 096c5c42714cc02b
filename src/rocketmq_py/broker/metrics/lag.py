"""How far consumer groups are behind, online or not, and since when their oldest message has waited.

A broker has thousands of groups in thousands of topics, and an exposition has them all: this is written for speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.core.pop.inflight import InflightPops
from rocketmq_py.store import MessageStore

Place = tuple[str, int, int]
"""Topic, queue id and offset of a message."""

NEVER = 2**63
"""The time of a message that is not there: later than all others."""


class GroupLag(NamedTuple):
    """How far a group is behind in a topic.

    :ivar inflight: messages that were delivered, but are not committed or acked.
    :ivar ready: messages that were not delivered yet.
    :ivar unconsumed: when the oldest message was stored that is not consumed; NEVER without one.
    :ivar undelivered: when the oldest message was stored that is not delivered; NEVER without one.
    """

    topic: str
    group: str
    inflight: int
    ready: int
    unconsumed: int
    undelivered: int


class QueueLag(NamedTuple):
    """How far a group is behind in a queue: messages, and when the oldest of them was stored, NEVER without one."""

    queue: int
    lag: int
    since: int


class QueueState(NamedTuple):
    """A queue: its range of offsets, and known store times of its messages by offset."""

    queue: int
    first: int
    end: int
    times: dict[int, int]


class Popped(NamedTuple):
    """Unacked messages of pops: their number, and the offset of the oldest by queue."""

    counts: dict[int, int]
    oldest: dict[int, int]


class Topic(NamedTuple):
    """The queues of a topic: their states, and the ends of their ranges by queue id."""

    states: list[QueueState]
    ends: dict[int, int]


class LagCalculator:
    """Computes the lag of all groups. Each step of its iterators takes microseconds, so callers can spread them.

    It keeps the store times of messages at which groups stand, because most still stand there the next time.
    """

    def __init__(self, store: MessageStore, topics: TopicConfigs, offsets: ConsumerOffsets) -> None:
        self._store, self._topics, self._offsets = store, topics, offsets
        self._times: dict[str, dict[int, dict[int, int]]] = {}
        """Store times by topic, queue id and offset."""
        self._known: dict[str, Topic] = {}
        self._popped: dict[tuple[str, str], Popped] = {}
        self.missing: dict[Place, None] = {}
        """Messages whose store times are not known; the groups that stand there have to be computed again."""

    def all(self, pops: InflightPops) -> Iterator[GroupLag | None]:
        """Iterate over the lags of all groups in topics that exist; steps that found none return None."""
        self._known, self._popped, self.missing = {}, {}, {}
        for one in pops.pops():
            check_point = one.check_point
            counts, oldest = self._popped.setdefault((check_point.topic, check_point.group), Popped({}, {}))
            left, queue = one.left, check_point.queue_id
            if left:
                counts[queue] = counts.get(queue, 0) + len(left)
                oldest[queue] = min(oldest.get(queue, left[0]), left[0])
            yield None
        yield from self._lags()

    def again(self) -> Iterator[GroupLag | None]:
        """Iterate over the same lags, with the same ranges of queues, after :meth:`learn`."""
        self.missing = {}
        return self._lags()

    def _lags(self) -> Iterator[GroupLag | None]:
        known, popped, missing = self._known, self._popped, self.missing
        for topic, group, committed, pulled in self._offsets.progress():
            found = known.get(topic)
            if found is None:
                found = known[topic] = self._topic(topic)
            states, ends = found
            if not states:
                yield None
            elif popped and (topic, group) in popped:
                yield GroupLag(topic, group, *lag_with_pops(states, committed, popped[topic, group], topic, missing))
            elif committed == ends:
                yield GroupLag(topic, group, 0, 0, NEVER, NEVER)
            else:
                yield GroupLag(topic, group, *lag_of(states, committed, pulled, topic, missing))

    def learn(self) -> Iterator[None]:
        """Read the store times that are missing, which must be in memory; each step reads one."""
        for topic, queue, offset in self.missing:
            time = self._store.store_time(topic, queue, offset)
            self._times[topic][queue][offset] = time if time > 0 else NEVER
            yield

    def queues(self, topic: str, group: str) -> list[QueueLag]:
        """Return the lags of the queues of a group, as :meth:`all` found the queues."""
        committed, popped = self._offsets.table.get(f"{topic}@{group}", {}), self._popped.get((topic, group))
        found = []
        for queue, first, end, times in self._known[topic].states:
            at = committed.get(queue)
            if at is None:
                continue
            at = min(max(at, first), end)
            out = popped.counts.get(queue, 0) if popped is not None else 0
            oldest = popped.oldest[queue] if popped is not None and out else at
            found.append(QueueLag(queue, out + end - at, times.get(oldest, NEVER)))
        return found

    def _topic(self, name: str) -> Topic:
        config = self._topics.get(name)
        count = 0 if config is None else config.read_queue_nums
        times = self._times.setdefault(name, {})
        states = [
            QueueState(queue, *self._store.queue_range(name, queue), times.setdefault(queue, {}))
            for queue in range(count)
        ]
        return Topic(states, {state.queue: state.end for state in states})

    def forget(self, most: int) -> None:
        """Forget all store times if there are more than ``most``, and those of topics that are gone."""
        times = self._times = {topic: self._times[topic] for topic in self._known}
        if sum(len(by_offset) for queues in times.values() for by_offset in queues.values()) > most:
            self._times = {}


def lag_of(
    states: list[QueueState], committed: Mapping[int, int], pulled: Mapping[int, int], topic: str,
    missing: dict[Place, None],
) -> tuple[int, int, int, int]:  # fmt: skip
    """Return the last four fields of GroupLag for a group without unacked pops.

    :param missing: gets the messages whose store times are not known.
    """
    inflight = ready = 0
    unconsumed = undelivered = NEVER
    for queue, first, end, times in states:
        at = committed.get(queue)
        if at is None or at >= end:  # a group that never committed starts where its members say
            continue
        at = max(at, first)
        next_one = pulled.get(queue, at) if pulled else at
        if next_one < at:
            next_one = at
        elif next_one > end:
            next_one = end
        inflight += next_one - at
        ready += end - next_one
        time = times.get(at)
        if time is None:
            missing[topic, queue, at] = None
            continue
        unconsumed = min(unconsumed, time)
        if next_one != at:
            if next_one == end:
                continue
            time = times.get(next_one)
            if time is None:
                missing[topic, queue, next_one] = None
                continue
        undelivered = min(undelivered, time)
    return inflight, ready, unconsumed, undelivered


def lag_with_pops(
    states: list[QueueState], committed: Mapping[int, int], popped: Popped, topic: str, missing: dict[Place, None]
) -> tuple[int, int, int, int]:
    """Return the last four fields of GroupLag for a group that has not acked all messages it popped.

    :param missing: gets the messages whose store times are not known.
    """
    inflight = ready = 0
    unconsumed = undelivered = NEVER
    for queue, first, end, times in states:
        at = committed.get(queue)
        if at is None:
            continue
        at = min(max(at, first), end)
        inflight += popped.counts.get(queue, 0)
        ready += end - at
        oldest = popped.oldest.get(queue, at)
        for offset in {oldest, at} - {end}:
            if offset not in times:
                missing[topic, queue, offset] = None
        unconsumed = min(unconsumed, times.get(oldest, NEVER))
        undelivered = min(undelivered, times.get(at, NEVER))
    return inflight, ready, unconsumed, undelivered
