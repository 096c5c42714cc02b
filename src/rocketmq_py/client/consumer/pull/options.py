"""The options of the deprecated pull consumer, their defaults and ranges.

The defaults are those of Java's DefaultMQPullConsumer; the names are too, spelled out. Times are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_py.client.consumer.options import QueueOptions, check_suspend
from rocketmq_py.core.consumer.consume_result import DEFAULT_MAX_RECONSUME
from rocketmq_py.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOptions(QueueOptions):
    """Options of a pull consumer, besides those of :class:`QueueOptions`. Times are in seconds.

    :param pull_timeout: how long to wait for the answer to a pull without ``wait=True``.
    :param broker_suspend_time: how long a broker may hold a pull with ``wait=True`` until a message arrives.
    :param timeout_when_suspend: how long to wait for the answer to a pull with ``wait=True``.
    :param max_reconsume_times: how often a message may be sent back before it goes to the dead-letter topic.
    """

    pull_timeout: float = 10.0
    broker_suspend_time: float = 20.0
    timeout_when_suspend: float = 30.0
    max_reconsume_times: int = DEFAULT_MAX_RECONSUME

    def __post_init__(self) -> None:
        for name in ("pull_timeout", "broker_suspend_time", "timeout_when_suspend"):
            value = getattr(self, name)
            if not 0 < value <= _LONGEST:
                raise ConfigError(f"{name}={value!r} is out of range: it must be positive and at most {_LONGEST:g}")
        check_suspend(self.broker_suspend_time, self.timeout_when_suspend)
        self.shared()


_LONGEST = 3600.0
