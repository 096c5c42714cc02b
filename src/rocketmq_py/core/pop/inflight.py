"""Popped messages that are not acked yet.

Tracks the unacked messages of each pop, when they become visible again, and up to where the revive log is processed.
Times are milliseconds and passed in.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rocketmq_py.protocol.pop_checkpoint import CheckPoint, CkKey

REVIVE_AFTER_MS = 2_000
"""How long after its invisible time a message is revived, so that an ack in flight still counts (PopReviveService)."""

TRY_AGAIN_SECONDS = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Delay until a pop is tried again whose messages could not be read, by the number of earlier tries."""

_BUCKET_MS = 256
_BITS = 0xFFFFFFFF
"""A check-point of 32 messages has a bit map that is negative in Java."""


class InflightPop(msgspec.Struct, eq=False):
    """One pop with unacked messages: those without a bit in the check-point.

    ``revive_queue`` and ``revive_offset`` are the position of the check-point.
    """

    check_point: CheckPoint
    revive_queue: int
    revive_offset: int
    bucket: int = 0

    @property
    def left(self) -> list[int]:
        """Offsets of the unacked messages, in order."""
        return self.at(~self.check_point.bit_map)

    def out(self, offsets: Iterable[int]) -> int:
        """Return a bit mask of those of the given messages that are not acknowledged yet.

        Bit i stands for the i-th message of the pop.
        """
        return self.check_point.bits_of(offsets) & ~self.check_point.bit_map

    def at(self, bits: int) -> list[int]:
        """Return the offsets of messages by their bits, in order."""
        return [offset for bit, offset in enumerate(self.check_point.offsets) if bits >> bit & 1]


def retry_check_point(one: InflightPop, now_ms: int) -> CheckPoint:
    """Return the check-point for the rest of a pop whose messages could not be read now (PopReviveService).

    It has the same key, so that it replaces the first, and counts one more try.
    """
    ck, left = one.check_point, one.left
    tries = ck.tries
    wait_ms = TRY_AGAIN_SECONDS[min(tries, len(TRY_AGAIN_SECONDS) - 1)] * 1000
    return msgspec.structs.replace(
        ck, bit_map=0, count=len(left), diffs=[offset - ck.start_offset for offset in left],
        invisible_ms=max(ck.invisible_ms, now_ms - ck.pop_time) + wait_ms, re_put_times=str(tries + 1),
    )  # fmt: skip


def has_no_retries_left(check_point: CheckPoint) -> bool:
    """True if a pop has been tried as often as allowed."""
    return check_point.tries >= len(TRY_AGAIN_SECONDS)


class InflightPops:
    """All pops with unacked messages."""

    def __init__(self) -> None:
        self._all: dict[CkKey, InflightPop] = {}
        self._by_queue: dict[int, dict[CkKey, InflightPop]] = {}
        self._due: dict[int, dict[CkKey, InflightPop]] = {}
        self._swept = 0

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, key: CkKey) -> bool:
        return key in self._all

    def add(self, check_point: CheckPoint, revive_queue: int, revive_offset: int) -> None:
        """Add a pop; a known one is replaced."""
        key = check_point.key
        self.finish(key)
        check_point.bit_map &= _BITS
        if not check_point.is_done:
            one = InflightPop(check_point, revive_queue, revive_offset)
            self._all[key] = self._by_queue.setdefault(revive_queue, {})[key] = one
            self._file(key, one, check_point.revive_time + REVIVE_AFTER_MS)

    def find(self, key: CkKey) -> InflightPop | None:
        """Return a pop with unacked messages, or None."""
        return self._all.get(key)

    def ack(self, key: CkKey, offsets: Iterable[int]) -> None:
        """Ack messages of a pop."""
        one = self._all.get(key)
        if one is not None:
            self.settle(key, one, one.check_point.bits_of(offsets))

    def settle(self, key: CkKey, one: InflightPop, bits: int) -> None:
        """Ack messages of a pop that is already looked up, by their bits."""
        one.check_point.bit_map |= bits
        if one.check_point.is_done:
            self.finish(key)

    def finish(self, key: CkKey) -> None:
        """Remove a pop; no effect if it is unknown."""
        one = self._all.pop(key, None)
        if one is None:
            return
        del self._by_queue[one.revive_queue][key]
        bucket = self._due.get(one.bucket)
        if bucket is not None and bucket.pop(key, None) is not None and not bucket:
            del self._due[one.bucket]

    # -- coming back

    def take_due(self, now_ms: int) -> list[InflightPop]:
        """Return pops whose messages are due to be revived. The caller finishes or postpones each of them."""
        end = now_ms // _BUCKET_MS + 1
        if end <= self._swept:
            return []
        if end - self._swept > len(self._due):
            buckets = sorted(bucket for bucket in self._due if bucket < end)
        else:
            buckets = [bucket for bucket in range(self._swept, end) if bucket in self._due]
        self._swept = end
        return [one for bucket in buckets for one in self._due.pop(bucket).values()]

    def postpone(self, one: InflightPop, until_ms: int) -> None:
        """Schedule the next attempt for a pop; no effect if it has no unacked messages."""
        key = one.check_point.key
        if self._all.get(key) is one:
            self._file(key, one, until_ms)

    def _file(self, key: CkKey, one: InflightPop, due_ms: int) -> None:
        # Rounded up, and never into a bucket that was taken: no message is revived early, and none is lost.
        one.bucket = max(-(-due_ms // _BUCKET_MS), self._swept)
        self._due.setdefault(one.bucket, {})[key] = one

    # -- progress

    def sort(self, revive_queue: int) -> None:
        """Sort a revive queue's check-points, after some were added later than ones behind them."""
        queue = self._by_queue.get(revive_queue, {})
        self._by_queue[revive_queue] = dict(sorted(queue.items(), key=lambda item: item[1].revive_offset))

    def first_offset(self, revive_queue: int) -> int | None:
        """Return the offset of a revive queue's oldest check-point with unacked messages; None if there is none."""
        one = next(iter(self._by_queue.get(revive_queue, {}).values()), None)
        return None if one is None else one.revive_offset
