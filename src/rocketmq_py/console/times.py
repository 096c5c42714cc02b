"""Times in milliseconds since the epoch, as text and back. The text is UTC, which is the same for every reader."""

from __future__ import annotations

import datetime
import re

_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"(\d{1,9})([smhd])")


def show_time(milliseconds: int | None) -> str | None:
    """Return a time as ``2026-01-31 12:30:00.000Z``; None if it is unknown (None, 0 or less)."""
    if milliseconds is None or milliseconds <= 0:
        return None
    try:
        at = datetime.datetime.fromtimestamp(milliseconds // 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return f"{at:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03}Z"


def parse_time(text: str, now_ms: int) -> int:
    """Parse ``2026-01-31T12:30`` (UTC unless it has an offset), milliseconds, or a span before now such as ``2h``.

    :raises ValueError: the text has none of these forms.
    """
    text = text.strip()
    span = _SPAN.fullmatch(text)
    if span is not None:
        return now_ms - int(span[1]) * _UNITS[span[2]]
    if text.isascii() and text.isdigit() and 11 <= len(text) <= 15:
        return int(text)
    at = datetime.datetime.fromisoformat(text)
    return int((at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp() * 1000)


def show_span(milliseconds: int | None) -> str | None:
    """Return a span in its largest unit, rounded down: ``12 s``, ``3 min``, ``2 h``, ``4 d``; None if it is unknown."""
    if milliseconds is None or milliseconds < 0:
        return None
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds >= size:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"
