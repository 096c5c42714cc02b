"""The options of a lite pull consumer, their defaults and ranges.

The defaults are those of Java's DefaultLitePullConsumer; the names are too, spelled out. Times are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_py.client.consumer.options import PullingOptions, check_ranges, check_suspend


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullOptions(PullingOptions):
    """Options of a lite pull consumer, besides those of :class:`PullingOptions`. Times are in seconds.

    :param pull_batch_size: maximum number of messages per pull, and per poll.
    :param pull_threshold_for_all: flow control: pause pulling while more than this many messages of all queues are
        cached; every cached batch counts as ``pull_batch_size`` messages.
    :param auto_commit: polls commit the messages of earlier polls, at most every ``auto_commit_interval`` seconds.
    :param auto_commit_interval: the least time between two automatic commits.
    :param broker_suspend_time: how long a broker may hold a pull until a message arrives (long polling).
    :param timeout_when_suspend: how long to wait for the answer to a pull; more than ``broker_suspend_time``.
    :param metadata_check_interval: time between two checks of the topics of ``on_queues_changed``.
    """

    pull_batch_size: int = 10
    pull_threshold_for_all: int = 10000
    auto_commit: bool = True
    auto_commit_interval: float = 5.0
    broker_suspend_time: float = 20.0
    timeout_when_suspend: float = 30.0
    metadata_check_interval: float = 30.0

    def __post_init__(self) -> None:
        check_ranges(self, _ALLOWED)
        check_suspend(self.broker_suspend_time, self.timeout_when_suspend)
        self.shared()


_ALLOWED: dict[str, tuple[float, float]] = {
    "pull_threshold_for_all": (1, 6553500),
    "auto_commit_interval": (1, 86400),
    "broker_suspend_time": (0.001, 3600),
    "timeout_when_suspend": (0.001, 3600),
    "metadata_check_interval": (0.001, 86400),
}
