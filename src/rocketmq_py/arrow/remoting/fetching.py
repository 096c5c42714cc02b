"""Fetch the ranges of a task from brokers: :class:`BrokerFetching`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace

from rocketmq_py.arrow.options.offsets import Offsets
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.broker_origin import broker_origin
from rocketmq_py.arrow.remoting.connection import IdleConnections
from rocketmq_py.arrow.remoting.fetch import READ_GROUP, Fetcher, FetchSettings
from rocketmq_py.arrow.remoting.filters import EVERYTHING, message_filter
from rocketmq_py.arrow.remoting.one_pull import OnePull
from rocketmq_py.arrow.remoting.queues import LocatedRange
from rocketmq_py.arrow.remoting.shared_pulls import prefetched


class BrokerFetching:
    """Fetches ranges by pulls, over connections that ranges use one after the other. Close it when done."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._settings = fetch_settings(options)
        self._idle = IdleConnections()

    @property
    def takes_all(self) -> bool:
        """True if the read has no filter."""
        return self._settings.wanted.takes_all

    def each(self, ranges: Sequence[LocatedRange], limit: int) -> Generator[tuple[LocatedRange, OnePull]]:
        """Yield each range in order and its fetch, with the filter of the read, and close that after use.

        :param limit: number of ranges, or groups of small ones, that are fetched at the same time.
        :raises RocketMQError: a range cannot be pulled after all retries.
        """
        fetches = (OnePull(one, self._settings, self._idle) for one in ranges)
        with closing(prefetched(fetches, limit, self._idle)) as started:
            yield from zip(ranges, started, strict=True)

    def again(self, located: LocatedRange, *, filtered: bool = True, retried: bool = True) -> Fetcher:
        """Return the fetch of a range of which something could not be decoded, over a connection of its own.

        :param filtered: whether the filter of the read applies.
        :param retried: whether to try several times.
        """
        settings = self._settings if filtered else replace(self._settings, wanted=EVERYTHING)
        return Fetcher(located.range, located.addresses, settings if retried else replace(settings, retries=0))

    def earliest(self, ranges: Sequence[QueueRange]) -> Offsets:
        """Ask brokers for the earliest offsets of the queues of ranges; queues without a broker are left out."""
        with closing(broker_origin(self._options)) as cluster:
            queues = cluster.readable(sorted({one.queue.topic for one in ranges}))
            return cluster.earliest(queues.only(one.queue for one in ranges))

    def close(self) -> None:
        """Close all connections."""
        self._idle.close()


def fetch_settings(options: ReadOptions) -> FetchSettings:
    """Return the settings with which a task fetches its ranges."""
    return FetchSettings(
        namesrv=options.namesrv,
        timeout=options.timeout,
        retries=options.num_retries,
        in_flight=options.pulls_in_flight,
        fail_on_data_loss=options.fail_on_data_loss,
        group=options.group or READ_GROUP,
        wanted=message_filter(options.tags, options.sql),
        security=options.security.loaded(),
    )
