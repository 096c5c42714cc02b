"""Decisions of log replication: how many slaves a send waits for, transfer rates, and where a slave starts.

Java's rules: GroupTransferService, FlowMonitor, DefaultHAConnection. Times are milliseconds and passed in.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection
from typing import Generic, NamedTuple, TypeVar

W = TypeVar("W")

_SECOND_MS = 1_000


def first_offset(reported: int, log_end: int, file_size: int) -> int:
    """Return the first offset to send to a slave whose log ends at ``reported``.

    A slave with an empty log gets the newest file, not the whole log.
    """
    return reported or log_end - log_end % file_size


def acknowledged_offset(ends: Collection[int], slaves: int) -> int:
    """Return the offset up to which at least ``slaves`` slaves have the log; -1 if fewer are connected.

    :param ends: the log ends of the connected slaves.
    :param slaves: at least 1.
    """
    return sorted(ends, reverse=True)[slaves - 1] if len(ends) >= slaves else -1


def required_replicas(wanted: int, least: int, present: int, *, adapts: bool) -> int | None:
    """Return how many brokers, the master included, must store a message before the response; None if too few are
    there.

    :param wanted: configured number (``inSyncReplicas``).
    :param least: minimum if the number ``adapts`` to the connected slaves (``minInSyncReplicas``).
    :param present: the master and the slaves that are in sync.
    """
    if adapts:
        wanted = max(min(wanted, present), least)
    return wanted if wanted <= present else None


class TransferRate:
    """Bytes transferred in the current second and in the one before.

    :param now_ms: current time in milliseconds, here and below.
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
        """Return the bytes of the last whole second."""
        self._turn(now_ms)
        return self._before

    def room(self, limit: int, now_ms: int) -> int:
        """Return how many bytes may still be transferred in this second, of ``limit``."""
        self._turn(now_ms)
        return max(0, limit - self._moved)

    def _turn(self, now_ms: int) -> None:
        passed = now_ms - self._begin
        if 0 <= passed < _SECOND_MS:
            return
        self._before = self._moved if 0 <= passed < 2 * _SECOND_MS else 0
        self._begin, self._moved = now_ms, 0


class ReplicaWait(NamedTuple, Generic[W]):
    """A send that waits for the log up to ``end``, since ``since_ms``."""

    end: int
    number: int
    since_ms: int
    waiter: W


class ReplicaWaits(Generic[W]):
    """All sends that wait for replication; the one with the smallest log offset comes first."""

    def __init__(self) -> None:
        self._heap: list[ReplicaWait[W]] = []
        self._numbers = itertools.count()
        self.furthest = 0
        """The largest offset ever waited for."""

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def first(self) -> ReplicaWait[W] | None:
        """The wait for the smallest offset, which is also the oldest."""
        return self._heap[0] if self._heap else None

    def add(self, end: int, now_ms: int, waiter: W) -> None:
        """Add a waiting send."""
        heapq.heappush(self._heap, ReplicaWait(end, next(self._numbers), now_ms, waiter))
        self.furthest = max(self.furthest, end)

    def reached(self, end: int) -> list[W]:
        """Remove and return the waiters that are done, now that the log is replicated up to ``end``."""
        heap, done = self._heap, []
        while heap and heap[0].end <= end:
            done.append(heapq.heappop(heap).waiter)
        return done

    def pop(self) -> W:
        """Remove and return the first waiter."""
        return heapq.heappop(self._heap).waiter
