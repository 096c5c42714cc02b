"""Counts over the last minute, hour and day, as Apache RocketMQ's tools show them (StatsItem).

Knows when samples are taken and what sums and rates follow from them. An item that did not change keeps no new sample:
its last one stands for the later ones. Refuses to know what is counted, and clocks: time is milliseconds, passed in.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Span(NamedTuple):
    """A kind of window: how often samples are taken, and how many of them the window holds."""

    period_ms: int
    kept: int


SPANS = (Span(10_000, 7), Span(600_000, 7), Span(3_600_000, 25))
"""Minute, hour and day."""
MINUTE, HOUR, DAY = range(len(SPANS))


class Snapshot(NamedTuple):
    """What a window tells: how much was counted, how much a second, and how much at a time."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class StatsItem:
    """One counter: add to ``value``, and to ``times`` how often that was done."""

    __slots__ = ("_born", "_clock", "_samples", "times", "value")

    def __init__(self, clock: StatsClock) -> None:
        self.value = 0
        self.times = 0
        self._clock = clock
        self._born = clock.ticks
        self._samples: tuple[list[tuple[int, int, int]], ...] = tuple([(born, 0, 0)] for born in self._born)

    def sample(self, span: int, tick: int) -> None:
        """Note the counts at a tick, if they have changed; what lies before the window is let go but for its last."""
        samples = self._samples[span]
        if samples[-1][2] == self.times:
            return
        samples.append((tick, self.value, self.times))
        first = tick - SPANS[span].kept + 1
        while len(samples) > 1 and samples[1][0] <= first:
            del samples[0]

    def snapshot(self, span: int) -> Snapshot:
        """The counts of a window. Nothing before the first sample after the item came into being."""
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
        """The newest sample not after a tick."""
        return next(sample for sample in reversed(self._samples[span]) if sample[0] <= tick)


class StatsClock:
    """Says when the items of a broker are to take their samples.

    :param now_ms: when counting began; samples are due at multiples of the periods after it.
    """

    def __init__(self, now_ms: int) -> None:
        self._began_ms = now_ms
        self.ticks = tuple(0 for _ in SPANS)

    def advance(self, now_ms: int, items: Collection[StatsItem]) -> None:
        """Let items take the samples that are due."""
        for span, (period_ms, _) in enumerate(SPANS):
            tick = (now_ms - self._began_ms) // period_ms
            if tick <= self.ticks[span]:
                return  # the longer ones are not due either
            self.ticks = (*self.ticks[:span], tick, *self.ticks[span + 1 :])
            for item in items:
                item.sample(span, tick)
