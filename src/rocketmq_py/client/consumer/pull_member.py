"""The base class of lite pull and pull consumers: queries of queues and offsets, heartbeat, answers to brokers."""

from __future__ import annotations

import datetime
from typing import Any

from rocketmq_py.client.consumer import running_info
from rocketmq_py.client.consumer.group_member import GroupMember
from rocketmq_py.client.consumer.rebalance.rebalancer import Rebalancer
from rocketmq_py.model import ConsumeFromWhere, MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.client import ConsumerData


class PullMember(GroupMember):
    """A member of a consumer group whose application polls or pulls messages, without listeners."""

    _rebalancer: Rebalancer | None = None

    # -- queues and offsets

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Ask a name server for the readable queues of a topic.

        :raises NoRouteError: the topic does not exist.
        :raises NetworkError: no name server answers.
        """
        route = await self._instance.routes.refresh(self._group.named_topic(topic))
        return [self._group.shown(queue) for queue in route.read_queues]

    async def offset_for_timestamp(self, queue: MessageQueue, when: datetime.datetime | int) -> int:
        """Ask the broker for the offset of the first message of a queue stored at or after ``when``.

        :param when: an aware or local ``datetime``, or milliseconds since the epoch.
        :raises NoRouteError: the name servers do not know the queue's broker.
        :raises NetworkError: the broker cannot be reached.
        :raises BrokerError: the broker refuses the query.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._check_running()
        millis = int(when.timestamp() * 1000) if isinstance(when, datetime.datetime) else when
        return await self._group.offsets.offset_at(self._group.named(queue), millis)

    async def _committed(self, queue: MessageQueue) -> int | None:
        """The offset of a queue to commit, from memory; if there is none, the stored one; None if there is neither."""
        queue = self._group.named(queue)
        known = self._group.offsets.get(queue)
        return known if known is not None else await self._group.offsets.fetch(queue)

    # -- a member of the client instance

    def heartbeat(self) -> ConsumerData:
        """The entry of this consumer in heartbeats to brokers."""
        return ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_ACTIVELY",
            message_model=self._group.options.message_model.value,
            consume_from_where=ConsumeFromWhere.LAST_OFFSET.value,  # as Java's pull consumers, whatever their option
            subscription_data_set=list(self._group.subscriptions.values()),
        )

    async def on_ids_changed(self) -> None:
        """Trigger a rebalance, because the members of the group have changed."""
        if self._rebalancer is not None:
            self._rebalancer.trigger()

    # -- answers to brokers

    def running_info(self) -> dict[str, Any]:
        """The state of the consumer: the JSON object of Java's ConsumerRunningInfo."""
        info = running_info.running_info(self._group)
        info["properties"]["PROP_CONSUME_TYPE"] = "CONSUME_ACTIVELY"
        return info

    async def consume_directly(self, message: MessageExt) -> dict[str, Any]:
        """Return a ConsumeMessageDirectlyResult that says that this consumer has no listener."""
        remark = f"group {self._group.name} pulls: topic {message.topic} has no listener"
        return {
            "order": False, "autoCommit": False, "consumeResult": "CR_THROW_EXCEPTION", "spentTimeMills": 0,
            "remark": remark,
        }  # fmt: skip
