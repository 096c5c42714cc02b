"""How far consumer groups are behind, online or not, and how long their oldest message has waited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.core.pop.inflight import InflightPops
from rocketmq_py.store import MessageStore

Place = tuple[str, int, int]
"""Topic, queue id and offset of a message."""


class QueueLag(NamedTuple):
    """Messages of a queue that a group has not consumed."""

    queue_id: int
    lag: int


class GroupLag(NamedTuple):
    """How far a group is behind in a topic.

    :ivar inflight: messages that were delivered, but are not committed or acked.
    :ivar ready: messages that were not delivered yet.
    :ivar unconsumed: the first message of each queue that is not consumed.
    :ivar undelivered: the first message of each queue that is not delivered.
    """

    topic: str
    group: str
    inflight: int
    ready: int
    queues: list[QueueLag]
    unconsumed: list[Place]
    undelivered: list[Place]


class _Popped(NamedTuple):
    """Unacked messages of pops: their number, and the offset of the oldest by queue."""

    counts: dict[int, int]
    oldest: dict[int, int]


_NO_POPS = _Popped({}, {})


class LagCalculator:
    """Computes the lag of all groups. Each step of its iterators takes microseconds, so callers can spread them."""

    def __init__(self, store: MessageStore, topics: TopicConfigs, offsets: ConsumerOffsets) -> None:
        self._store, self._topics, self._offsets = store, topics, offsets

    def all(self, pops: InflightPops) -> Iterator[GroupLag | None]:
        """Iterate over the lags of all groups in topics that exist; steps that found none return None."""
        popped: dict[tuple[str, str], _Popped] = {}
        for one in pops.pops():
            check_point = one.check_point
            counts, oldest = popped.setdefault((check_point.topic, check_point.group), _Popped({}, {}))
            left, queue = one.left, check_point.queue_id
            if left:
                counts[queue] = counts.get(queue, 0) + len(left)
                oldest[queue] = min(oldest.get(queue, left[0]), left[0])
            yield None
        ranges: dict[str, list[tuple[int, int]]] = {}
        for topic, group, committed, pulled in self._offsets.progress():
            found = ranges.get(topic)
            if found is None:
                config = self._topics.get(topic)
                count = 0 if config is None else config.read_queue_nums
                found = ranges[topic] = [self._store.queue_range(topic, queue) for queue in range(count)]
            waiting = popped.get((topic, group), _NO_POPS)
            yield _lag(topic, group, found, committed, pulled, waiting) if found else None


def _lag(
    topic: str,
    group: str,
    ranges: list[tuple[int, int]],
    committed: Mapping[int, int],
    pulled: Mapping[int, int],
    popped: _Popped,
) -> GroupLag:
    inflight = ready = 0
    queues, unconsumed, undelivered = list[QueueLag](), list[Place](), list[Place]()
    for queue, (first, end) in enumerate(ranges):
        at = committed.get(queue)
        if at is None:  # a group that never committed starts where its members say
            continue
        at = min(max(at, first), end)
        out = popped.counts.get(queue, 0)
        next_one = at if out else min(max(pulled.get(queue, at), at), end)
        inflight += out or next_one - at
        ready += end - next_one
        queues.append(QueueLag(queue, (out or next_one - at) + end - next_one))
        oldest = popped.oldest.get(queue, at)
        if oldest < end:
            unconsumed.append((topic, queue, oldest))
        if next_one < end:
            undelivered.append((topic, queue, next_one))
    return GroupLag(topic, group, inflight, ready, queues, unconsumed, undelivered)
