"""Brokers as the origin of a read: :class:`BrokerOrigin`."""

from __future__ import annotations

from collections.abc import Sequence

from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.cluster import Cluster
from rocketmq_py.arrow.remoting.message_sizes import message_sizes
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange, QueueRoutes


class BrokerOrigin(Cluster):
    """A client of the cluster of a read, with what else its planning asks."""

    def located(self, ranges: Sequence[QueueRange], queues: QueueRoutes) -> list[LocatedRange]:
        """Return ranges with the addresses of their brokers; a task looks up those that ``queues`` does not have."""
        nowhere = Addresses()
        return [LocatedRange(one, queues.addresses.get(one.queue, nowhere)) for one in ranges]

    def message_bytes(self, ranges: Sequence[QueueRange], queues: QueueRoutes, group: str) -> dict[str, float]:
        """Return the average bytes of a message by topic, from one pull in each of ``ranges``."""
        return message_sizes(self, ranges, queues, group)

    def log_parts(self, ranges: Sequence[QueueRange], number: int) -> list[list[QueueRange]]:
        """Return nothing: a broker finds the messages of each queue."""
        del ranges, number
        return []


def broker_origin(options: ReadOptions) -> BrokerOrigin:
    """Return a new client of the cluster of a read, which the caller must close."""
    return BrokerOrigin(options.namesrv, options.timeout, options.num_retries, options.security)
