"""The cost of a topic: what brokers counted for it, and its share of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocketmq_py.protocol.bodies.statistics import CounterValues

COLUMNS = ("direction", "group", "unit", "minute", "hour", "day")

Counted = Mapping[str, CounterValues] | None


def row(direction: str, group: str | None, unit: str, counted: Counted) -> dict[str, Any]:
    """Return the row of a counter: sums over all brokers; None where nobody counted.

    :param direction: ``in`` or ``out``.
    :param unit: ``messages`` or ``bytes``.
    """
    values = list((counted or {}).values())
    return {
        "direction": direction, "group": group, "unit": unit,
        "minute": sum(one.stats_minute.sum for one in values) if values else None,
        "hour": sum(one.stats_hour.sum for one in values) if values else None,
        "day": sum(one.stats_day.sum for one in values) if values else None,
    }  # fmt: skip


def share(part: Any, whole: Any) -> float | None:
    """Return the part of a whole from 0 to 1; None if one of them is unknown or the whole is nothing."""
    return round(min(1.0, part / whole), 4) if part is not None and whole else None


def stored_bytes(messages: int | None, day: Mapping[str, Any], day_bytes: Mapping[str, Any]) -> int | None:
    """Estimate the bytes of the messages that are kept, from the average size of the last day's messages."""
    if messages is None or not day["day"] or day_bytes["day"] is None:
        return None
    return int(messages * day_bytes["day"] / day["day"])
