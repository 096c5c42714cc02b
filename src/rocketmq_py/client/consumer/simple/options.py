"""The options of a simple consumer, their defaults and what is allowed."""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_py.client.client_instance import ClientSettings
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeFromWhere

LONGEST_INVISIBLE = 3 * 86400
"""Seconds a message can be kept invisible at most: brokers keep times for three days (timerMaxDelaySec)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleOptions:
    """How a simple consumer receives. Times are seconds.

    :param consume_from: where a group without stored offsets starts, FIRST_OFFSET or LAST_OFFSET; decided by whichever
        member asks first. A broker answers a young topic's first offset for a new group, whatever is asked here, while
        its messages are still in memory.
    :param invisible_duration: how long received messages are invisible to others, unless ``receive`` says otherwise.
    :param orderly: the messages of a queue come in order: as long as one is neither acked nor visible again, nobody
        gets the next. All members of the group must say the same.
    :param poll_time: how long a broker may hold a request for word of new messages.
    """

    consume_from: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    invisible_duration: float = 60.0
    orderly: bool = False
    poll_time: float = 15.0

    def __post_init__(self) -> None:
        if self.consume_from not in (ConsumeFromWhere.FIRST_OFFSET, ConsumeFromWhere.LAST_OFFSET):
            raise ConfigError(f"consume_from={self.consume_from!r} must be FIRST_OFFSET or LAST_OFFSET")
        check_invisible(self.invisible_duration)
        if not 0.1 <= self.poll_time <= 60:
            raise ConfigError(f"poll_time={self.poll_time!r} is out of range: 0.1 to 60 is allowed")

    def shared(self) -> PushOptions:
        """The options that mean the same to a push consumer."""
        return PushOptions(consume_from=self.consume_from)


class SimpleSettings(ClientSettings, total=False):
    """The names and types of :class:`SimpleOptions`, beside those of the client, for keyword arguments."""

    consume_from: ConsumeFromWhere
    invisible_duration: float
    orderly: bool
    poll_time: float


def check_invisible(seconds: float) -> float:
    """``seconds`` itself.

    :raises ConfigError: no message can be received for that long.
    """
    if not 1 <= seconds <= LONGEST_INVISIBLE:
        raise ConfigError(
            f"an invisible duration of {seconds!r} seconds is out of range: 1 to {LONGEST_INVISIBLE} is allowed"
        )
    return seconds
