"""Decisions of a master about replication: where a slave starts, transfer rates, and how many slaves a send waits for.

Java's rules: GroupTransferService, FlowMonitor, DefaultHAConnection. Times are arguments, in milliseconds.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection
from typing import Generic, NamedTuple, TypeVar

W = TypeVar("W")

_SECOND_MS = 1_000


def first_offset(reported: int, log_end: int, file_size: int) -> int:
    """Return the commit log offset from which to send data to a slave.

    A slave with an empty log starts with the newest commit log file, not with the oldest.

    :param reported: end of the slave's commit log; 0 if it is empty.
    :param log_end: end of the master's commit log.
    :param file_size: size of a commit log file in bytes.
    """
    return reported or log_end - log_end % file_size


def acknowledged_offset(ends: Collection[int], slaves: int) -> int:
    """Return the offset up to which at least ``slaves`` slaves have the commit log; -1 if fewer are connected.

    :param ends: ends of the commit logs of the connected slaves.
    :param slaves: a number of slaves, at least 1.
    """
    return sorted(ends, reverse=True)[slaves - 1] if len(ends) >= slaves else -1


def required_replicas(wanted: int, least: int, present: int, *, adapts: bool) -> int | None:
    """Return how many brokers, the master included, must store a message before the response; None if fewer than
    required are in sync.

    :param wanted: configured number (``inSyncReplicas``).
    :param least: lower limit of the number if ``adapts`` is set (``minInSyncReplicas``).
    :param present: number of brokers in sync, the master included.
    :param adapts: True reduces the configured number to the number of brokers in sync.
    """
    if adapts:
        wanted = max(min(wanted, present), least)
    return wanted if wanted <= present else None


class TransferRate:
    """Counts the bytes transferred in the current second and in the one before.

    :param now_ms: current time in milliseconds, here and in the methods.
    """

    def __init__(self, now_ms: int) -> None:
        self._begin = now_ms
        self._moved = 0
        self._before = 0

    def add(self, count: int, now_ms: int) -> None:
        """Count transferred bytes."""
        self._turn(now_ms)
        self._moved += count

    def last_second(self, now_ms: int) -> int:
        """Return the number of bytes transferred in the second before the current one."""
        self._turn(now_ms)
        return self._before

    def room(self, limit: int, now_ms: int) -> int:
        """Return how many more bytes may be transferred in the current second.

        :param limit: maximum bytes per second.
        """
        self._turn(now_ms)
        return max(0, limit - self._moved)

    def _turn(self, now_ms: int) -> None:
        passed = now_ms - self._begin
        if 0 <= passed < _SECOND_MS:
            return
        self._before = self._moved if 0 <= passed < 2 * _SECOND_MS else 0
        self._begin, self._moved = now_ms, 0


class ReplicaWait(NamedTuple, Generic[W]):
    """A send that waits, since ``since_ms``, until the commit log is replicated up to ``end``."""

    end: int
    number: int
    since_ms: int
    waiter: W


class ReplicaWaits(Generic[W]):
    """All sends that wait for replication, ordered by the commit log offset they wait for."""

    def __init__(self) -> None:
        self._heap: list[ReplicaWait[W]] = []
        self._numbers = itertools.count()
        self.furthest = 0
        """The largest offset of all waits that were ever added."""

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def first(self) -> ReplicaWait[W] | None:
        """The wait for the smallest offset, which is also the oldest; None if no send waits."""
        return self._heap[0] if self._heap else None

    def add(self, end: int, now_ms: int, waiter: W) -> None:
        """Add a send that waits until the commit log is replicated up to ``end``."""
        heapq.heappush(self._heap, ReplicaWait(end, next(self._numbers), now_ms, waiter))
        self.furthest = max(self.furthest, end)

    def reached(self, end: int) -> list[W]:
        """Remove and return the waiters whose wait is over, because the log is replicated up to ``end``."""
        heap, done = self._heap, []
        while heap and heap[0].end <= end:
            done.append(heapq.heappop(heap).waiter)
        return done

    def pop(self) -> W:
        """Remove and return the waiter with the smallest offset. There must be one."""
        return heapq.heappop(self._heap).waiter
