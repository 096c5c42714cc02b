"""The options of a simple consumer, their defaults and what is allowed."""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_py.client.consumer.options import GroupOptions
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeFromWhere

LONGEST_INVISIBLE = 3 * 86400
"""Seconds a message can be kept invisible at most: brokers keep times for three days (timerMaxDelaySec)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleOptions(GroupOptions):
    """Options of a simple consumer, besides those of :class:`GroupOptions`. Times are in seconds.

    :param consume_from: where a group without stored offsets starts, FIRST_OFFSET or LAST_OFFSET; the first member that
        asks decides. While the first message of a queue is still in memory, brokers let a new group start there,
        whatever this option says.
    :param invisible_duration: how long received messages are invisible to other members; ``receive`` can override it.
    :param orderly: receive the messages of a queue in order: the next one is delivered after the last one is acked or
        visible again. Use the same value for all members of the group.
    :param poll_time: how long a broker may hold a notification request until a message comes.
    :param pull_delay_after_error: pause of a broker after a request that failed, 0 to 3600.
    """

    consume_from: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    invisible_duration: float = 60.0
    orderly: bool = False
    poll_time: float = 15.0
    pull_delay_after_error: float = 1.0

    def __post_init__(self) -> None:
        if self.consume_from not in (ConsumeFromWhere.FIRST_OFFSET, ConsumeFromWhere.LAST_OFFSET):
            raise ConfigError(f"consume_from={self.consume_from!r} must be FIRST_OFFSET or LAST_OFFSET")
        check_invisible(self.invisible_duration)
        if not 0.1 <= self.poll_time <= 60:
            raise ConfigError(f"poll_time={self.poll_time!r} is out of range: 0.1 to 60 is allowed")
        self.shared()


def check_invisible(seconds: float) -> float:
    """Check an invisible duration and return it.

    :raises ConfigError: it is out of range.
    """
    if not 1 <= seconds <= LONGEST_INVISIBLE:
        raise ConfigError(
            f"an invisible duration of {seconds!r} seconds is out of range: 1 to {LONGEST_INVISIBLE} is allowed"
        )
    return seconds
