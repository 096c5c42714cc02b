"""A clock that advances only when a test moves it."""

from __future__ import annotations


class ManualClock:
    """A clock for tests: a callable that returns milliseconds since the epoch. Only :meth:`advance` moves it.

    :param now_ms: the initial time.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, seconds: float = 0.0, *, ms: int = 0) -> int:
        """Advance the clock by seconds and milliseconds; returns the new time in milliseconds since the epoch.

        :raises ValueError: the step is negative.
        """
        step = round(seconds * 1000) + ms
        if step < 0:
            raise ValueError(f"a clock does not go back, {step} ms were asked for")
        self.now_ms += step
        return self.now_ms
