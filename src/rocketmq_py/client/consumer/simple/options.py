"""The options of a simple consumer, their defaults and ranges."""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_py.client.consumer.options import GroupOptions
from rocketmq_py.core.consumer.pulls_ahead import PullsInFlight, check_in_flight
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeFromWhere

LONGEST_INVISIBLE = 3 * 86400
"""The longest invisible time in seconds: three days, the limit of brokers (timerMaxDelaySec)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleOptions(GroupOptions):
    """Options of a simple consumer, besides those of :class:`GroupOptions`. Times are in seconds.

    :param consume_from: where a group without stored offsets starts, FIRST_OFFSET or LAST_OFFSET; the value of the
        first member that receives applies. Brokers ignore it and start at the first message of a queue while that
        message is still in memory.
    :param invisible_duration: how long received messages are invisible to all members; ``receive`` can override it.
    :param orderly: receive the messages of a queue in order: further ones are delivered after the earlier ones are
        acked or visible again. Use the same value for all members of the group.
    :param poll_time: how long a broker may hold a notification request until a message arrives (long polling).
    :param pull_delay_after_error: pause of requests to a broker after a failed one, 0 to 3600.
    :param pops_in_flight: how many pops of a broker one ``receive`` of more than 32 messages may have in flight while
        their answers are full: a number up to 64, or ``"auto"``, up to 32. It begins with one and doubles. An orderly
        consumer has one.
    """

    consume_from: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    invisible_duration: float = 60.0
    orderly: bool = False
    poll_time: float = 15.0
    pull_delay_after_error: float = 1.0
    pops_in_flight: PullsInFlight = "auto"

    def __post_init__(self) -> None:
        if self.consume_from not in (ConsumeFromWhere.FIRST_OFFSET, ConsumeFromWhere.LAST_OFFSET):
            raise ConfigError(f"consume_from={self.consume_from!r} must be FIRST_OFFSET or LAST_OFFSET")
        check_invisible(self.invisible_duration)
        if not 0.1 <= self.poll_time <= 60:
            raise ConfigError(f"poll_time={self.poll_time!r} is out of range: 0.1 to 60 is allowed")
        check_in_flight(self.pops_in_flight, "pops_in_flight")
        self.shared()


def check_invisible(seconds: float) -> float:
    """Check an invisible time in seconds and return it.

    :raises ConfigError: it is not in 1 to :data:`LONGEST_INVISIBLE`.
    """
    if not 1 <= seconds <= LONGEST_INVISIBLE:
        raise ConfigError(
            f"an invisible duration of {seconds!r} seconds is out of range: 1 to {LONGEST_INVISIBLE} is allowed"
        )
    return seconds
