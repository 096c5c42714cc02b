"""Administration: topics, groups and offsets of a cluster, through the same requests Apache RocketMQ's tools make.

Knows which brokers and name servers a request goes to. Refuses to know what they do about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.routes import name_servers
from rocketmq_py.core.route import MASTER_ID, TopicRoute
from rocketmq_py.errors import ConfigError, NoRouteError, NotFound
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol import headers, names
from rocketmq_py.protocol.bodies import ClusterInfo, SubscriptionGroupConfig, TopicList
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.header import Header
from rocketmq_py.protocol.sysflag import PERM_RW
from rocketmq_py.wire.command import Command


class Admin:
    """Manages a cluster: ``async with Admin("127.0.0.1:9876") as admin``.

    :param namesrv: name servers: ``"h:p;h:p"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param timeout: seconds to wait for each answer.
    :param instance: share this client's connections; its owner starts and stops it.
    :param address_map: other addresses for those brokers advertise.

    Every method may raise NetworkError (nobody answers) and BrokerError (the answer is no).
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        timeout: float = 5.0,
        instance: ClientInstance | None = None,
        address_map: Mapping[str, str] | None = None,
    ) -> None:
        self._namesrv = [] if instance is not None else name_servers(namesrv)
        self._timeout = timeout
        self._own_instance = instance is None
        self._instance = instance or ClientInstance(self._namesrv, address_map=address_map, timeout=timeout)

    # -- life

    async def start(self) -> None:
        """Make ready. May be called more than once."""
        self._instance.connections.check_usable()

    async def close(self) -> None:
        """End the connections. May be called more than once."""
        if self._own_instance:
            await self._instance.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- cluster and topics

    async def cluster(self) -> ClusterInfo:
        """Which brokers the name server knows, by name and by cluster."""
        answer = await self._instance.name_servers.invoke(RequestCode.GET_BROKER_CLUSTER_INFO)
        return ClusterInfo.decode(answer.body)

    async def topics(self) -> list[str]:
        """The names of all topics, sorted, system topics included."""
        answer = await self._instance.name_servers.invoke(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(TopicList.decode(answer.body).topic_list)

    async def route(self, topic: str) -> TopicRoute:
        """Where the queues of a topic are, as the name server has it now.

        :raises NoRouteError: it does not know the topic.
        """
        return await self._instance.routes.refresh(topic)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read.

        :raises NoRouteError: the name server does not know the topic.
        """
        return (await self.route(topic)).read_queues

    async def create_topic(
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
        names.check_topic(topic)
        header = headers.CreateTopic(
            topic=topic,
            default_topic=names.AUTO_CREATE_TOPIC,
            read_queue_nums=queues if read_queues is None else read_queues,
            write_queue_nums=queues if write_queues is None else write_queues,
            perm=perm,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=order,
        )
        await self._ask_all(await self._masters(cluster), RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic from every master, and its route from every name server."""
        masters = await self._masters(cluster)
        await self._ask_all(masters, RequestCode.DELETE_TOPIC_IN_BROKER, headers.TopicName(topic=topic))
        servers = self._instance.name_servers.addresses
        route = headers.DeleteTopicInNamesrv(topic=topic, cluster_name=cluster)
        await self._ask_all(servers, RequestCode.DELETE_TOPIC_IN_NAMESRV, route)

    # -- groups

    async def create_group(
        self, group: str | SubscriptionGroupConfig, *, retry_max_times: int = 16, cluster: str | None = None
    ) -> None:
        """Create a consumer group, or change it, on every master.

        :param group: its name, or its whole configuration, which then is all that counts.
        :param retry_max_times: how often a failed message is delivered again before it goes to the dead-letter topic.
        :raises ConfigError: an illegal name, or no such cluster.
        """
        if isinstance(group, str):
            group = SubscriptionGroupConfig(group_name=group, retry_max_times=retry_max_times)
        names.check_group(group.group_name)
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await self._ask_all(await self._masters(cluster), code, None, group.encode())

    async def delete_group(self, group: str, *, clean_offsets: bool = False, cluster: str | None = None) -> None:
        """Delete a consumer group from every master.

        :param clean_offsets: delete its offsets, too.
        """
        header = headers.DeleteGroup(group_name=group, clean_offset=clean_offsets)
        await self._ask_all(await self._masters(cluster), RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    # -- offsets

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message a queue still holds."""
        return await self._offset(queue, RequestCode.GET_MIN_OFFSET, _of_queue(queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset the next message of a queue will get."""
        header = headers.GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET, header)

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at ``timestamp_ms`` or later; the queue's end if there is none."""
        header = headers.SearchOffset(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms, bname=queue.broker_name
        )
        return await self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The offset a group consumes next of a queue; None where it has committed none."""
        header = headers.QueryConsumerOffset(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False,
            bname=queue.broker_name,
        )  # fmt: skip
        try:
            return await self._offset(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except NotFound:
            return None

    async def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """The offset a group consumes next, of every queue where it has committed one.

        :raises NoRouteError: the name server does not know the topic.
        """
        queues = await self.queues(topic)
        offsets = await asyncio.gather(*(self.group_offset(group, queue) for queue in queues))
        return {queue: offset for queue, offset in zip(queues, offsets, strict=True) if offset is not None}

    async def set_group_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Make a group consume a queue from ``offset`` on; members that are running keep to their own count."""
        header = headers.UpdateConsumerOffset(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset,
            bname=queue.broker_name,
        )  # fmt: skip
        await self._ask_broker(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def lags(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """How many messages of each queue a group has not committed yet; all, where it has committed none.

        :raises NoRouteError: the name server does not know the topic. A retry topic nobody needed yet has no queues.
        """
        try:
            queues = await self.queues(topic)
        except NoRouteError:
            if names.is_retry_topic(topic):
                return {}
            raise
        return dict(zip(queues, await asyncio.gather(*(self._lag(group, queue) for queue in queues)), strict=True))

    async def lag(self, group: str, topic: str) -> int:
        """How many messages of a topic a group has not committed yet. See :meth:`lags`."""
        return sum((await self.lags(group, topic)).values())

    async def _lag(self, group: str, queue: MessageQueue) -> int:
        done, first = await asyncio.gather(self.group_offset(group, queue), self.min_offset(queue))
        # The end last: what is consumed while we ask must not look like less than nothing.
        return max(0, await self.max_offset(queue) - max(done or 0, first))

    # -- whom to ask

    async def _offset(self, queue: MessageQueue, code: RequestCode, header: Header) -> int:
        answer = await self._ask_broker(queue, code, header)
        return headers.OffsetResponse.from_ext(answer.ext).offset

    async def _ask_broker(self, queue: MessageQueue, code: RequestCode, header: Header) -> Command:
        routes = self._instance.routes
        address = routes.broker_address(queue.broker_name)
        if address is None:
            await routes.refresh(queue.topic)
            address = routes.broker_address(queue.broker_name)
        if address is None:
            raise NoRouteError(f"broker {queue.broker_name} of queue {queue} is not known to the name servers")
        return await self._instance.connections.invoke(address, code, header, timeout=self._timeout)

    async def _ask_all(
        self, addresses: Iterable[str], code: RequestCode, header: Header | None, body: bytes = b""
    ) -> None:
        invoke = self._instance.connections.invoke
        await asyncio.gather(*(invoke(address, code, header, body, self._timeout) for address in addresses))

    async def _masters(self, cluster: str | None) -> list[str]:
        """The address of each master of a cluster, or of all.

        :raises ConfigError: there is none.
        """
        info = await self.cluster()
        wanted = info.broker_addr_table if cluster is None else info.cluster_addr_table.get(cluster, ())
        brokers = [info.broker_addr_table[name].broker_addrs for name in wanted if name in info.broker_addr_table]
        found = [addresses[MASTER_ID] for addresses in brokers if MASTER_ID in addresses]
        if not found:
            which = "no master is registered" if cluster is None else f"no master of cluster {cluster!r} is registered"
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise ConfigError(f"{which} at name servers {self._instance.name_servers}; clusters known there: {known}")
        return found

    def __repr__(self) -> str:
        return f"Admin({self._instance.name_servers})"


def _of_queue(queue: MessageQueue) -> headers.QueueHeader:
    return headers.QueueHeader(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
