"""What a member does with its queues: flow control, stuck listeners, stacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocketmq_py.protocol.bodies.statistics import ConsumerRunningInfo, HeldQueue

COLUMNS = ("topic", "broker", "queue", "cached", "cachedMiB", "span", "paused", "lastPull", "lastConsume", "locked",
           "stuckSeconds")  # fmt: skip
STUCK_MS = 60_000
"""A queue with held messages from which nothing was consumed for so long is called stuck."""

_LIMITS = {
    "count": "pullThresholdForQueue",
    "mib": "pullThresholdSizeForQueue",
    "span": "consumeConcurrentlyMaxSpan",
}
"""Java's names of the limits of flow control."""


def limits_of(properties: Mapping[str, str]) -> dict[str, int | None]:
    """Return the limits of flow control that a member reports; None where it reports none."""
    texts = {name: properties.get(key, "") for name, key in _LIMITS.items()}
    return {name: int(text) if text.isascii() and text.isdigit() else None for name, text in texts.items()}


def queue_rows(info: ConsumerRunningInfo, now_ms: int) -> list[dict[str, Any]]:
    """Return a row for each queue that a member owns."""
    limits, stuck = limits_of(info.properties), {tuple(parts[:3]): parts for parts in _stuck(info.properties)}
    rows = []
    for queue, held in sorted(info.queues().items()):
        place = (queue.topic, queue.broker_name, str(queue.queue_id))
        span = held.cached_max_offset - held.cached_min_offset if held.cached_count else 0
        rows.append(
            {
                "topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id,
                "cached": held.cached_count, "cachedMiB": held.cached_mib, "span": span,
                "paused": _paused_by(held, span, limits), "lastPull": held.last_pull_timestamp or None,
                "lastConsume": held.last_consume_timestamp or None, "locked": held.locked,
                "stuckSeconds": _stuck_seconds(held, stuck.get(place), now_ms),
            }
        )  # fmt: skip
    return rows


def _paused_by(held: HeldQueue, span: int, limits: Mapping[str, int | None]) -> str | None:
    """Return which limit makes the member pull no more: ``count``, ``mib`` or ``span``; None if none does."""
    values = {"count": held.cached_count, "mib": held.cached_mib, "span": span}
    over = (name for name, value in values.items() if (limit := limits[name]) is not None and value > limit)
    return next(over, None)


def _stuck_seconds(held: HeldQueue, reported: list[str] | None, now_ms: int) -> int | None:
    """Return for how long a queue is stuck: as the member says, else since it consumed last; None if it is not."""
    if reported is not None:
        return int(reported[4])
    idle = now_ms - held.last_consume_timestamp
    return idle // 1000 if held.cached_count and held.last_consume_timestamp > 0 and idle > STUCK_MS else None


def _stuck(properties: Mapping[str, str]) -> list[list[str]]:
    """Return what a client of this project says about listeners that do not return."""
    found = [part.split(" ") for part in properties.get("stuckListeners", "").split(";")]
    return [parts for parts in found if len(parts) == 5 and parts[4].isdecimal()]


def shown_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a member for people, sorted."""
    return {name: value for name, value in sorted(properties.items()) if name != "stuckListeners"}
