"""Administration of topics: names, configuration, offsets of queues."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from rocketmq_py.client.admin.brokers import BrokerAdmin
from rocketmq_py.client.queue_requests import first_offset
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.errors import NoRouteError, TopicNotExist
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.admin import TopicOffset, TopicStatsTable
from rocketmq_py.protocol.bodies.group import GroupList
from rocketmq_py.protocol.bodies.route import TopicList
from rocketmq_py.protocol.bodies.topic import TopicConfig, TopicConfigTable
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.offset import GetMaxOffset, OffsetResponse, QueueHeader, SearchOffset
from rocketmq_py.protocol.headers.topic import CreateTopic, DeleteTopicInNamesrv, TopicName
from rocketmq_py.protocol.sys_flag import PERM_RW


class TopicAdmin(BrokerAdmin):
    """Base of :class:`~rocketmq_py.client.admin.admin.Admin`: its methods for topics."""

    # -- topics

    async def topics(self) -> list[str]:
        """The names of all topics, sorted, system topics included."""
        answer = await self._instance.name_servers.invoke(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(TopicList.decode(answer.body).topic_list)

    async def system_topics(self) -> list[str]:
        """The names of the brokers' internal topics, sorted."""
        answers = await self._ask_each(await self._brokers(), RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        return sorted({topic for answer in answers.values() for topic in TopicList.decode(answer.body).topic_list})

    async def topic_configs(self, cluster: str | None = None) -> dict[str, dict[str, TopicConfig]]:
        """The configurations of all topics: by topic, then by broker name.

        :param cluster: only on brokers of this cluster.
        """
        answers = await self._ask_each(await self._brokers(cluster), RequestCode.GET_ALL_TOPIC_CONFIG)
        found: dict[str, dict[str, TopicConfig]] = {}
        for broker, answer in answers.items():
            for topic, config in TopicConfigTable.decode(answer.body).topic_config_table.items():
                found.setdefault(topic, {})[broker] = config
        return dict(sorted(found.items()))

    async def topic_config(self, topic: str) -> dict[str, TopicConfig]:
        """The configurations of a topic by broker name, which may differ between brokers.

        :raises NoRouteError: the name server does not know the topic.
        """
        header = TopicName(topic=topic)
        brokers = await self._brokers_of(topic)
        answers = await self._ask_each(brokers, RequestCode.GET_TOPIC_CONFIG, header, without=(TopicNotExist,))
        return {broker: TopicConfig.decode(answer.body) for broker, answer in answers.items()}

    async def topic_stats(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """The min offset, max offset and last store time of each queue of a topic.

        :raises NoRouteError: the name server does not know the topic.
        """
        header = TopicName(topic=topic)
        brokers = await self._brokers_of(topic)
        answers = await self._ask_each(brokers, RequestCode.GET_TOPIC_STATS_INFO, header, without=(TopicNotExist,))
        tables = [TopicStatsTable.read(answer.body).queues() for answer in answers.values()]
        return dict(sorted((queue, extent) for table in tables for queue, extent in table.items()))

    async def topic_groups(self, topic: str) -> list[str]:
        """The consumer groups that consume a topic or have consumed it, sorted.

        :raises NoRouteError: the name server does not know the topic.
        """
        header = TopicName(topic=topic)
        answers = await self._ask_each(await self._brokers_of(topic), RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
        return sorted({group for answer in answers.values() for group in GroupList.decode(answer.body).group_list})

    async def route(self, topic: str) -> TopicRoute:
        """Fetch the route of a topic from a name server: its brokers, their addresses and its queues.

        :raises NoRouteError: the name server does not know the topic.
        """
        return await self._instance.routes.refresh(topic)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic, by its current route.

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
        attributes: Mapping[str, str | None] | None = None,
        cluster: str | None = None,
        brokers: Collection[str] | None = None,
    ) -> None:
        """Create a topic, or change it, on every master.

        :param queues: the number of queues on each broker, for reading and writing.
        :param perm: the permission: 4 read, 2 write, 6 both.
        :param read_queues: the number of readable queues, instead of ``queues``.
        :param write_queues: the number of writable queues, instead of ``queues``.
        :param order: the order flag of the topic's configuration.
        :param attributes: attributes to set, for example ``{"message.type": "FIFO"}``; the value None removes one.
        :param cluster: only on masters of this cluster.
        :param brokers: only on the masters of these brokers, by name.
        :raises ConfigError: an illegal name, or no such cluster or broker.
        """
        names.check_topic(topic)
        header = CreateTopic(
            topic=topic,
            default_topic=names.AUTO_CREATE_TOPIC,
            read_queue_nums=queues if read_queues is None else read_queues,
            write_queue_nums=queues if write_queues is None else write_queues,
            perm=perm,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=order,
            attributes=changes(attributes or {}) or None,
        )
        await self._ask_all(await self._masters(cluster, brokers), RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic from all masters, and its route from all name servers.

        :param cluster: only from masters of this cluster, and only their part of the route.
        """
        masters = await self._masters(cluster)
        await self._ask_all(masters, RequestCode.DELETE_TOPIC_IN_BROKER, TopicName(topic=topic))
        servers = self._instance.name_servers.addresses
        route = DeleteTopicInNamesrv(topic=topic, cluster_name=cluster)
        await self._ask_all(servers, RequestCode.DELETE_TOPIC_IN_NAMESRV, route)

    # -- offsets of queues

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message of a queue."""
        return first_offset(await self._offset(queue, RequestCode.GET_MIN_OFFSET, _of_queue(queue)))

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message of a queue will get."""
        header = GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET, header)

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message of a queue stored at or after a time; without one, the queue's max offset.

        :param timestamp_ms: milliseconds since the epoch.
        """
        header = SearchOffset(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms, bname=queue.broker_name
        )
        return await self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def _offset(self, queue: MessageQueue, code: RequestCode, header: Header) -> int:
        answer = await self._ask_owner(queue, code, header)
        return OffsetResponse.from_ext(answer.ext).offset

    async def _readable(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic; none for a retry topic that does not exist yet."""
        try:
            return await self.queues(topic)
        except NoRouteError:
            if names.is_retry_topic(topic):
                return []
            raise

    async def _extent(self, queue: MessageQueue) -> tuple[int, int]:
        """The min offset and the max offset of a queue; the latter is one after the last message."""
        first, end = await asyncio.gather(self.min_offset(queue), self.max_offset(queue))
        return first, end


def changes(attributes: Mapping[str, str | None]) -> str:
    """Encode changes of a topic's attributes for the request, for example ``+message.type=FIFO,-other``.

    :param attributes: new values by name; None removes the attribute.
    """
    return ",".join(f"-{name}" if value is None else f"+{name}={value}" for name, value in attributes.items())


def _of_queue(queue: MessageQueue) -> QueueHeader:
    return QueueHeader(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
