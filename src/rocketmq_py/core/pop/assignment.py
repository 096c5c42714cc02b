"""Assignment of queues to POP clients by the broker (QueryAssignmentProcessor.allocate4Pop)."""

from __future__ import annotations

from collections.abc import Sequence

from rocketmq_py.core.consumer.allocation import Allocation
from rocketmq_py.model import MessageQueue

ANY_QUEUE = -1
"""The queue id that stands for all queues of a broker."""


def share_for_pop(
    rule: Allocation, me: str, queues: Sequence[MessageQueue], clients: Sequence[str], share: int
) -> list[MessageQueue]:
    """Return the queues of a topic that a client may pop.

    :param rule: strategy that allocates the queues among the clients.
    :param me: id of the client. :param queues: all queues, sorted. :param clients: ids of all clients, sorted.
    :param share: number of following clients whose queues the client may pop, too. If it is 0 or less, or includes all
        other clients, the result is one entry for each broker, with queue id :data:`ANY_QUEUE`.
    """
    if share <= 0 or share >= len(clients) - 1:
        return [MessageQueue(topic, broker, ANY_QUEUE) for topic, broker in dict.fromkeys(map(_broker, queues))]
    if len(clients) > len(queues):
        return [queues[clients.index(me) % len(queues)]] if me in clients and queues else []
    mine = rule.allocate(me, queues, clients)
    if me in clients:
        at = clients.index(me)
        for i in range(1, share + 1):
            mine += rule.allocate(clients[(at + i) % len(clients)], queues, clients)
    return list(dict.fromkeys(mine))


def _broker(queue: MessageQueue) -> tuple[str, str]:
    return queue.topic, queue.broker_name
