"""The clients of the proxy, and the questions of brokers about transactions of producers among them.

Brokers see the proxy as a producer in the group of each topic with transactions, as they see Apache's proxy. Its
consumers are not registered at brokers: they consume by POP, which needs no registration, and a member that takes no
queues would get its share of those of other members, which consume by pulls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.core.grpc.messages import topic_types
from rocketmq_py.errors import BadHeader, CorruptRecord, RocketMQError
from rocketmq_py.grpc.sessions import TelemetryPeer
from rocketmq_py.properties import Property
from rocketmq_py.protocol.bodies.client import HeartbeatData, ProducerData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.enums import MessageType
from rocketmq_py.protocol.names import MESSAGE_TYPE
from rocketmq_py.protocol.requests import Request
from rocketmq_py.proxy.facts import Facts
from rocketmq_py.server.peer import Peer
from rocketmq_py.tasks import Background
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_record, stored_messages

_log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 20.0
"""As Apache's proxy; brokers forget a producer after 120 s."""
_PER_HEARTBEAT = 100


class Producers:
    """The producers that are connected, by topic.

    :param timeout: seconds to wait for the answer to a heartbeat.
    """

    def __init__(self, instance: ClientInstance, facts: Facts, timeout: float) -> None:
        self._instance = instance
        self._facts = facts
        self._timeout = timeout
        self._peers: dict[str, dict[Peer, None]] = {}
        self._topics: dict[Peer, tuple[str, ...]] = {}
        self._work = Background()
        self._unreachable: set[str] = set()
        instance.connections.on_request(RequestCode.CHECK_TRANSACTION_STATE, self._asked)

    async def stop(self) -> None:
        """Give up heartbeats that are being sent."""
        await self._work.stop()

    # -- clients

    def heartbeat(self, peer: Peer, request: Request, data: HeartbeatData) -> None:
        """Register a client; its topics with transactions are known to brokers soon."""
        del request
        topics = tuple(producer.group_name for producer in data.producer_data_set)
        if self._topics.get(peer, ()) == topics:
            return
        self.disconnected(peer)
        if not topics:
            return
        self._topics[peer] = topics
        new = [topic for topic in topics if topic not in self._peers and self._has_transactions(topic)]
        for topic in topics:
            self._peers.setdefault(topic, {})[peer] = None
        if new:
            self._work.start(self._tell(new))

    def disconnected(self, peer: Peer) -> None:
        """Forget a client."""
        for topic in self._topics.pop(peer, ()):
            peers = self._peers[topic]
            peers.pop(peer, None)
            if not peers:
                del self._peers[topic]

    # -- brokers

    async def tell_all(self) -> None:
        """Tell all brokers for which topics they can ask here; called every :data:`HEARTBEAT_SECONDS`."""
        topics = [topic for topic in self._peers if self._has_transactions(topic)]
        for begin in range(0, len(topics), _PER_HEARTBEAT):
            await self._tell(topics[begin : begin + _PER_HEARTBEAT])

    def _has_transactions(self, name: str) -> bool:
        topic = self._facts.topic(name)
        return topic is not None and MessageType.TRANSACTION in topic_types(topic.config.attributes.get(MESSAGE_TYPE))

    async def _tell(self, topics: list[str]) -> None:
        body = HeartbeatData(
            client_id=self._instance.client_id, producer_data_set=[ProducerData(group_name=topic) for topic in topics]
        ).encode()
        brokers = {address for topic in topics for address in self._masters_of(topic)}
        await asyncio.gather(*(self._tell_one(address, body) for address in sorted(brokers)))

    def _masters_of(self, name: str) -> Iterator[str]:
        topic = self._facts.topic(name)
        for broker in topic.route.brokers if topic is not None else ():
            address = self._facts.master(broker)
            if address is not None:
                yield address

    async def _tell_one(self, address: str, body: bytes) -> None:
        try:
            await self._instance.connections.invoke(address, RequestCode.HEART_BEAT, None, body, self._timeout)
        except RocketMQError as e:
            if address not in self._unreachable:
                self._unreachable.add(address)
                _log.warning(
                    "broker %s does not take the heartbeat, so it cannot ask about transactions: %s", address, e
                )
        else:
            if address in self._unreachable:
                self._unreachable.discard(address)
                _log.warning("broker %s takes heartbeats again", address)

    def _asked(self, address: str, request: Command) -> None:
        """Pass the question about a transaction to one of the producers of its topic."""
        try:
            [stored] = stored_messages(request.body) or [decode_record(request.body)]
        except (CorruptRecord, BadHeader) as e:
            _log.error("broker %s asks about a transaction whose message is damaged: %s", address, e)
            return
        group = stored.properties.get(Property.PRODUCER_GROUP) or stored.topic
        broker = self._facts.broker_at(address)
        peer = next((peer for peer in self._peers.get(group, ()) if not peer.closed), None)
        if not isinstance(peer, TelemetryPeer) or not broker:
            _log.info("broker %s asks about a transaction of %s, which has no producer here now", address, group)
            return
        del self._peers[group][peer]
        self._peers[group][peer] = None  # the next question goes to the next one
        peer.check_transaction(request.body, broker)
