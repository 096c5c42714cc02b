"""Where topics are: at this broker, and at other masters that serve gRPC."""

from __future__ import annotations

from collections.abc import Callable

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.grpc.other_masters import Elsewhere, OtherMasters
from rocketmq_py.broker.metadata.topics import TopicConfigs, is_writable
from rocketmq_py.core.grpc.queues import QueueTurns
from rocketmq_py.grpc.cluster import FoundPlaces, Place, Places
from rocketmq_py.grpc.endpoints import endpoints_of, master_at
from rocketmq_py.grpc.replies import refuse
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.grpc.definition import Endpoints
from rocketmq_py.protocol.grpc.enums import AddressScheme, Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.names import MESSAGE_TYPE
from rocketmq_py.server.grpc.call import Call


class OwnTopics:
    """The topics of this broker, for calls."""

    def __init__(self, config: BrokerConfig, topics: TopicConfigs) -> None:
        self._config = config
        self._topics = topics
        self._turns = QueueTurns()

    @property
    def creates(self) -> bool:
        return self._config.auto_create_topic_enable and self._topics.get(names.AUTO_CREATE_TOPIC) is not None

    def get(self, name: str) -> TopicConfig | None:
        return self._topics.get(name)

    def queue_for(self, topic: str, config: TopicConfig | None, message_group: str | None) -> tuple[str, int]:
        if config is not None and not is_writable(config.perm):
            raise CallRefused(Code.FORBIDDEN, f"no writable queue: topic {topic} may not be written")
        if config is None or config.write_queue_nums <= 0:
            return self._config.broker_name, -1
        return self._config.broker_name, self._turns.next(config.write_queue_nums, message_group)

    def new_topic(self, name: str) -> TopicConfig | None:
        """Return what a topic that does not exist will be when a message is sent to it; None if it stays unknown."""
        if not self.creates:
            return None
        queues = self._config.default_topic_queue_nums
        return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)


class OwnPlaces:
    """Finds the brokers of topics.

    :param address: returns host and port of this broker for clients.
    """

    def __init__(
        self, name: str, topics: OwnTopics, address: Callable[[], tuple[str, int]], others: OtherMasters
    ) -> None:
        self._name = name
        self._topics = topics
        self._address = address
        self._others = others

    def find(
        self, call: Call, topic: str, endpoints: Endpoints | None, then: FoundPlaces, *, is_assignment: bool
    ) -> None:
        """Find a topic here and at other masters.

        Routes are asked for at the client's endpoint. Assignments are asked for at any broker of the route, but name
        the client's endpoint, too: with several masters it is this broker's address only if the call has come there.
        """

        def found(elsewhere: Elsewhere) -> None:
            is_here = not is_assignment or not elsewhere.masters or _has_reached(call, endpoints)
            try:
                places = self._places(topic, elsewhere, self._own_endpoints(endpoints if is_here else None))
            except CallRefused as e:
                refuse(call, e)
                return
            then(places)

        self._others.look_up(topic, found)

    def _places(self, name: str, elsewhere: Elsewhere, own_endpoints: Endpoints) -> Places:
        """Return the brokers of a topic by name.

        :raises CallRefused: TOPIC_NOT_FOUND.
        """
        topic = self._topics.get(name)
        if topic is None and not elsewhere.masters:
            topic = self._topics.new_topic(name)
            if topic is None:
                raise CallRefused(Code.TOPIC_NOT_FOUND, f"topic {name} does not exist")
        places = [
            Place(master_at(other.name, endpoints_of(other.host, other.port)), queues.perm, queues.read_queue_nums,
                  queues.write_queue_nums)
            for other in elsewhere.masters
            for queues in (other.queues,)
        ]  # fmt: skip
        if topic is not None:
            own = master_at(self._name, own_endpoints)
            places.append(Place(own, topic.perm, topic.read_queue_nums, topic.write_queue_nums))
        kind = elsewhere.message_type if topic is None else topic.attributes.get(MESSAGE_TYPE)
        return Places(sorted(places, key=lambda place: place.broker.name), kind)

    def _own_endpoints(self, endpoints: Endpoints | None) -> Endpoints:
        """Return the address that the client has used, if it names one only: there it reaches this broker.

        A client that names several does not say which one this broker is, so it gets the registered address.
        """
        if endpoints is None or len(endpoints.addresses) != 1:
            return endpoints_of(*self._address())
        return endpoints


def _has_reached(call: Call, endpoints: Endpoints | None) -> bool:
    """Return True if a call was made to the only address that its request names."""
    if endpoints is None or len(endpoints.addresses) != 1:
        return False
    [address] = endpoints.addresses
    host = f"[{address.host}]" if endpoints.scheme == AddressScheme.IPV6 else address.host
    return call.header(b":authority") == f"{host}:{address.port}"
