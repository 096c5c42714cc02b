"""The queues that a topic has at other masters, for clients that speak gRPC.

A route of remoting has no addresses for gRPC. The convention is: a broker of this kind serves gRPC at the address that
it registers, and says so in its runtime information. Other brokers, such as Apache's, are left out: clients that speak
gRPC cannot use them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.runtime_info import SERVES_GRPC
from rocketmq_py.broker.static_topic.forward import Forwarder
from rocketmq_py.core.address import parse_address
from rocketmq_py.core.route import MASTER_ID, TopicRoute
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.bodies.route import KvTable, QueueData
from rocketmq_py.protocol.bodies.static_topic import TopicConfigAndMapping
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.headers.base import Header, NoHeader
from rocketmq_py.protocol.headers.topic import TopicName
from rocketmq_py.protocol.names import MESSAGE_TYPE
from rocketmq_py.server.reply import Reply
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

_MOST_ASKED = 1_000
"""Maximum number of topics that are looked up, and of requests that are forwarded, at the same time."""
_SERVES_MS = 60_000
_MOST_KNOWN = 1_000


class OtherMaster(NamedTuple):
    """A topic at another master."""

    name: str
    host: str
    port: int
    queues: QueueData


class Elsewhere(NamedTuple):
    """A topic at all other masters that serve gRPC.

    :ivar message_type: the attribute ``message.type`` of the topic; only looked up if this broker has no such topic.
    """

    masters: tuple[OtherMaster, ...] = ()
    message_type: str | None = None


NOWHERE = Elsewhere()
Then = Callable[[Elsewhere], None]
Forwarded = Callable[[Reply, Mapping[str, str]], None]


class OtherMasters:
    """Looks topics up at the name servers.

    :param name: the name of this broker.
    :param has_name_servers: returns False if this broker is on its own.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self, name: str, topics: TopicConfigs, has_name_servers: Callable[[], bool], forwarder: Forwarder,
        clock: Callable[[], int],
    ) -> None:  # fmt: skip
        self._name = name
        self._topics = topics
        self._has_name_servers = has_name_servers
        self._forwarder = forwarder
        self._clock = clock
        self._work = Background()
        self._waiting: dict[str, list[Then]] = {}
        self._forwarding = 0
        self._serving: dict[str, tuple[bool, int]] = {}  # by address, with the time until which that is taken for true

    def look_up(self, topic: str, then: Then) -> None:
        """Call ``then`` with what other masters have of a topic: at once without name servers, else later.

        Without an answer of the name servers that is nothing, and the log says so.

        :raises CallRefused: TOO_MANY_REQUESTS.
        """
        if not self.exist:
            then(NOWHERE)
        elif topic in self._waiting:
            self._waiting[topic].append(then)
        elif len(self._waiting) >= _MOST_ASKED:
            raise CallRefused(
                Code.TOO_MANY_REQUESTS, f"the routes of {_MOST_ASKED} topics are being looked up; try again"
            )
        else:
            self._waiting[topic] = [then]
            self._work.start(self._look_up(topic))

    @property
    def exist(self) -> bool:
        """False if this broker is on its own."""
        return self._has_name_servers()

    def forward(self, name: str, topic: str, code: RequestCode, header: Header, then: Forwarded) -> None:
        """Send a request to another master; ``then`` gets its answer, of any code, with the answer's header fields.

        If it does not answer, or no name server knows it, ``then`` gets a reply that says so.

        :raises CallRefused: TOO_MANY_REQUESTS.
        """
        if self._forwarding >= _MOST_ASKED:
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"{_MOST_ASKED} requests to other brokers are running; try again")
        self._forwarding += 1
        self._work.start(self._forward(name, topic, code, header, then))

    async def _forward(self, name: str, topic: str, code: RequestCode, header: Header, then: Forwarded) -> None:
        try:
            answer = await self._forwarder.ask(name, topic, code, header)
            reply, ext = Reply(answer.code, answer.remark), answer.ext
        except RocketMQError as e:
            reply, ext = Reply(ResponseCode.SYSTEM_ERROR, str(e)), {}
        finally:
            self._forwarding -= 1
        then(reply, ext)

    async def stop(self) -> None:
        """Cancel what is being looked up."""
        await self._work.stop()
        self._waiting.clear()

    async def _look_up(self, topic: str) -> None:
        found = NOWHERE
        try:
            found = await self._find(topic)
        except RocketMQError as e:
            _log.warning("clients that speak gRPC are told the queues of topic %s at this broker only: %s", topic, e)
        finally:
            loop = asyncio.get_running_loop()
            for then in self._waiting.pop(topic, ()):
                loop.call_soon(then, found)

    async def _find(self, topic: str) -> Elsewhere:
        route = await self._forwarder.route(topic)
        if route.data.topic_queue_mapping_by_broker:  # the queues of a static topic are forwarded by their brokers
            return NOWHERE
        known = {
            queues.broker_name: queues
            for queues in route.data.queue_datas
            if queues.broker_name != self._name and MASTER_ID in route.brokers.get(queues.broker_name, {})
        }
        serving = await asyncio.gather(*(self._serves(route, name) for name in known))
        names = sorted(name for name, serves in zip(known, serving, strict=True) if serves)
        masters = tuple(
            OtherMaster(name, *parse_address(route.brokers[name][MASTER_ID]), known[name]) for name in names
        )
        if not masters or self._topics.get(topic) is not None:
            return Elsewhere(masters)
        return Elsewhere(masters, await self._message_type(topic, names[0]))

    async def _serves(self, route: TopicRoute, name: str) -> bool:
        """Return True if a master says that it serves gRPC. One that does not answer keeps its last answer."""
        address, now = route.brokers[name][MASTER_ID], self._clock()
        serves, until_ms = self._serving.get(address, (False, 0))
        if now < until_ms:
            return serves
        try:
            reply = await self._forwarder.ask_for(name, route.topic, RequestCode.GET_BROKER_RUNTIME_INFO, NoHeader())
            serves = KvTable.decode(bytes(reply.body)).table.get(SERVES_GRPC) == "true"
        except RocketMQError as e:
            _log.warning("broker %s at %s does not say whether it serves gRPC: %s", name, address, e)
        self._forget_old(now)
        self._serving[address] = serves, now + _SERVES_MS
        return serves

    def _forget_old(self, now: int) -> None:
        if len(self._serving) >= _MOST_KNOWN:
            self._serving = {address: known for address, known in self._serving.items() if now < known[1]}

    async def _message_type(self, topic: str, name: str) -> str | None:
        reply = await self._forwarder.ask_for(name, topic, RequestCode.GET_TOPIC_CONFIG, TopicName(topic=topic))
        return TopicConfigAndMapping.decode(bytes(reply.body)).attributes.get(MESSAGE_TYPE)
