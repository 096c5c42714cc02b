"""Parse and format times (milliseconds since the epoch) and time spans (milliseconds)."""

from __future__ import annotations

import datetime
import re
from typing import Any

import click

from rocketmq_py.client.times import now_ms, show_span

__all__ = ["Time", "now_ms", "parse_span", "parse_time", "show_span", "show_time"]

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_EPOCH_MS = re.compile(r"\d{11,}")


def parse_time(text: str, now: int) -> int:
    """Parse a time; return milliseconds since the epoch.

    Forms: ``2026-01-31``, ``2026-01-31T12:30`` (local, or with an offset from UTC), milliseconds since the epoch,
    ``now``, or a span before ``now`` (``10m``, ``1h30m``, ``2d``).

    :param now: the current time in milliseconds since the epoch.
    :raises ValueError: the text has none of these forms.
    """
    text = text.strip()
    if text == "now":
        return now
    if _EPOCH_MS.fullmatch(text):
        return int(text)
    span = parse_span(text.removesuffix(" ago"))
    if span is not None:
        return now - span
    return int(datetime.datetime.fromisoformat(text).astimezone().timestamp() * 1000)


def parse_span(text: str) -> int | None:
    """Parse a span such as ``90s`` or ``1h30m`` to milliseconds; None if the text is not a span."""
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return int(sum(float(number) * _UNITS[unit] for number, unit in parts))


def show_time(milliseconds: int | None) -> str | None:
    """Format a time (milliseconds since the epoch) in local time; None for None and for values of 0 or less."""
    if milliseconds is None or milliseconds <= 0:
        return None
    local = datetime.datetime.fromtimestamp(milliseconds / 1000).astimezone()
    return local.strftime("%Y-%m-%d %H:%M:%S.") + f"{milliseconds % 1000:03}"


class Time(click.ParamType):  # type: ignore[type-arg]
    """Type of a click option whose value is a time; the command gets milliseconds since the epoch."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_time(value, now_ms())
        except ValueError:
            self.fail(
                f"{value!r} is no time; write 2026-01-31T12:30, how long ago (10m, 2h, 1d), or milliseconds since 1970",
                param,
                ctx,
            )
