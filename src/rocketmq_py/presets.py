"""Presets of consumer options, passed as ``PushConsumer("group", **CLASSIC_INTERVALS)``.

They are the values that articles about RocketMQ give where Java's 5.x client has other defaults. Push and lite pull
consumers have all of these options.
"""

from __future__ import annotations

from typing import Final, TypedDict


class Intervals(TypedDict):
    """Intervals of a consumer in seconds."""

    rebalance_interval: float
    pull_delay_after_error: float


CLASSIC_INTERVALS: Final[Intervals] = {"rebalance_interval": 10.0, "pull_delay_after_error": 3.0}
"""Rebalance every 10 s; wait 3 s before pulling a queue again after an error (4.x: pullTimeDelayMillsWhenException)."""
