"""Administration: counters, times, producers, running consumers, and the progress of all groups."""

from __future__ import annotations

from rocketmq_py.client.admin.access import AccessAdmin
from rocketmq_py.errors import RequestNotSupported, SystemError_, TopicNotExist
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import OffsetWrapper
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ProducerConnection
from rocketmq_py.protocol.bodies.statistics import (
    BrokerProgress,
    ConsumerRunningInfo,
    ConsumeTimes,
    ConsumeTimeSpans,
    CounterValues,
    HeldRequests,
    ProducerInfo,
    ProducerTable,
    QueueEntries,
    TimerCounts,
)
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.admin import (
    BrokerConsumeStats,
    ListHeldRequests,
    QueryConsumeQueue,
    QueryConsumeTimeSpan,
    ViewBrokerStats,
)
from rocketmq_py.protocol.headers.group import GetConsumerRunningInfo, ProducerGroupHeader


class StatisticsAdmin(AccessAdmin):
    """Base of :class:`~rocketmq_py.client.admin.admin.Admin`: its methods for statistics and running clients."""

    async def counter(self, name: str, key: str, *, cluster: str | None = None) -> dict[str, CounterValues]:
        """A counter over the last minute, hour and day, by broker name; brokers that never counted it are left out.

        :param name: one of Java's counters, for example ``TOPIC_PUT_NUMS``, ``TOPIC_PUT_SIZE``, ``GROUP_GET_NUMS``.
        :param key: what is counted: a topic, for counters of groups ``topic@group``, for those of brokers the cluster.
        :param cluster: only brokers of this cluster.
        """
        header = ViewBrokerStats(stats_name=name, stats_key=key)
        code = RequestCode.VIEW_BROKER_STATS_DATA
        answers = await self._ask_each(await self._brokers(cluster), code, header, without=(SystemError_,))
        return {broker: CounterValues.decode(answer.body) for broker, answer in answers.items()}

    async def consume_times(self, group: str, topic: str) -> dict[MessageQueue, ConsumeTimes]:
        """The store times of the oldest, the newest and the last consumed message of each queue of a topic.

        :raises NoRouteError: the name server does not know the topic.
        """
        header = QueryConsumeTimeSpan(topic=topic, group=group)
        brokers, code = await self._brokers_of(topic), RequestCode.QUERY_CONSUME_TIME_SPAN
        answers = await self._ask_each(brokers, code, header, without=(TopicNotExist,))
        spans = [ConsumeTimeSpans.decode(answer.body).consume_time_span_set for answer in answers.values()]
        return dict(sorted((times.queue, times) for each in spans for times in each))

    async def all_progress(self, *, cluster: str | None = None) -> dict[str, dict[MessageQueue, OffsetWrapper]]:
        """The consume progress of all groups, by group, then by queue: one request to each broker.

        Topics to which the members of a group no longer subscribe are left out, those of groups without members not.

        :param cluster: only on brokers of this cluster.
        """
        code, header = RequestCode.GET_BROKER_CONSUME_STATS, BrokerConsumeStats(is_order=False)
        found: dict[str, dict[MessageQueue, OffsetWrapper]] = {}
        for answer in (await self._ask_each(await self._brokers(cluster), code, header)).values():
            for group, queues in BrokerProgress.decode(answer.body).groups().items():
                found.setdefault(group, {}).update(queues)
        return dict(sorted(found.items()))

    async def timers(self, *, cluster: str | None = None) -> dict[str, dict[str, int]]:
        """The number of timed messages that wait, by topic, then by broker name; brokers without timers are left out.

        :param cluster: only on brokers of this cluster.
        """
        code = RequestCode.GET_TIMER_METRICS
        answers = await self._ask_each(await self._brokers(cluster), code, without=(SystemError_,))
        found: dict[str, dict[str, int]] = {}
        for broker, answer in answers.items():
            for topic, waiting in TimerCounts.decode(answer.body).timing_count.items():
                found.setdefault(topic, {})[broker] = waiting.count
        return dict(sorted(found.items()))

    async def queue_entries(
        self, queue: MessageQueue, offset: int, count: int = 32, *, group: str | None = None
    ) -> QueueEntries:
        """Entries of a consume queue as they are on disk, for diagnosis; none if there is no message at ``offset``.

        :param count: maximum number of entries; a broker may return fewer.
        :param group: the broker evaluates the subscription of this group, too.
        :raises BrokerError: the broker has no such queue.
        """
        header = QueryConsumeQueue(
            topic=queue.topic, queue_id=queue.queue_id, index=offset, count=count, consumer_group=group
        )
        answer = await self._ask_owner(queue, RequestCode.QUERY_CONSUME_QUEUE, header)
        return QueueEntries.decode(answer.body) if answer.body else QueueEntries()

    # -- clients

    async def held(self, topic: str = "", group: str = "", *, cluster: str | None = None) -> dict[str, HeldRequests]:
        """What brokers hold until messages arrive, by broker name; only brokers of this project tell it.

        :param topic: only requests for messages of this topic.
        :param group: only requests of this group.
        :param cluster: only of brokers of this cluster.
        """
        code, header = RequestCode.LIST_HELD_REQUESTS, ListHeldRequests(topic=topic, consumer_group=group)
        answers = await self._ask_each(await self._brokers(cluster), code, header, without=(RequestNotSupported,))
        return {broker: HeldRequests.decode(answer.body) for broker, answer in answers.items()}

    async def producers(self, *, cluster: str | None = None) -> dict[str, list[ProducerInfo]]:
        """All connected producers by group; one that is connected to several brokers is there once.

        :param cluster: only of brokers of this cluster.
        """
        answers = await self._ask_each(await self._brokers(cluster), RequestCode.GET_ALL_PRODUCER_INFO)
        found: dict[str, dict[str, ProducerInfo]] = {}
        for answer in answers.values():
            for group, members in ProducerTable.decode(answer.body).data.items():
                found.setdefault(group, {}).update({member.client_id: member for member in members})
        return {group: [members[name] for name in sorted(members)] for group, members in sorted(found.items())}

    async def producer_members(self, group: str) -> list[ConnectionInfo]:
        """The connected members of one producer group, sorted by client id; empty if there are none."""
        code, header = RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupHeader(producer_group=group)
        answers = await self._ask_each(await self._brokers(), code, header, without=(SystemError_,))
        each = [ProducerConnection.decode(answer.body).connection_set for answer in answers.values()]
        members = {member.client_id: member for connections in each for member in connections}
        return [members[name] for name in sorted(members)]

    async def running_info(self, group: str, client_id: str, *, stack: bool = False) -> ConsumerRunningInfo | None:
        """What a running consumer says about its queues, rates and settings; None if no broker reaches it.

        A broker passes the question on to the consumer.

        :param stack: also ask for the stacks of its threads.
        """
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        header = GetConsumerRunningInfo(consumer_group=group, client_id=client_id, jstack_enable=stack)
        answers = await self._ask_each(await self._brokers(), code, header, without=(SystemError_,))
        bodies = (answer.body for answer in answers.values() if answer.body)
        return next(map(ConsumerRunningInfo.decode, bodies), None)
