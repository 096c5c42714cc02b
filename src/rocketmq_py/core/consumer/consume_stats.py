"""Rates of pulling and consuming over the last minute, like Java's ConsumerStatsManager."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

MINUTE = 60.0
HOUR = 3600.0


class _Sample(NamedTuple):
    at: float
    events: int
    seconds: float


class Meter:
    """Counts events and sums their durations, in total and over a sliding window.

    :param now: current time in seconds, here and in the methods.
    :param window: length of the window in seconds.
    """

    __slots__ = ("_samples", "_window", "count", "seconds")

    def __init__(self, now: float, window: float = MINUTE) -> None:
        self.count = 0
        self.seconds = 0.0
        self._window = window
        self._samples: deque[_Sample] = deque([_Sample(now, 0, 0.0)])

    def add(self, count: int, seconds: float = 0.0) -> None:
        self.count += count
        self.seconds += seconds

    def sample(self, now: float) -> None:
        """Record the present totals, from which the values of the window are computed; call this every few seconds.

        :param now: current time in seconds.
        """
        self._samples.append(_Sample(now, self.count, self.seconds))
        while len(self._samples) > 1 and self._samples[1].at <= now - self._window:
            self._samples.popleft()

    def recent(self) -> int:
        """Return the number of events in the window."""
        return self.count - self._samples[0].events

    def per_second(self, now: float) -> float:
        elapsed = now - self._samples[0].at
        return self.recent() / elapsed if elapsed > 0 else 0.0

    def mean_ms(self) -> float:
        """Return the average duration of the events in the window, in milliseconds; 0 without events."""
        recent = self.recent()
        return (self.seconds - self._samples[0].seconds) * 1000 / recent if recent else 0.0


@dataclass(slots=True)
class ConsumeStats:
    """Counts pulls and listener calls of one topic: meters over the last minute; ``failed_hour`` over the last hour."""

    pulled: Meter
    consumed: Meter
    ok: Meter
    failed: Meter
    failed_hour: Meter = field(repr=False)

    @staticmethod
    def starting(now: float) -> ConsumeStats:
        return ConsumeStats(Meter(now), Meter(now), Meter(now), Meter(now), Meter(now, HOUR))

    def sample(self, now: float) -> None:
        for meter in (self.pulled, self.consumed, self.ok, self.failed, self.failed_hour):
            meter.sample(now)

    def status(self, now: float) -> dict[str, float]:
        """Return the values by the names of Java's ConsumeStatus: times in milliseconds, rates per second.

        :param now: current time in seconds.
        """
        return {
            "pullRT": self.pulled.mean_ms(),
            "pullTPS": self.pulled.per_second(now),
            "consumeRT": self.consumed.mean_ms(),
            "consumeOKTPS": self.ok.per_second(now),
            "consumeFailedTPS": self.failed.per_second(now),
            "consumeFailedMsgs": self.failed_hour.recent(),
        }
