"""The base class of the blocking pull consumer: its deprecation warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from rocketmq_py.client.consumer.blocking_member import BlockingMember
from rocketmq_py.client.consumer.pull.consumer import PullConsumer, warn_deprecated


class BlockingPullMember(BlockingMember[PullConsumer]):
    """Base of the blocking pull consumer."""

    def _make(self, constructor: Callable[[], PullConsumer]) -> PullConsumer:
        warn_deprecated(3)

        def make() -> PullConsumer:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # the caller is warned already
                return constructor()

        return super()._make(make)
