"""The facts about a cluster as the methods of gRPC ask for them."""

from __future__ import annotations

from collections.abc import Callable

from rocketmq_py.core.address import parse_address
from rocketmq_py.core.grpc.queues import QueueTurns
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.grpc.cluster import FoundPlaces, Place, Places
from rocketmq_py.grpc.endpoints import endpoints_of, master_at
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.grpc.definition import Endpoints
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.names import MESSAGE_TYPE
from rocketmq_py.proxy.facts import Facts
from rocketmq_py.server.grpc.call import Call


class ClusterTopics:
    """The topics. None is made by a send: its type would not be known before."""

    creates = False

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._turns = QueueTurns()

    def get(self, name: str) -> TopicConfig | None:
        topic = self._facts.topic(name)
        return None if topic is None else topic.config

    def queue_for(self, topic: str, config: TopicConfig | None, message_group: str | None) -> tuple[str, int]:
        """Choose among the queues of all masters; without a group, not one of a master that did not answer lately."""
        del config
        known = self._facts.topic(topic)
        if known is None or not known.queues:
            raise CallRefused(Code.FORBIDDEN, f"no writable queue: topic {topic} may not be written, or has no master")
        queues = known.queues if message_group else known.queues_without(self._facts.avoided())
        chosen = queues[self._turns.next(len(queues), message_group)]
        return chosen.broker_name, chosen.queue_id


class ClusterGroups:
    """The consumer groups."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        return self._facts.group(group)

    get = find


class ClusterPlaces:
    """Finds the brokers of topics: clients reach all of them at the address of the proxy.

    :param advertised: ``host:port`` for clients that do not say how they reached the proxy; None: where they did.
    """

    def __init__(self, facts: Facts, advertised: Callable[[], str | None]) -> None:
        self._facts = facts
        self._advertised = advertised

    def find(
        self, call: Call, topic: str, endpoints: Endpoints | None, then: FoundPlaces, *, is_assignment: bool
    ) -> None:
        """Find a topic, whose facts are known."""
        del is_assignment
        known = self._facts.topic(topic)
        if known is None:
            raise CallRefused(Code.TOPIC_NOT_FOUND, f"topic {topic} does not exist")
        if endpoints is None or not endpoints.addresses:
            endpoints = endpoints_of(*parse_address(self._advertised() or call.peer.local_address))
        places = [
            Place(
                master_at(queues.broker_name, endpoints), queues.perm, queues.read_queue_nums, queues.write_queue_nums
            )
            for queues in known.route.data.queue_datas
            if MASTER_ID in known.route.brokers.get(queues.broker_name, {})
        ]
        then(Places(sorted(places, key=lambda place: place.broker.name), known.config.attributes.get(MESSAGE_TYPE)))
