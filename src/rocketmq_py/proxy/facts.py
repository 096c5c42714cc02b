"""What the proxy knows of a cluster: routes and types of topics, settings of groups, addresses of masters.

What a call names is looked up before it is handled. Known facts are renewed in the background: the first call waits
for them, and while name servers are away, calls go on with old ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.core.route import MASTER_ID, TopicRoute, physical_write_queues
from rocketmq_py.errors import BrokerError, NetworkError, NoRouteError, RocketMQError
from rocketmq_py.grpc.cluster import Names, Refuse
from rocketmq_py.grpc.replies import guarded
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.route import ClusterInfo
from rocketmq_py.protocol.bodies.static_topic import TopicConfigAndMapping
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.group import GroupName
from rocketmq_py.protocol.headers.topic import TopicName
from rocketmq_py.protocol.names import topic_fault
from rocketmq_py.remoting.single_flight import SingleFlight
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

MOST_KNOWN = 10_000
"""Maximum number of topics, and of groups, that are remembered."""
MOST_WAITING = 10_000
"""Maximum number of calls that wait for facts."""
FRESH_MS = 20_000
AVOID_MS = 30_000

T = TypeVar("T")


class Topic(msgspec.Struct):
    """A topic of the cluster.

    :ivar queues: those that take messages, by broker and number: every proxy must have the same order.
    """

    route: TopicRoute
    config: TopicConfig
    queues: list[MessageQueue]
    avoided: frozenset[str] = frozenset()
    others: list[MessageQueue] = []

    def queues_without(self, avoided: frozenset[str]) -> list[MessageQueue]:
        """Return the queues that are not at brokers to avoid; all if that leaves none."""
        if not avoided:
            return self.queues
        if avoided != self.avoided:
            self.avoided = avoided
            self.others = [queue for queue in self.queues if queue.broker_name not in avoided]
        return self.others or self.queues


class _Known(msgspec.Struct, Generic[T]):
    value: T
    asked_ms: int


class _Cache(Generic[T]):
    """Facts by name; the least recently learned are forgotten."""

    def __init__(self, ask: Callable[[str], Coroutine[Any, Any, T | None]], clock: Callable[[], int]) -> None:
        self._known: dict[str, _Known[T]] = {}
        self._asking = SingleFlight(self._ask)
        self._question = ask
        self._clock = clock

    def get(self, name: str) -> T | None:
        known = self._known.get(name)
        return None if known is None else known.value

    def values(self) -> Iterable[T]:
        return [known.value for known in self._known.values()]

    def is_old(self, name: str) -> bool:
        known = self._known.get(name)
        return known is not None and self._clock() - known.asked_ms >= FRESH_MS

    def delay(self, name: str) -> None:
        """Take an old fact for a new one, until it is old again."""
        self._known[name].asked_ms = self._clock()

    def make_old(self, name: str) -> None:
        known = self._known.get(name)
        if known is not None:
            known.asked_ms = self._clock() - FRESH_MS

    async def learn(self, name: str) -> None:
        await self._asking.get(name)

    async def stop(self) -> None:
        """Cancel all questions."""
        questions = self._asking.tasks
        self._asking.cancel()
        await asyncio.gather(*questions, return_exceptions=True)

    async def _ask(self, name: str) -> None:
        value = await self._question(name)
        self._known.pop(name, None)
        if value is None:
            return
        self._known[name] = _Known(value, self._clock())
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]


class Facts:
    """The facts about one cluster.

    :param instance: the connections of the proxy.
    :param timeout: seconds to wait for the answer of a broker.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(self, instance: ClientInstance, timeout: float, clock: Callable[[], int]) -> None:
        self._instance = instance
        self._timeout = timeout
        self._clock = clock
        self._topics = _Cache(self._ask_topic, clock)
        self._groups = _Cache(self._ask_group, clock)
        self._masters: dict[str, str] = {}
        self._avoided: dict[str, int] = {}
        self._work = Background()
        self._waiting = 0
        self.fault: str | None = None
        """Why name servers did not answer the last :meth:`look_around`; None if one did."""

    async def look_around(self) -> None:
        """Ask a name server for all masters.

        :raises RocketMQError: none answers.
        """
        try:
            answer = await self._instance.name_servers.invoke(RequestCode.GET_BROKER_CLUSTER_INFO)
        except RocketMQError as e:
            self.fault = str(e)
            raise
        self.fault = None
        for name, data in ClusterInfo.decode(answer.body).broker_addr_table.items():
            if MASTER_ID in data.broker_addrs:
                self._masters[name] = data.broker_addrs[MASTER_ID]

    async def stop(self) -> None:
        """Cancel what is being asked."""
        await self._work.stop()
        await self._topics.stop()
        await self._groups.stop()

    # -- before a call

    def prepare(self, call: Call, wanted: Names, then: Callable[[], None], refuse: Refuse) -> None:
        """Call ``then`` when topics and group of a call are known, or found not to exist.

        :raises CallRefused: TOO_MANY_REQUESTS; or what ``then`` raises.
        """
        missing = [name for name in wanted.topics if not self._has(self._topics, name) and topic_fault(name) is None]
        group = wanted.group
        if group and (self._has(self._groups, group) or topic_fault(group) is not None):
            group = ""
        if not missing and not group:
            then()
        elif self._waiting >= MOST_WAITING:
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"{MOST_WAITING} calls wait for name servers; try again")
        else:
            self._waiting += 1
            self._work.start(self._prepare(call, missing, group, then, refuse))

    async def _prepare(
        self, call: Call, topics: list[str], group: str, then: Callable[[], None], refuse: Refuse
    ) -> None:
        try:
            await asyncio.gather(*map(self._topics.learn, topics))
            if group:
                await self._groups.learn(group)
        except RocketMQError as e:
            refuse(CallRefused(Code.INTERNAL_SERVER_ERROR, f"the cluster cannot be asked: {e}"))
            return
        finally:
            self._waiting -= 1
        if not call.is_open:
            return
        guarded(then, refuse)

    def _has(self, cache: _Cache[Any], name: str) -> bool:
        """Return whether something is known; if it is old, it is renewed in the background."""
        if cache.get(name) is None:
            return False
        self._renew(cache, name)
        return True

    def _renew(self, cache: _Cache[Any], name: str) -> None:
        if cache.is_old(name):
            cache.delay(name)
            self._work.start(self._unless_away(cache.learn(name)))

    @staticmethod
    async def _unless_away(work: Awaitable[None]) -> None:
        try:
            await work
        except RocketMQError as e:
            _log.warning("what is known of the cluster is not renewed, calls go on with it: %s", e)

    # -- questions

    async def _ask_topic(self, name: str) -> Topic | None:
        try:
            route = TopicRoute(name, await self._instance.routes.fetch(name))
        except NoRouteError:
            return None
        masters = {broker: ids[MASTER_ID] for broker, ids in route.brokers.items() if MASTER_ID in ids}
        self._masters |= masters
        datas = sorted(route.data.queue_datas, key=lambda data: data.broker_name)
        config = await self._ask_config(name, masters)
        return Topic(route, config, physical_write_queues(name, datas, route.brokers))

    async def _ask_config(self, topic: str, masters: Mapping[str, str]) -> TopicConfig:
        try:
            body = await self._ask_one(masters, RequestCode.GET_TOPIC_CONFIG, TopicName(topic=topic))
        except BrokerError as e:
            _log.warning("the type of topic %s is not known, it is taken for an ordinary one: %s", topic, e)
            body = None
        return TopicConfig(topic_name=topic) if body is None else TopicConfigAndMapping.decode(body)

    async def _ask_group(self, name: str) -> SubscriptionGroupConfig:
        """Ask a broker for the settings of a group; one that it does not have is made there by the first pop."""
        try:
            body = await self._ask_one(self._masters, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupName(group=name))
        except BrokerError as e:
            _log.debug("group %s has the usual settings: %s", name, e)
            body = None
        return SubscriptionGroupConfig(group_name=name) if body is None else SubscriptionGroupConfig.decode(body)

    async def ask_master(self, broker: str, code: RequestCode, header: Header) -> bytes:
        """Return the answer of a broker's master.

        :raises BrokerError: it refuses.
        :raises NetworkError: it does not answer, or is not known.
        """
        if broker not in self._masters:
            raise NetworkError(f"no route names a broker {broker!r} with a master")
        address = self._masters[broker]
        return bytes((await self._instance.connections.invoke(address, code, header, b"", self._timeout)).body)

    async def ask_any(self, code: RequestCode, header: Header) -> bytes | None:
        """Return the answer of any master of the cluster; None if no master is known.

        :raises BrokerError: it refuses.
        :raises NetworkError: no master answers.
        """
        if not self._masters:
            await self.look_around()
        return await self._ask_one(self._masters, code, header)

    async def _ask_one(self, masters: Mapping[str, str], code: RequestCode, header: Header) -> bytes | None:
        """Return the answer of the first master that gives one; None if there is no master.

        :raises BrokerError: it refuses.
        :raises NetworkError: no master answers.
        """
        fault: NetworkError | None = None
        avoided = self.avoided()
        for name in sorted(masters, key=lambda name: (name in avoided, name)):
            try:
                answer = await self._instance.connections.invoke(masters[name], code, header, b"", self._timeout)
                return bytes(answer.body)
            except NetworkError as e:
                fault = e
                self._avoided[name] = self._clock() + AVOID_MS
        if fault is not None:
            raise fault
        return None

    # -- answers

    def topic(self, name: str) -> Topic | None:
        """Return a topic that is known; None if it does not exist."""
        return self._topics.get(name)

    def group(self, name: str) -> SubscriptionGroupConfig | None:
        """Return the settings of a group that is known."""
        return self._groups.get(name)

    def master(self, broker: str) -> str | None:
        """Return the address of a broker's master; None if no route has named it."""
        return self._masters.get(broker)

    def broker_at(self, address: str) -> str:
        """Return the name of the broker with an address; empty if no route has it."""
        return next((name for name, known in self._masters.items() if known == address), "")

    def any_broker(self, topic: str) -> str:
        """Return the name of a broker of a topic; empty if there is none."""
        known = self._topics.get(topic)
        return "" if known is None else min((name for name in known.route.brokers if name in self._masters), default="")

    def avoided(self) -> frozenset[str]:
        """Return the brokers that did not answer a short time ago."""
        if self._avoided:
            now = self._clock()
            self._avoided = {name: until_ms for name, until_ms in self._avoided.items() if until_ms > now}
        return frozenset(self._avoided)

    def failed(self, broker: str, topic: str) -> None:
        """Note that a broker does not answer: messages without a group avoid it for a while."""
        self._avoided[broker] = self._clock() + AVOID_MS
        self._topics.make_old(topic)
