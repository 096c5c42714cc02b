"""Logical queues of static topics in routes, and the broker that serves a queue.

The broker name of a logical queue is a mock name, made from the mapping's scope. The route contains the broker that
leads each logical queue at the moment (``topicQueueMappingByBroker``); it serves all requests about the queue. Rules of
Java: ClientMetadata.topicRouteData2EndpointsForStaticTopic, MQClientInstance.getBrokerNameFromMessageQueue.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_py.core.queue_limits import MAX_QUEUES, MAX_ROUTE_QUEUES
from rocketmq_py.errors import BadHeader, shortened
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import TopicRouteData
from rocketmq_py.protocol.bodies.static_topic import MappingInfo

MOCK_BROKER_PREFIX = "__syslo__"
NO_BROKER = "__syslo__none__"
"""The broker name of a logical queue that no broker leads."""


def mock_broker_name(scope: str) -> str:
    """Return the name that clients use instead of a broker name for logical queues, which have no fixed broker.

    :param scope: the scope in the topic's mapping; ``__global__`` by default.
    """
    return MOCK_BROKER_PREFIX + (scope[2:] if scope == "__global__" else scope)


def is_logical(queue: MessageQueue) -> bool:
    """Return True for a logical queue, that is, one of a static topic, which may move from one broker to another."""
    return queue.broker_name.startswith(MOCK_BROKER_PREFIX)


def leaders_of(topic: str, data: TopicRouteData) -> dict[MessageQueue, str]:
    """Return the logical queues in a topic's route, sorted, each with the name of the broker that leads it.

    Empty if the topic is not static. A queue without a leader has :data:`NO_BROKER`.

    :raises BadHeader: a mapping is malformed, or has more queues than a topic may have.
    """
    by_broker = data.topic_queue_mapping_by_broker or {}
    mappings = {broker: MappingInfo.convert(tree) for broker, tree in by_broker.items()}
    for broker, mapping in mappings.items():
        if mapping.total_queues > MAX_QUEUES:
            raise BadHeader(
                f"the route of static topic {shortened(topic)!r} has {mapping.total_queues} queues, says broker "
                f"{shortened(broker)!r}: at most {MAX_QUEUES} are possible"
            )
    if len({mapping.scope for mapping in mappings.values()}) * MAX_QUEUES > MAX_ROUTE_QUEUES:
        raise BadHeader(f"the route of static topic {shortened(topic)!r} has too many scopes")
    return {
        MessageQueue(topic, name, number): leader
        for name, leaders in sorted(_by_scope(mappings).items())
        for number, leader in leaders.items()
    }


def _by_scope(mappings: Mapping[str, MappingInfo]) -> dict[str, dict[int, str]]:
    """Return the broker that leads each logical queue, by mock broker name and queue id.

    :param mappings: parts of the mappings in a route, by name of the broker that registered them.

    If several brokers claim a queue, the mapping with the highest epoch wins. A queue without a leader has
    :data:`NO_BROKER`.
    """
    found: dict[str, dict[int, str]] = {}
    totals: dict[str, int] = {}
    for info in sorted(mappings.values(), key=lambda info: info.epoch):
        name = mock_broker_name(info.scope)
        totals[name] = max(totals.get(name, 0), info.total_queues)
        found.setdefault(name, {}).update(dict.fromkeys(info.curr_id_map, info.bname))
    return {
        name: {number: leaders.get(number, NO_BROKER) for number in range(totals[name])}
        for name, leaders in found.items()
    }


def broker_of(queue: MessageQueue, leaders: Mapping[MessageQueue, str]) -> str:
    """Return the name of the broker that serves a queue; :data:`NO_BROKER` for a logical queue without a leader.

    :param leaders: result of :func:`leaders_of` for the queue's topic.
    """
    return leaders.get(queue, NO_BROKER) if is_logical(queue) else queue.broker_name
