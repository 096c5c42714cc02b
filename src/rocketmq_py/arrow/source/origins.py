"""The origin of a read's records, as its options say: brokers, or store directories."""

from __future__ import annotations

from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.source.origin import Fetching, Origin


def origin_of(options: ReadOptions) -> Origin:
    """Return what plans a read asks about queues and offsets; the caller must close it.

    :raises ConfigError: a store directory has no store.
    """
    if options.stores:
        from rocketmq_py.arrow.offline.store_origin import StoreOrigin

        return StoreOrigin(options.stores)
    from rocketmq_py.arrow.remoting.broker_origin import broker_origin

    return broker_origin(options)


def fetching_of(options: ReadOptions) -> Fetching:
    """Return what fetches the ranges of a task; the caller must close it."""
    if options.stores:
        from rocketmq_py.arrow.offline.store_fetching import StoreFetching

        return StoreFetching(options)
    from rocketmq_py.arrow.remoting.fetching import BrokerFetching

    return BrokerFetching(options)
