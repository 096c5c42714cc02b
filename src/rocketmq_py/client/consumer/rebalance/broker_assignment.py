"""Assignments made by brokers: which queues of a topic this member owns, and whether it pulls or pops them.

Sends QUERY_ASSIGNMENT (400), and subscribes to the POP retry topic of a topic that the group pulls after having popped.
"""

from __future__ import annotations

import logging
import random

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.core.consumer.rebalance import Assignment
from rocketmq_py.core.route import TopicRoute, pick_address
from rocketmq_py.errors import BrokerError, NetworkError, RequestNotSupported, RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.pop import POP, QueryAssignmentRequest, QueryAssignmentResponse
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.pop_handle import normal_topic, pop_retry_topic

_log = logging.getLogger(__name__)

ANNOUNCE_AGAIN = 20.0
"""Least seconds since the last heartbeat after which a consumer without queues sends another one."""


class BrokerAssignments:
    """Asks brokers which queues one consumer owns."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self._modes: dict[str, str] = {}
        self._failures = group.failure_log("assignment", "")

    async def get(self, route: TopicRoute) -> Assignment | None:
        """Ask a broker for the queues of a topic that are assigned to this member.

        :returns: the queues to pull and to pop; None if the broker does not answer: the member keeps its queues then.
        """
        assigned = await self._ask(route)
        if assigned is not None and assigned.queues:
            return assigned
        if self._group.now() - self._group.announced_at < ANNOUNCE_AGAIN:
            return assigned
        await self._group.announce()  # a restarted broker has no heartbeat of this client
        return await self._ask(route)

    async def _ask(self, route: TopicRoute) -> Assignment | None:
        broker = random.choice(route.data.broker_datas)
        address = pick_address(broker.broker_addrs)
        if address is None:
            _log.warning("broker %s has no address in the route of topic %s", broker.broker_name, route.topic)
            return None
        body = QueryAssignmentRequest(
            topic=route.topic,
            consumer_group=self._group.name,
            client_id=self._group.instance.client_id,
            strategy_name=self._group.options.allocation.name,
        )
        try:
            answer = await self._group.instance.connections.invoke(
                address, RequestCode.QUERY_ASSIGNMENT, None, body.encode()
            )
        except (NetworkError, BrokerError) as e:
            self._log_failure(broker.broker_name, route.topic, e)
            return None
        recovery = self._failures.recovered()
        if recovery is not None:
            _log.log(recovery, "assignments of queues to group %s can be read again", self._group.name)
        found = QueryAssignmentResponse.decode(answer.body).message_queue_assignments
        if found is None:
            return None
        modes = {
            MessageQueue(
                each.message_queue.topic, each.message_queue.broker_name, each.message_queue.queue_id
            ): each.mode
            for each in found
        }
        assigned = Assignment(
            [queue for queue, mode in modes.items() if mode != POP],
            [queue for queue, mode in modes.items() if mode == POP],
        )
        self._log_mode(route.topic, assigned)
        return assigned

    def _log_failure(self, broker_name: str, topic: str, error: RocketMQError) -> None:
        level, lasting = self._failures.failed(error), self._failures.duration
        if not isinstance(error, RequestNotSupported):
            _log.log(
                level, "the assignment of topic %s to group %s cannot be read%s: %s", topic, self._group.name, lasting,
                error,
            )  # fmt: skip
            return
        _log.log(
            logging.ERROR if level == logging.WARNING else level,
            "broker %s does not assign queues (it is older than 5.0): group %s gets nothing of topic %s; do not set "
            "client_rebalance=False: %s", broker_name, self._group.name, topic, error,
        )  # fmt: skip

    def _log_mode(self, topic: str, assigned: Assignment) -> None:
        mode = "pops" if assigned.pop else "pulls" if assigned.pull else self._modes.get(topic, "owns no queue of")
        if not is_retry_topic(topic) and self._modes.get(topic) != mode:
            self._modes[topic] = mode
            _log.info("group %s %s topic %s from now on", self._group.name, mode, topic)

    def update_retry_topic(self, topic: str, assigned: Assignment) -> bool:
        """Subscribe to the POP retry topic of a topic that is pulled; unsubscribe from it if the topic is popped.

        The POP retry topic holds the messages that the group popped but did not ack before it changed to pull.

        :param assigned: the queues of ``topic``, which say whether it is pulled or popped.
        :returns: True if the subscriptions have changed.
        """
        if is_retry_topic(topic) or bool(assigned.pull) == bool(assigned.pop):
            return False
        retry, known = pop_retry_topic(topic, self._group.name), self._group.subscriptions
        if assigned.pull and retry not in known:
            self._group.subscribe(retry, "*")
            return True
        return bool(assigned.pop) and known.pop(retry, None) is not None

    def forget_unsubscribed(self) -> None:
        """Unsubscribe from the POP retry topics of topics that are no longer subscribed."""
        known = self._group.subscriptions
        for retry in [topic for topic in known if self._group.is_pop_retry(topic)]:
            if normal_topic(retry, self._group.name) not in known:
                del known[retry]
