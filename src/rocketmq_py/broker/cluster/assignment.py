"""Server-side assignment: the queues of a topic that a client of a group gets, and its request mode.

The rules are Java's (QueryAssignmentProcessor). All brokers' queues are assigned: a name server returns
them, and its answer is cached for a while. Without a name server only this broker's queues are assigned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.cluster.route_lookup import query_route
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.request_modes import RequestModes
from rocketmq_py.broker.metadata.topics import TopicConfigs, is_readable
from rocketmq_py.core.broker.client_registry import BROADCASTING
from rocketmq_py.core.consumer.allocation import Allocation, Average, Circle
from rocketmq_py.core.pop.assignment import share_for_pop
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import MessageQueueBody
from rocketmq_py.protocol.bodies.pop import (
    POP,
    MessageQueueAssignment,
    MessageRequestMode,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
)
from rocketmq_py.remoting.rpc_client import RpcClient

_log = logging.getLogger(__name__)

_RULES: dict[str | None, Allocation] = {rule.name: rule for rule in (Average(), Circle())}


class _CachedQueues(NamedTuple):
    """Cached queues of a topic, their expiry time in milliseconds, and the number of this broker's queues."""

    queues: list[MessageQueue] | None
    until_ms: int
    own: int


class QueueAssignments:
    """Assigns queues to the clients of groups.

    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicConfigs,
        clients: Clients,
        modes: RequestModes,
        rpc_client: RpcClient,
        clock: Callable[[], int],
    ) -> None:
        self._config = config
        self._topics = topics
        self._clients = clients
        self._modes = modes
        self._rpc_client = rpc_client
        self._clock = clock
        self._known: dict[str, _CachedQueues] = {}

    async def query(self, request: QueryAssignmentRequest) -> QueryAssignmentResponse:
        """Return the queues assigned to a client.

        A response without assignments makes the client keep its queues. It is given if the topic does not exist, the
        group has no members, or the strategy is unknown.
        """
        mode = self._modes.get(request.topic, request.consumer_group)
        queues = await self._queues(request.topic)
        mine = None if queues is None else self._share(request, mode, queues)
        if mine is None:
            return QueryAssignmentResponse()
        return QueryAssignmentResponse(
            message_queue_assignments=[
                MessageQueueAssignment(
                    message_queue=MessageQueueBody(
                        topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id
                    ),
                    mode=mode.mode,
                )
                for queue in mine
            ]
        )

    def _share(
        self, request: QueryAssignmentRequest, mode: MessageRequestMode, queues: list[MessageQueue]
    ) -> list[MessageQueue] | None:
        if request.message_model == BROADCASTING or not self._config.server_load_balancer_enable:
            return queues
        group = self._clients.consumers.groups.get(request.consumer_group)
        rule = _RULES.get(request.strategy_name)
        if group is None or rule is None:
            why = "it has no members" if group is None else f"strategy {request.strategy_name!r} is unknown"
            _log.warning("group %s gets no queues of topic %s: %s", request.consumer_group, request.topic, why)
            return None
        clients = sorted(group.client_ids())
        if mode.mode == POP:
            return share_for_pop(rule, request.client_id, queues, clients, mode.pop_share_queue_num)
        return rule.allocate(request.client_id, queues, clients)

    # -- queues

    async def _queues(self, topic: str) -> list[MessageQueue] | None:
        """Return the readable queues of a topic at all brokers, sorted; None if the topic does not exist."""
        own = self._own(topic)
        known = self._known.get(topic)
        if not self._config.namesrv_addresses:
            return own or None
        if known is not None and known.own == len(own) and self._clock() < known.until_ms:
            return known.queues
        found = await self._read_queues(topic)
        if found is None:
            return known.queues if known is not None else own or None
        queues = found or own or None
        until = self._clock() + self._config.load_balance_poll_name_server_interval
        if queues is not None:  # a missing topic is not cached: it may be created at any moment
            self._known[topic] = _CachedQueues(queues, until, len(own))
        return queues

    def _own(self, topic: str) -> list[MessageQueue]:
        found = self._topics.get(topic)
        if found is None or not is_readable(found.perm):
            return []
        return [MessageQueue(topic, self._config.broker_name, queue) for queue in range(found.read_queue_nums)]

    async def _read_queues(self, topic: str) -> list[MessageQueue] | None:
        """Query a topic's queues at the name servers; empty for an unknown topic, None if no name server answers."""
        route = await query_route(self._config, self._rpc_client, topic)
        return None if route is None else route.read_queues
