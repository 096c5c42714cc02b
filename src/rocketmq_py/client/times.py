"""The time, and spans of time as text."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def show_span(milliseconds: float) -> str:
    """Format a span in its two largest units: ``350ms``, ``12s``, ``3m05s``, ``2h10m``, ``4d06h``."""
    seconds = int(milliseconds // 1000)
    if milliseconds < 1000:
        return f"{int(milliseconds)}ms"
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 86400:
        return f"{seconds // 3600}h{seconds // 60 % 60:02}m"
    return f"{seconds // 86400}d{seconds // 3600 % 24:02}h"
