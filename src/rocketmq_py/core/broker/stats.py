"""Counters over the last minute, hour and day, as Apache RocketMQ's tools show them (StatsItem).

Counters are sampled periodically. One that has not changed stores no new sample; its last sample is used for the later
ones. Times are arguments, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """A window of time: the sampling period in milliseconds, and the number of samples that are kept."""

    period_ms: int
    kept: int


SPANS = (Span(10_000, 7), Span(600_000, 7), Span(3_600_000, 25))
"""The windows of a minute, an hour and a day."""
MINUTE, HOUR, DAY = range(len(SPANS))
"""Indices of the windows in ``SPANS``."""


class Snapshot(NamedTuple):
    """Values of a counter in a window: sum of the amounts, sum per second (``tps``), average per call (``avgpt``)."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class StatsItem:
    """One counter. To count, increase ``value`` by the amount and ``times`` by the number of calls."""

    __slots__ = ("_born", "_clock", "_samples", "times", "value")

    def __init__(self, clock: StatsClock) -> None:
        self.value = 0
        self.times = 0
        self._clock = clock
        self._born = clock.ticks
        self._samples: tuple[list[tuple[int, int, int]], ...] = tuple([(born, 0, 0)] for born in self._born)

    def sample(self, span: int, tick: int) -> None:
        """Store the present counts as a sample, if they have changed since the last one.

        Samples from before the window are dropped, except the newest of them.

        :param span: index of the window in ``SPANS``.
        :param tick: number of complete sampling periods of this window since the start of the :class:`StatsClock`.
        """
        samples = self._samples[span]
        if samples[-1][2] == self.times:
            return
        samples.append((tick, self.value, self.times))
        first = tick - SPANS[span].kept + 1
        while len(samples) > 1 and samples[1][0] <= first:
            del samples[0]

    def snapshot(self, span: int) -> Snapshot:
        """Return the values in the window ``SPANS[span]``, until the last sample; all 0 before the first one."""
        now = self._clock.ticks[span]
        first = max(now - SPANS[span].kept + 1, self._born[span])
        if first == now:
            return Snapshot()
        _, value, times = self._at(span, now)
        _, value_before, times_before = self._at(span, first)
        total, steps = value - value_before, times - times_before
        seconds = (now - first) * SPANS[span].period_ms / 1000
        return Snapshot(total, total / seconds, total / steps if steps > 0 else 0.0)

    def _at(self, span: int, tick: int) -> tuple[int, int, int]:
        """Return the newest sample of the window ``SPANS[span]`` at or before a tick, as (tick, value, times)."""
        return next(sample for sample in reversed(self._samples[span]) if sample[0] <= tick)


_ITEMS_A_STEP = 100
"""Number of items that are sampled in some 0.1 ms."""


class StatsClock:
    """Samples the counters of a broker when their periods have passed.

    :param now_ms: start time, from which the periods are counted.
    """

    def __init__(self, now_ms: int) -> None:
        self._began_ms = now_ms
        self.ticks = tuple(0 for _ in SPANS)

    def is_due(self, now_ms: int) -> bool:
        """True if :meth:`advance` begins a period at this time."""
        return (now_ms - self._began_ms) // SPANS[0][0] > self.ticks[0]

    def advance(self, now_ms: int, items: Iterable[StatsItem]) -> Iterator[None] | None:
        """Begin the next period of every window whose period has passed; return short steps that sample the items.

        None if no period has passed. Until an item is sampled, its window ends with its last sample: what it counted
        since is missing in it.
        """
        due = []
        for span, (period_ms, _) in enumerate(SPANS):
            tick = (now_ms - self._began_ms) // period_ms
            if tick <= self.ticks[span]:
                break  # windows with longer periods are not due either
            self.ticks = (*self.ticks[:span], tick, *self.ticks[span + 1 :])
            due.append((span, tick))
        return _sample(due, list(items)) if due else None


def _sample(due: list[tuple[int, int]], items: list[StatsItem]) -> Iterator[None]:
    for span, tick in due:
        for begin in range(0, len(items), _ITEMS_A_STEP):
            for item in items[begin : begin + _ITEMS_A_STEP]:
                item.sample(span, tick)
            yield
