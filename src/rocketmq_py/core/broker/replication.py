"""Decisions of replication: who waits for how many slaves, how fast bytes may go, where a slave begins.

Knows Java's rules (GroupTransferService, FlowMonitor, DefaultHAConnection). Time comes in. Refuses to know sockets, the
log, and what is answered to those who wait.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection
from typing import Generic, NamedTuple, TypeVar

W = TypeVar("W")

_SECOND_MS = 1_000


def first_offset(reported: int, log_end: int, file_size: int) -> int:
    """Where to begin sending to a slave that has the log up to ``reported``.

    One that has nothing gets the newest file, not the whole log.
    """
    return reported or log_end - log_end % file_size


def acknowledged_offset(ends: Collection[int], slaves: int) -> int:
    """Up to where at least so many slaves have the log; -1 when there are not so many.

    :param ends: where the log of each connected slave ends.
    :param slaves: at least 1.
    """
    return sorted(ends, reverse=True)[slaves - 1] if len(ends) >= slaves else -1


def required_replicas(wanted: int, least: int, present: int, *, adapts: bool) -> int | None:
    """How many brokers are to have a message before it is answered, the master among them; None when too few are there.

    :param wanted: as many as were asked for (``inSyncReplicas``).
    :param least: as few as will do where the number ``adapts`` to who is there (``minInSyncReplicas``).
    :param present: the master and the slaves that are not far behind.
    """
    if adapts:
        wanted = max(min(wanted, present), least)
    return wanted if wanted <= present else None


class TransferRate:
    """Bytes moved within the current second, and within the one before.

    :param now_ms: the time in milliseconds, here and below.
    """

    def __init__(self, now_ms: int) -> None:
        self._begin = now_ms
        self._moved = 0
        self._before = 0

    def add(self, count: int, now_ms: int) -> None:
        """So many bytes were moved."""
        self._turn(now_ms)
        self._moved += count

    def last_second(self, now_ms: int) -> int:
        """Bytes of the last whole second."""
        self._turn(now_ms)
        return self._before

    def room(self, limit: int, now_ms: int) -> int:
        """How many bytes more may be moved in this second, of ``limit``."""
        self._turn(now_ms)
        return max(0, limit - self._moved)

    def _turn(self, now_ms: int) -> None:
        passed = now_ms - self._begin
        if 0 <= passed < _SECOND_MS:
            return
        self._before = self._moved if 0 <= passed < 2 * _SECOND_MS else 0
        self._begin, self._moved = now_ms, 0


class ReplicaWait(NamedTuple, Generic[W]):
    """Somebody waits for the log up to ``end``, since ``since_ms``."""

    end: int
    number: int
    since_ms: int
    waiter: W


class ReplicaWaits(Generic[W]):
    """All who wait for the log to be safe up to some place; whoever waits for less is served first."""

    def __init__(self) -> None:
        self._heap: list[ReplicaWait[W]] = []
        self._numbers = itertools.count()
        self.furthest = 0
        """The furthest place anybody has waited for."""

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def first(self) -> ReplicaWait[W] | None:
        """The one that waits for least, which is the one that has waited longest."""
        return self._heap[0] if self._heap else None

    def add(self, end: int, now_ms: int, waiter: W) -> None:
        """One more waits."""
        heapq.heappush(self._heap, ReplicaWait(end, next(self._numbers), now_ms, waiter))
        self.furthest = max(self.furthest, end)

    def reached(self, end: int) -> list[W]:
        """Those who need not wait any more, now that the log is safe up to ``end``."""
        heap, done = self._heap, []
        while heap and heap[0].end <= end:
            done.append(heapq.heappop(heap).waiter)
        return done

    def pop(self) -> W:
        """Take away the first."""
        return heapq.heappop(self._heap).waiter
