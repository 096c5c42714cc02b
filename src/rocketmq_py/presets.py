"""Options with the numbers that articles about RocketMQ name, where they differ from the defaults of Java's 5.x client.

``PushConsumer("group", **CLASSIC_INTERVALS)``; the options of push and lite pull consumers include all of them.
"""

from __future__ import annotations

from typing import Final, TypedDict


class Intervals(TypedDict):
    """Intervals of a consumer in seconds."""

    rebalance_interval: float
    pull_delay_after_error: float


CLASSIC_INTERVALS: Final[Intervals] = {"rebalance_interval": 10.0, "pull_delay_after_error": 3.0}
"""Rebalance every 10 s; 3 s until a queue is pulled again after an error (pullTimeDelayMillsWhenException of 4.x)."""
