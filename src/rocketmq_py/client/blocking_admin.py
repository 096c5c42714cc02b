"""The blocking administration: the same names as the asyncio one, which does the work in the portal's loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rocketmq_py.client import admin as aio
from rocketmq_py.client.portal import portal
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies import ClusterInfo, SubscriptionGroupConfig
from rocketmq_py.protocol.sysflag import PERM_RW


class Admin:
    """Manages a cluster, from any number of threads: ``with Admin("127.0.0.1:9876") as admin``.

    :param namesrv: name servers: ``"h:p;h:p"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param timeout: seconds to wait for each answer.
    :param address_map: other addresses for those brokers advertise.

    Every method may raise NetworkError (nobody answers) and BrokerError (the answer is no).
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        timeout: float = 5.0,
        address_map: Mapping[str, str] | None = None,
    ) -> None:
        self._aio = aio.Admin(namesrv, timeout=timeout, address_map=address_map)
        self._run = portal().run

    def start(self) -> None:
        """Make ready. May be called more than once."""
        self._run(self._aio.start())

    def close(self) -> None:
        """End the connections. May be called more than once."""
        self._run(self._aio.close())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- cluster and topics

    def cluster(self) -> ClusterInfo:
        """Which brokers the name server knows, by name and by cluster."""
        return self._run(self._aio.cluster())

    def topics(self) -> list[str]:
        """The names of all topics, sorted, system topics included."""
        return self._run(self._aio.topics())

    def route(self, topic: str) -> TopicRoute:
        """Where the queues of a topic are, as the name server has it now.

        :raises NoRouteError: it does not know the topic.
        """
        return self._run(self._aio.route(topic))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.queues(topic))

    def create_topic(
        self,
        topic: str,
        queues: int = 8,
        perm: int = PERM_RW,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        order: bool = False,
        cluster: str | None = None,
    ) -> None:
        """Create a topic, or change it, on every master.

        :param queues: queues on each broker, unless ``read_queues`` or ``write_queues`` says otherwise.
        :param perm: 4 read, 2 write, 6 both.
        :param cluster: only on brokers of this cluster.
        :raises ConfigError: an illegal name, or no such cluster.
        """
        self._run(
            self._aio.create_topic(
                topic, queues, perm, read_queues=read_queues, write_queues=write_queues, order=order, cluster=cluster
            )
        )

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic from every master, and its route from every name server."""
        self._run(self._aio.delete_topic(topic, cluster=cluster))

    # -- groups

    def create_group(
        self, group: str | SubscriptionGroupConfig, *, retry_max_times: int = 16, cluster: str | None = None
    ) -> None:
        """Create a consumer group, or change it, on every master.

        :param group: its name, or its whole configuration, which then is all that counts.
        :param retry_max_times: how often a failed message is delivered again before it goes to the dead-letter topic.
        :raises ConfigError: an illegal name, or no such cluster.
        """
        self._run(self._aio.create_group(group, retry_max_times=retry_max_times, cluster=cluster))

    def delete_group(self, group: str, *, clean_offsets: bool = False, cluster: str | None = None) -> None:
        """Delete a consumer group from every master.

        :param clean_offsets: delete its offsets, too.
        """
        self._run(self._aio.delete_group(group, clean_offsets=clean_offsets, cluster=cluster))

    # -- offsets

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message a queue still holds."""
        return self._run(self._aio.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset the next message of a queue will get."""
        return self._run(self._aio.max_offset(queue))

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at ``timestamp_ms`` or later; the queue's end if there is none."""
        return self._run(self._aio.offset_at(queue, timestamp_ms))

    def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The offset a group consumes next of a queue; None where it has committed none."""
        return self._run(self._aio.group_offset(group, queue))

    def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """The offset a group consumes next, of every queue where it has committed one.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.group_offsets(group, topic))

    def set_group_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Make a group consume a queue from ``offset`` on; members that are running keep to their own count."""
        self._run(self._aio.set_group_offset(group, queue, offset))

    def lags(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """How many messages of each queue a group has not committed yet; all, where it has committed none.

        :raises NoRouteError: the name server does not know the topic. A retry topic nobody needed yet has no queues.
        """
        return self._run(self._aio.lags(group, topic))

    def lag(self, group: str, topic: str) -> int:
        """How many messages of a topic a group has not committed yet. See :meth:`lags`."""
        return self._run(self._aio.lag(group, topic))

    def __repr__(self) -> str:
        return repr(self._aio)
