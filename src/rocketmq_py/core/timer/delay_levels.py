"""Fixed delay levels: the queue in which a delayed message waits, and when it is due.

A message of level ``n`` waits in queue ``n - 1`` of the schedule topic; its consume queue entry contains the delivery
time instead of a tags code. Times are arguments, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence


class DelayLevels:
    """The delay levels of a broker.

    :param delays_ms: the delay of each level in milliseconds, level 1 first.
    """

    def __init__(self, delays_ms: Sequence[int]) -> None:
        self._delays_ms = tuple(delays_ms)

    @property
    def highest(self) -> int:
        return len(self._delays_ms)

    @property
    def levels(self) -> range:
        return range(1, self.highest + 1)

    def clamp(self, level: int) -> int:
        """Return ``level``, limited to the highest one."""
        return min(level, self.highest)

    def delay_ms(self, level: int) -> int:
        return self._delays_ms[self.clamp(level) - 1]

    def deliver_time(self, level: int, stored_ms: int) -> int:
        """Return the delivery time of a message of a level that was stored at ``stored_ms``."""
        return stored_ms + self.delay_ms(level)

    def is_due(self, level: int, deliver_ms: int, now_ms: int) -> bool:
        """Return True if a message is due.

        A message is also due if its delivery time is later than the level's delay from now, because then the clock was
        set back or the delay was shortened after it was stored.
        """
        return deliver_ms <= now_ms or deliver_ms > now_ms + self.delay_ms(level)


def queue_of(level: int) -> int:
    """Return the queue id in the schedule topic of a level."""
    return level - 1


def retry_level(reconsume_times: int) -> int:
    """Return the default delay level for redelivering a failed message: 3 (10 s) first, then one more each time."""
    return 3 + reconsume_times
