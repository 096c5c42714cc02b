"""How far consumer groups are behind, online or not, and since when their oldest message has waited.

A broker has thousands of groups in thousands of topics, and an exposition has them all: this is written for speed. What
does not change from one exposition to the next is kept, as long as the topics and groups are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.core.pop.inflight import InflightPops
from rocketmq_py.store import MessageStore

Place = tuple[str, int, int]
"""Topic, queue id and offset of a message."""

NEVER = 2**63
"""The time of a message that is not there: later than all others."""

Lag = tuple[int, int, int, int]
"""How far a group is behind in a topic.

Messages that were delivered, but are not committed or acked; messages that were not delivered yet; when the oldest
message was stored that is not consumed, and the oldest that is not delivered, NEVER without one.
"""

_NONE: Lag = (0, 0, NEVER, NEVER)
_AT_ONCE = 20
"""Groups of one step."""
_TIMES_OF_A_GROUP = 4
"""Store times that are kept for each group of a queue: of the two messages where it stands, and where it stood."""


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


class Topic:
    """The queues of a topic: their states, and the ends of their ranges by queue id; how many groups it has.

    :ivar number: the exposition these are of.
    :ivar changed: the last exposition in which they were not as before.
    :ivar kept_times: the largest number of store times that are kept of one of the queues.
    """

    __slots__ = ("changed", "ends", "groups", "kept_times", "name", "number", "ranges", "states")

    def __init__(self, name: str) -> None:
        self.name, self.number, self.changed, self.groups, self.kept_times = name, 0, 0, 0, 0
        self.ranges: list[tuple[int, int]] = []
        self.states: list[QueueState] = []
        self.ends: dict[int, int] = {}


class Standing:
    """Where a group stood in a topic in the last exposition, and its lag.

    :ivar committed: committed offsets; None if the lag has to be computed again.
    :ivar pulled: offsets after pulls.
    """

    __slots__ = ("committed", "lag", "pulled", "topic")

    def __init__(self, topic: Topic) -> None:
        self.topic, self.lag = topic, _NONE
        topic.groups += 1
        self.committed: dict[int, int] | None = None
        self.pulled: dict[int, int] = {}

    def keep(self, committed: Mapping[int, int], pulled: Mapping[int, int], lag: Lag) -> None:
        """Keep a lag for the next exposition."""
        self.committed, self.pulled, self.lag = dict(committed), dict(pulled), lag


class LagCalculator:
    """Computes the lag of all groups. Each step of its iterators takes microseconds, so callers can spread them.

    It keeps the store times of messages at which groups stand, because most still stand there the next time.

    :ivar keys: the groups in topics that exist, as ``topic@group``, in the order of their offsets.
    :ivar lags: how far they are behind, in the same order.
    """

    def __init__(self, store: MessageStore, topics: TopicConfigs, offsets: ConsumerOffsets) -> None:
        self._store, self._topics, self._offsets = store, topics, offsets
        self._number = 0
        self._by_name: dict[str, Topic] = {}
        self._by_key: dict[str, Standing] = {}
        self._popped: dict[str, Popped] = {}
        self._incomplete: list[tuple[int, str]] = []
        """Where in :attr:`lags` those are that lack a store time, and their keys."""
        self.keys: list[str] = []
        self.lags: list[Lag] = []
        self.missing: list[Place] = []
        """Messages whose store times are not known; the groups that stand there have to be computed again."""

    def all(self, pops: InflightPops) -> Iterator[None]:
        """Compute the lags of all groups in topics that exist."""
        self._popped = {}
        for one in pops.pops():
            check_point = one.check_point
            key = f"{check_point.topic}@{check_point.group}"
            counts, oldest = self._popped.setdefault(key, Popped({}, {}))
            left, queue = one.left, check_point.queue_id
            if left:
                counts[queue] = counts.get(queue, 0) + len(left)
                oldest[queue] = min(oldest.get(queue, left[0]), left[0])
            yield
        yield from self._compute()

    def _compute(self) -> Iterator[None]:
        keys, lags, missing, incomplete = list[str](), list[Lag](), list[Place](), list[tuple[int, str]]()
        self.keys, self.lags, self.missing, self._incomplete = keys, lags, missing, incomplete
        known, popped, seen = self._by_key, self._popped, 0
        number = self._number = self._number + 1
        progress = self._offsets.progress()
        while some := list(islice(progress, _AT_ONCE)):
            for key, committed, pulled in some:
                one = known.get(key)
                if one is None:
                    one = known[key] = Standing(self._topic(key))
                topic = one.topic
                if topic.number != number:
                    self._look(topic, number)
                if not topic.states:
                    continue
                keys.append(key)
                if committed != one.committed or pulled != one.pulled or topic.changed == number or key in popped:
                    lacking = len(missing)
                    self._stand(key, one, committed, pulled)
                    if len(missing) != lacking:
                        incomplete.append((len(lags), key))
                lags.append(one.lag)
            seen += len(some)
            yield
        if len(known) > seen:
            self._forget()

    def _forget(self) -> None:
        """Forget groups and topics that have no offsets any more."""
        offsets = self._offsets.table
        self._by_key = {key: one for key, one in self._by_key.items() if key in offsets}
        left = Counter(one.topic for one in self._by_key.values())
        for topic, groups in left.items():
            topic.groups = groups
        self._by_name = {topic.name: topic for topic in left}

    def _stand(self, key: str, one: Standing, committed: Mapping[int, int], pulled: Mapping[int, int]) -> None:
        """Compute the lag of a group; it is kept, unless it lacks store times or comes from pops, which end."""
        lacking = len(self.missing)
        lag = _NONE if committed == one.topic.ends else self._lag(key, one.topic, committed, pulled)
        one.keep(committed, pulled, lag)
        if len(self.missing) != lacking or key in self._popped:
            one.committed = None

    def _lag(self, key: str, topic: Topic, committed: Mapping[int, int], pulled: Mapping[int, int]) -> Lag:
        """Return the lag of a group that has not consumed all; :attr:`missing` gets the store times it lacks."""
        popped = self._popped.get(key)
        if popped is None:
            return lag_of(topic.states, committed, pulled, topic.name, self.missing)
        return lag_with_pops(topic.states, committed, popped, topic.name, self.missing)

    def again(self) -> Iterator[None]:
        """Compute those lags again that lacked a store time, with the same ranges of queues, after :meth:`learn`."""
        incomplete, self._incomplete, missing = self._incomplete, [], list[Place]()
        self.missing = missing
        for step, (place, key) in enumerate(incomplete):
            lacking, one = len(missing), self._by_key[key]
            self._stand(key, one, *self._offsets.progress_of(key))
            self.lags[place] = one.lag
            if len(missing) != lacking:
                self._incomplete.append((place, key))
            if step % _AT_ONCE == 0:
                yield

    def learn(self) -> Iterator[None]:
        """Read the store times that are missing, which must be in memory; each step reads one."""
        for topic, queue, offset in dict.fromkeys(self.missing):
            time, found = self._store.store_time(topic, queue, offset), self._by_name[topic]
            times = found.states[queue].times
            times[offset] = time if time > 0 else NEVER
            found.kept_times = max(found.kept_times, len(times))
            yield

    def queues(self, key: str) -> list[QueueLag]:
        """Return the lags of the queues of a group, as :meth:`all` found the queues."""
        committed, popped = self._offsets.table.get(key, {}), self._popped.get(key)
        found = []
        for queue, first, end, times in self._by_key[key].topic.states:
            at = committed.get(queue)
            if at is None:
                continue
            at = min(max(at, first), end)
            out = popped.counts.get(queue, 0) if popped is not None else 0
            oldest = popped.oldest[queue] if popped is not None and out else at
            found.append(QueueLag(queue, out + end - at, times.get(oldest, NEVER)))
        return found

    def _topic(self, key: str) -> Topic:
        name = key.partition("@")[0]
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = Topic(name)
        return found

    def _look(self, topic: Topic, number: int) -> None:
        """Read the ranges of a topic's queues, once for each exposition, and forget store times of earlier ones."""
        config = self._topics.get(topic.name)
        name, count, range_of = topic.name, 0 if config is None else config.read_queue_nums, self._store.queue_range
        ranges = [range_of(name, queue) for queue in range(count)]
        most = _TIMES_OF_A_GROUP * (topic.groups + 1)
        if ranges != topic.ranges or topic.kept_times > most:
            states, before = list[QueueState](), topic.states
            for queue, (first, end) in enumerate(ranges):
                times: dict[int, int] = before[queue].times if queue < len(before) else {}
                if len(times) > most or (times and end < before[queue].end):  # a topic of that name was created again
                    times.clear()
                states.append(QueueState(queue, first, end, times))
            topic.ranges, topic.states, topic.ends = ranges, states, {state.queue: state.end for state in states}
            topic.changed, topic.kept_times = number, max((len(state.times) for state in states), default=0)
        topic.number = number


def lag_of(
    states: list[QueueState], committed: Mapping[int, int], pulled: Mapping[int, int], topic: str, missing: list[Place]
) -> Lag:
    """Return the lag of a group without unacked pops.

    :param missing: gets the messages whose store times are not known.
    """
    inflight = ready = 0
    unconsumed = undelivered = NEVER
    for queue, first, end, times in states:
        at = committed.get(queue)
        if at is None or at >= end:  # a group that never committed starts where its members say
            continue
        at = first if at < first else at  # noqa: FURB136 - as below, a call of max takes three times as long
        next_one = pulled.get(queue, at) if pulled else at
        if next_one < at:
            next_one = at
        elif next_one > end:
            next_one = end
        inflight += next_one - at
        ready += end - next_one
        time = times.get(at)
        if time is None:
            missing.append((topic, queue, at))
            if next_one not in (at, end) and next_one not in times:  # both, so that one more look is enough
                missing.append((topic, queue, next_one))
            continue
        unconsumed = time if time < unconsumed else unconsumed  # noqa: FURB136
        if next_one != at:
            if next_one == end:
                continue
            time = times.get(next_one)
            if time is None:
                missing.append((topic, queue, next_one))
                continue
        undelivered = time if time < undelivered else undelivered  # noqa: FURB136
    return inflight, ready, unconsumed, undelivered


def lag_with_pops(
    states: list[QueueState], committed: Mapping[int, int], popped: Popped, topic: str, missing: list[Place]
) -> Lag:
    """Return the lag of a group that has not acked all messages it popped.

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
        missing += [(topic, queue, offset) for offset in {oldest, at} - {end} if offset not in times]
        unconsumed = min(unconsumed, times.get(oldest, NEVER))
        undelivered = min(undelivered, times.get(at, NEVER))
    return inflight, ready, unconsumed, undelivered
