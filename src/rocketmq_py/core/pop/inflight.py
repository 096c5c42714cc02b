"""Messages that were popped and are not acked yet.

Knows which of a pop's messages are still out, when they are to come back, and up to where the revive log is dealt with.
Refuses to know logs and messages: check-points come in as they are read or written, time is milliseconds, passed in.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rocketmq_py.protocol.pop_checkpoint import CheckPoint, CkKey

REVIVE_AFTER_MS = 2_000
"""How long after its invisible time a message comes back, so that an ack under way still counts (PopReviveService)."""

TRY_AGAIN_SECONDS = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""How long a pop waits whose messages could not be had, by how often that was so before; the last of them counts on."""

_BUCKET_MS = 256
_BITS = 0xFFFFFFFF
"""A check-point of 32 messages has a bit map that is negative in Java."""


class InflightPop(msgspec.Struct, eq=False):
    """One pop with messages that are still out: those without a bit in the check-point.

    ``revive_queue`` and ``revive_offset`` are the place of the check-point.
    """

    check_point: CheckPoint
    revive_queue: int
    revive_offset: int
    bucket: int = 0

    @property
    def left(self) -> list[int]:
        """Offsets of the messages, in order."""
        return self.at(~self.check_point.bit_map)

    def out(self, offsets: Iterable[int]) -> int:
        """The bits of those of these messages that are still out."""
        return self.check_point.bits_of(offsets) & ~self.check_point.bit_map

    def at(self, bits: int) -> list[int]:
        """The offsets of messages by their bits, in order."""
        return [offset for bit, offset in enumerate(self.check_point.offsets) if bits >> bit & 1]


def retry_check_point(one: InflightPop, now_ms: int) -> CheckPoint:
    """What is left of a pop whose messages could not be had now, as it is noted to be tried again (PopReviveService).

    It has the key it had, so that it takes the place of the first, and counts one try more.
    """
    ck, left = one.check_point, one.left
    tries = ck.tries
    wait_ms = TRY_AGAIN_SECONDS[min(tries, len(TRY_AGAIN_SECONDS) - 1)] * 1000
    return msgspec.structs.replace(
        ck, bit_map=0, count=len(left), diffs=[offset - ck.start_offset for offset in left],
        invisible_ms=max(ck.invisible_ms, now_ms - ck.pop_time) + wait_ms, re_put_times=str(tries + 1),
    )  # fmt: skip


def has_no_retries_left(check_point: CheckPoint) -> bool:
    """Whether a pop has waited for each of the times it may be tried again after."""
    return check_point.tries >= len(TRY_AGAIN_SECONDS)


class InflightPops:
    """All pops with messages that are still out."""

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
        """A pop was written down; one that is known already replaces what was known of it."""
        key = check_point.key
        self.finish(key)
        check_point.bit_map &= _BITS
        if not check_point.is_done:
            one = InflightPop(check_point, revive_queue, revive_offset)
            self._all[key] = self._by_queue.setdefault(revive_queue, {})[key] = one
            self._file(key, one, check_point.revive_time + REVIVE_AFTER_MS)

    def find(self, key: CkKey) -> InflightPop | None:
        """A pop that has messages out."""
        return self._all.get(key)

    def ack(self, key: CkKey, offsets: Iterable[int]) -> None:
        """Messages of a pop are done."""
        one = self._all.get(key)
        if one is not None:
            self.settle(key, one, one.check_point.bits_of(offsets))

    def settle(self, key: CkKey, one: InflightPop, bits: int) -> None:
        """As :meth:`ack`, of a pop that has been found and by the bits of its messages."""
        one.check_point.bit_map |= bits
        if one.check_point.is_done:
            self.finish(key)

    def finish(self, key: CkKey) -> None:
        """Nothing of a pop is out any more. Harmless when that is known."""
        one = self._all.pop(key, None)
        if one is None:
            return
        del self._by_queue[one.revive_queue][key]
        bucket = self._due.get(one.bucket)
        if bucket is not None and bucket.pop(key, None) is not None and not bucket:
            del self._due[one.bucket]

    # -- coming back

    def take_due(self, now_ms: int) -> list[InflightPop]:
        """Pops whose messages are to come back now. Each is then either finished or postponed."""
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
        """Messages could not come back; when it is tried next. Harmless when none of them is out any more."""
        key = one.check_point.key
        if self._all.get(key) is one:
            self._file(key, one, until_ms)

    def _file(self, key: CkKey, one: InflightPop, due_ms: int) -> None:
        # Rounded up, and never into a bucket that was taken: nothing comes back early, and nothing is forgotten.
        one.bucket = max(-(-due_ms // _BUCKET_MS), self._swept)
        self._due.setdefault(one.bucket, {})[key] = one

    # -- progress

    def sort(self, revive_queue: int) -> None:
        """Check-points of a revive queue have become known later than some behind them."""
        queue = self._by_queue.get(revive_queue, {})
        self._by_queue[revive_queue] = dict(sorted(queue.items(), key=lambda item: item[1].revive_offset))

    def first_offset(self, revive_queue: int) -> int | None:
        """Where the oldest check-point of a revive queue is that has messages out; None when there is none."""
        one = next(iter(self._by_queue.get(revive_queue, {}).values()), None)
        return None if one is None else one.revive_offset
