"""The options of a lite pull consumer, their defaults and what is allowed.

Names and defaults are those of Java's DefaultLitePullConsumer, in seconds and whole words.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_py.client.consumer.options import PullingOptions, check_ranges, check_suspend


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullOptions(PullingOptions):
    """Options of a lite pull consumer, besides those of :class:`PullingOptions`. Times are in seconds.

    :param pull_batch_size: the most messages per pull, and per poll.
    :param pull_threshold_for_all: flow control: stop to pull while more messages of all queues are held; every batch
        counts as a full one.
    :param auto_commit: a poll commits what earlier polls returned, if the last commit is old enough.
    :param auto_commit_interval: the least time between two such commits.
    :param broker_suspend_time: how long a broker may hold a pull that finds nothing.
    :param timeout_when_suspend: how long to wait for the answer to a pull.
    :param metadata_check_interval: pause between two checks of watched topics.
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
