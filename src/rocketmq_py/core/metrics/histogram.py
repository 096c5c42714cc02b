"""Histograms with fixed buckets: counts of observations by size, cheap enough for hot paths."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate


class Histogram:
    """Counts observations in buckets.

    :param bounds: upper bounds of the buckets, ascending and inclusive; one more bucket has everything above.
    """

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.total = 0.0
        """Sum of all observed values."""
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        """Count ``times`` observations of the same value."""
        self._counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self._counts)

    def cumulative(self) -> Iterator[int]:
        """Return for each bound, and last for infinity, how many observations were not above it."""
        return accumulate(self._counts)
