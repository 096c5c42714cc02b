"""The broker's table of popped messages that are not acked yet.

It has the unacked messages of each pop, the time at which they become visible again, and the oldest check-point in each
revive queue that is still needed. Times are arguments, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from rocketmq_py.protocol.pop_checkpoint import CheckPoint, CkKey

REVIVE_AFTER_MS = 2_000
"""Milliseconds from the end of its invisible time until a message is revived, so that an ack on its way still counts
(PopReviveService).
"""

TRY_AGAIN_SECONDS = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Seconds until messages that could not be read are revived again, by the number of earlier tries."""

_BUCKET_MS = 256
_BITS = 0xFFFFFFFF
"""Mask that makes the bit map of a check-point non-negative; Java writes it as a signed 32-bit number."""


class InflightPop(msgspec.Struct, eq=False):
    """One pop that has unacked messages, that is, messages whose bit in the check-point is not set.

    ``revive_queue`` and ``revive_offset`` are the queue id and offset of the check-point in the revive topic.
    ``acks`` is the number of acks of its messages that metrics have counted.
    """

    check_point: CheckPoint
    revive_queue: int
    revive_offset: int
    bucket: int = 0
    acks: int = 0

    @property
    def left(self) -> list[int]:
        """Queue offsets of the unacked messages, in order."""
        return self.at(~self.check_point.bit_map)

    def out(self, offsets: Iterable[int]) -> int:
        """Return a bit mask of those messages that have one of the given queue offsets and are not acked.

        Bit i stands for the i-th message of the pop, counted from 0.
        """
        return self.check_point.bits_of(offsets) & ~self.check_point.bit_map

    def at(self, bits: int) -> list[int]:
        """Return the queue offsets of the messages in a bit mask, in order."""
        offsets = self.check_point.offsets
        every = (1 << len(offsets)) - 1
        if bits & every == every:
            return offsets
        return [offset for bit, offset in enumerate(offsets) if bits >> bit & 1]


def retry_check_point(one: InflightPop, now_ms: int) -> CheckPoint:
    """Return a new check-point for a pop whose unacked messages the broker could not read, to try to revive them later.

    It has the key of the present check-point, which it replaces, and counts one more try (PopReviveService).
    """
    ck, left = one.check_point, one.left
    tries = ck.tries
    wait_ms = TRY_AGAIN_SECONDS[min(tries, len(TRY_AGAIN_SECONDS) - 1)] * 1000
    return msgspec.structs.replace(
        ck, bit_map=0, count=len(left), diffs=[offset - ck.start_offset for offset in left],
        invisible_ms=max(ck.invisible_ms, now_ms - ck.pop_time) + wait_ms, re_put_times=str(tries + 1),
    )  # fmt: skip


def has_no_retries_left(check_point: CheckPoint) -> bool:
    """Return True if the number of attempts to revive the messages of a pop has reached the limit."""
    return check_point.tries >= len(TRY_AGAIN_SECONDS)


class InflightPops:
    """All pops of a broker that have unacked messages."""

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
        """Add a pop, or replace the one with the same key; ignored if all its messages are acked.

        :param revive_queue: queue id of the check-point in the revive topic. :param revive_offset: its offset there.
        """
        key = check_point.key
        if key in self._all:
            self.finish(key)
        check_point.bit_map &= _BITS
        if not check_point.is_done:
            one = InflightPop(check_point, revive_queue, revive_offset)
            self._all[key] = self._by_queue.setdefault(revive_queue, {})[key] = one
            self._file(key, one, check_point.revive_time + REVIVE_AFTER_MS)

    def pops(self) -> Iterator[InflightPop]:
        """Iterate over the pops that are in the table now; changes meanwhile are allowed."""
        yield from list(self._all.values())

    def find(self, key: CkKey) -> InflightPop | None:
        """Return a pop; None if it has no unacked messages."""
        return self._all.get(key)

    def ack(self, key: CkKey, offsets: Iterable[int]) -> None:
        """Ack the messages of a pop that have the given queue offsets; unknown pops and offsets are ignored."""
        one = self._all.get(key)
        if one is not None:
            self.settle(key, one, one.check_point.bits_of(offsets))

    def settle(self, key: CkKey, one: InflightPop, bits: int) -> None:
        """Ack the messages of a pop that are in a bit mask, when the caller has the pop already.

        :param one: the pop with this key.
        """
        one.check_point.bit_map |= bits
        if one.check_point.is_done:
            self.finish(key)

    def finish(self, key: CkKey) -> None:
        """Remove a pop; no effect if there is none with this key."""
        one = self._all.pop(key, None)
        if one is None:
            return
        del self._by_queue[one.revive_queue][key]
        bucket = self._due.get(one.bucket)
        if bucket is not None and bucket.pop(key, None) is not None and not bucket:
            del self._due[one.bucket]

    # -- reviving

    def take_due(self, now_ms: int) -> list[InflightPop]:
        """Return the pops whose messages are due to be revived, because their invisible time is over at ``now_ms``.

        They stay in the table, but are returned only once. The caller must :meth:`finish` or :meth:`postpone` each.
        """
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
        """Let :meth:`take_due` return a pop again from time ``until_ms`` on; no effect if the pop was removed."""
        key = one.check_point.key
        if self._all.get(key) is one:
            self._file(key, one, until_ms)

    def _file(self, key: CkKey, one: InflightPop, due_ms: int) -> None:
        # Rounded up, so that no message is revived early; never into a past bucket, where it would be lost.
        one.bucket = max(-(-due_ms // _BUCKET_MS), self._swept)
        self._due.setdefault(one.bucket, {})[key] = one

    # -- progress

    def sort(self, revive_queue: int) -> None:
        """Sort the pops of a revive queue by the offset of their check-points, after some were added out of order."""
        queue = self._by_queue.get(revive_queue, {})
        self._by_queue[revive_queue] = dict(sorted(queue.items(), key=lambda item: item[1].revive_offset))

    def first_offset(self, revive_queue: int) -> int | None:
        """Return the offset of a revive queue's oldest check-point with unacked messages; None without any."""
        one = next(iter(self._by_queue.get(revive_queue, {}).values()), None)
        return None if one is None else one.revive_offset
