"""Fixed delay levels: the queue of a delayed message, and when it is due.

A message of level ``n`` waits in queue ``n - 1`` of the schedule topic; its consume queue entry has the time it is
due instead of a tags code. Times are milliseconds and passed in.
"""

from __future__ import annotations

from collections.abc import Sequence


class DelayLevels:
    """The delays of a broker.

    :param delays_ms: the delay of each level, level 1 first.
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
        """Return the level, or the highest one if it is beyond."""
        return min(level, self.highest)

    def delay_ms(self, level: int) -> int:
        return self._delays_ms[self.clamp(level) - 1]

    def deliver_time(self, level: int, stored_ms: int) -> int:
        """Return when a message of a level that is stored at ``stored_ms`` is due."""
        return stored_ms + self.delay_ms(level)

    def is_due(self, level: int, deliver_ms: int, now_ms: int) -> bool:
        """True if a message is due, also if it is further away than its level allows (the clock was set back, or the
        level was shortened since it was stored).
        """
        return deliver_ms <= now_ms or deliver_ms > now_ms + self.delay_ms(level)


def queue_of(level: int) -> int:
    """Return the queue of the schedule topic for a level."""
    return level - 1


def retry_level(reconsume_times: int) -> int:
    """Return the default level of a failed message: 10 s first, longer each time."""
    return 3 + reconsume_times
