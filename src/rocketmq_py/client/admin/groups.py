"""Administration of consumer groups: configuration, members, consume progress, offsets, queue locks, lag."""

from __future__ import annotations

import asyncio

from rocketmq_py.client.admin.topics import TopicAdmin
from rocketmq_py.errors import ConfigError, ConsumerNotOnline, NotFound, RequestNotSupported
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.admin import ConsumeStatsTable, OffsetWrapper, ResetOffsetTable
from rocketmq_py.protocol.bodies.client import ConsumerConnection, LockBatchRequest, LockBatchResponse, MessageQueueBody
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupTable
from rocketmq_py.protocol.bodies.pop import POP, PULL, MessageRequestMode
from rocketmq_py.protocol.bodies.route import TopicList
from rocketmq_py.protocol.codes import RequestCode, Version, version_name
from rocketmq_py.protocol.headers.group import DeleteGroup, GetConsumeStats, GroupHeader, GroupName
from rocketmq_py.protocol.headers.offset import GetMaxOffset, QueryConsumerOffset, ResetOffset, UpdateConsumerOffset


class GroupAdmin(TopicAdmin):
    """Base of :class:`~rocketmq_py.client.admin.admin.Admin`: its methods for consumer groups."""

    async def groups(self, cluster: str | None = None) -> dict[str, dict[str, SubscriptionGroupConfig]]:
        """The configurations of all consumer groups: by group, then by broker name.

        :param cluster: only on brokers of this cluster.
        """
        answers = await self._ask_each(await self._brokers(cluster), RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        found: dict[str, dict[str, SubscriptionGroupConfig]] = {}
        for broker, answer in answers.items():
            for group, config in SubscriptionGroupTable.decode(answer.body).subscription_group_table.items():
                found.setdefault(group, {})[broker] = config
        return dict(sorted(found.items()))

    async def create_group(
        self, group: str | SubscriptionGroupConfig, *, retry_max_times: int = 16, cluster: str | None = None
    ) -> None:
        """Create a consumer group, or change it, on every master.

        :param group: the name of the group, or its configuration; ``retry_max_times`` is ignored with the latter.
        :param retry_max_times: redeliveries of a failed message before it goes to the dead-letter topic.
        :param cluster: only on masters of this cluster.
        :raises ConfigError: an illegal name, or no such cluster.
        """
        if isinstance(group, str):
            group = SubscriptionGroupConfig(group_name=group, retry_max_times=retry_max_times)
        names.check_group(group.group_name)
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await self._ask_all(await self._masters(cluster), code, None, group.encode())

    async def delete_group(self, group: str, *, clean_offsets: bool = False, cluster: str | None = None) -> None:
        """Delete a consumer group from every master.

        :param clean_offsets: also delete its committed offsets.
        :param cluster: only from masters of this cluster.
        """
        header = DeleteGroup(group_name=group, clean_offset=clean_offsets)
        await self._ask_all(await self._masters(cluster), RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def set_request_mode(
        self, group: str, topic: str, mode: str, *, share: int = 0, cluster: str | None = None
    ) -> None:
        """Set whether the members of a group pull or pop a topic.

        It applies to members whose queues brokers assign (``client_rebalance=False``), within 20 s.

        :param mode: ``"PULL"``: each queue belongs to one member; ``"POP"``: several members pop from each queue.
        :param share: in mode POP, the number of other members whose queues each member also pops; 0: all queues.
        :param cluster: only on masters of this cluster.
        :raises ConfigError: there is no such mode, or no such cluster.
        :raises TopicNotExist: a broker does not have the topic.
        :raises GroupNotExist: a broker does not have the group.
        """
        if mode not in (PULL, POP):
            raise ConfigError(f"mode={mode!r} must be {PULL!r} or {POP!r}")
        body = MessageRequestMode(topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=share)
        await self._ask_all(await self._masters(cluster), RequestCode.SET_MESSAGE_REQUEST_MODE, None, body.encode())

    async def members(self, group: str) -> ConsumerConnection | None:
        """The connected members of a group and their subscriptions; None if no member is connected."""
        header = GroupHeader(consumer_group=group)
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        answers = await self._ask_each(await self._brokers(), code, header, without=(ConsumerNotOnline,))
        found = [ConsumerConnection.decode(answer.body) for answer in answers.values()]
        if not found:
            return None
        all_of_them = {member.client_id: member for each in found for member in each.connection_set}
        found[0].connection_set = [all_of_them[client_id] for client_id in sorted(all_of_them)]
        return found[0]

    async def group_topics(self, group: str) -> list[str]:
        """The topics for which a group has committed offsets, sorted."""
        header = GroupName(group=group)
        answers = await self._ask_each(await self._brokers(), RequestCode.QUERY_TOPICS_BY_CONSUMER, header)
        return sorted({topic for answer in answers.values() for topic in TopicList.decode(answer.body).topic_list})

    async def progress(self, group: str, topic: str | None = None) -> dict[MessageQueue, OffsetWrapper]:
        """The consume progress of a group by queue: max offset, committed offset, time of the last consumed message.

        :param topic: only queues of this topic; None: of all topics for which the group has committed offsets.
        """
        header = GetConsumeStats(consumer_group=group, topic=topic)
        answers = await self._ask_each(await self._brokers(), RequestCode.GET_CONSUME_STATS, header)
        tables = [ConsumeStatsTable.read(answer.body).queues() for answer in answers.values()]
        return dict(sorted((queue, state) for table in tables for queue, state in table.items()))

    # -- offsets

    async def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The committed offset of a group in a queue: that of the next message to consume; None if there is none."""
        header = QueryConsumerOffset(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False,
            bname=queue.broker_name,
        )  # fmt: skip
        try:
            return await self._offset(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except NotFound:
            return None

    async def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """The committed offsets of a group by queue of a topic; queues without a committed offset are left out.

        :raises NoRouteError: the name server does not know the topic.
        """
        queues = await self.queues(topic)
        offsets = await asyncio.gather(*(self.group_offset(group, queue) for queue in queues))
        return {queue: offset for queue, offset in zip(queues, offsets, strict=True) if offset is not None}

    async def set_group_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the committed offset of a group in a queue. Running members overwrite it with their own offsets.

        With running members use :meth:`reset_group_offset`.
        """
        header = UpdateConsumerOffset(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset,
            bname=queue.broker_name,
        )  # fmt: skip
        await self._ask_owner(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def reset_group_offset(self, group: str, queue: MessageQueue, offset: int) -> int:
        """Make a group, running members included, consume a queue from ``offset`` on; returns the offset that is set.

        Running members follow immediately; with a Java broker at their next pull, at most 15 s later. Needs a broker
        of version 5.0 or later.

        :raises BrokerError: ``offset`` is outside of the queue, or there is no such group or topic.
        :raises ConfigError: the broker is too old to set a single queue.
        """
        probe = GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        version = (await self._ask_owner(queue, RequestCode.GET_MAX_OFFSET, probe)).version
        if version < Version.V5_0_0:  # older brokers ignore queue and offset and reset all queues by time
            raise ConfigError(
                f"broker {queue.broker_name} is of version {version_name(version)}: setting a group back needs 5.0; "
                "stop the group's consumers and set the offset itself (set_group_offset)"
            )
        header = ResetOffset(
            topic=queue.topic, group=group, queue_id=queue.queue_id, offset=offset, timestamp=-1, is_force=True,
            bname=queue.broker_name,
        )  # fmt: skip
        try:
            answer = await self._ask_owner(queue, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        except (ConsumerNotOnline, RequestNotSupported):  # such a broker only forwards the request to running members
            await self.set_group_offset(group, queue, offset)
            return offset
        return ResetOffsetTable.read(answer.body).queues().get(queue, offset)

    # -- locks

    async def lock_queue(self, group: str, queue: MessageQueue) -> bool:
        """Acquire or renew the lock of a queue for a group, as orderly consumers do.

        :returns: True if this client holds the lock now; it expires after 60 seconds. False if another client holds it.
        """
        body = await self._ask_lock(RequestCode.LOCK_BATCH_MQ, group, queue)
        held = LockBatchResponse.decode(body).lock_ok_mq_set
        return any((mq.topic, mq.broker_name, mq.queue_id) == queue for mq in held)

    async def unlock_queue(self, group: str, queue: MessageQueue) -> None:
        """Release the lock of a queue; does nothing if another client holds it."""
        await self._ask_lock(RequestCode.UNLOCK_BATCH_MQ, group, queue)

    async def _ask_lock(self, code: RequestCode, group: str, queue: MessageQueue) -> bytes:
        one = MessageQueueBody(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)
        body = LockBatchRequest(consumer_group=group, client_id=self._instance.client_id, mq_set=[one])
        return (await self._ask_owner(queue, code, None, body.encode())).body

    # -- lag

    async def lags(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """The number of messages after a group's committed offset, by queue of a topic.

        A queue without a committed offset counts all its messages. Empty for a retry topic that does not exist yet.

        :raises NoRouteError: the name server does not know the topic.
        """
        queues = await self._readable(topic)
        return dict(zip(queues, await asyncio.gather(*(self._lag(group, queue) for queue in queues)), strict=True))

    async def lag(self, group: str, topic: str) -> int:
        """The number of messages of a topic after a group's committed offsets: the sum of :meth:`lags`."""
        return sum((await self.lags(group, topic)).values())

    async def _lag(self, group: str, queue: MessageQueue) -> int:
        done, first = await asyncio.gather(self.group_offset(group, queue), self.min_offset(queue))
        # Read the end of the queue last: messages consumed in between must not make the lag negative.
        return max(0, await self.max_offset(queue) - max(done or 0, first))
