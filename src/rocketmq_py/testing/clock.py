"""A clock that stands still until a test moves it."""

from __future__ import annotations


class ManualClock:
    """Call it for the time: milliseconds since the epoch.

    :param now_ms: where it starts.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, seconds: float = 0.0, *, ms: int = 0) -> int:
        """Move it forward; returns the new time in milliseconds.

        :raises ValueError: the clock would go back.
        """
        step = round(seconds * 1000) + ms
        if step < 0:
            raise ValueError(f"a clock does not go back, {step} ms were asked for")
        self.now_ms += step
        return self.now_ms
