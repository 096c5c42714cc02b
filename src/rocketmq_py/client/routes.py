"""The routes a client knows, and the name servers it asks for them.

Knows which name server to ask and what to do when it fails. Refuses to know what a route is used for
(``core.route`` says what follows from one).
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import time
from collections.abc import Sequence

from rocketmq_py.core.address import parse_address
from rocketmq_py.core.route import MASTER_ID, TopicRoute, auto_create_route, pick_address
from rocketmq_py.errors import BrokerError, ConfigError, NetworkError, NoRouteError, TopicNotExist
from rocketmq_py.protocol.bodies.route import TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.topic import GetRouteInfo
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from rocketmq_py.remoting.connection_pool import ConnectionPool
from rocketmq_py.remoting.single_flight import SingleFlight
from rocketmq_py.wire.command import Command

_log = logging.getLogger(__name__)

NAMESRV_VARIABLE = "NAMESRV_ADDR"


def name_servers(namesrv: str | Sequence[str] | None) -> list[str]:
    """The name servers of an option: ``"h:p;h:p"``, a sequence, or None for the environment's NAMESRV_ADDR.

    :raises ConfigError: there are none, or one is no address.
    """
    given = os.environ.get(NAMESRV_VARIABLE, "") if namesrv is None else namesrv
    entries = given.replace(",", ";").split(";") if isinstance(given, str) else list(given)
    addresses = [entry.strip() for entry in entries if entry.strip()]
    if not addresses:
        raise ConfigError(
            f"no name server is given: pass namesrv='host:9876' (several separated by ';') or set {NAMESRV_VARIABLE}"
        )
    for address in addresses:
        parse_address(address)
    return addresses


class NameServers:
    """Several name servers as one: starts with any, keeps it while it answers, then asks the next.

    :param addresses: ``host:port`` each.
    :param timeout: seconds to wait for an answer of each.
    """

    def __init__(self, addresses: Sequence[str], connections: ConnectionPool, timeout: float = 3.0) -> None:
        self.addresses = list(addresses)
        self.timeout = timeout
        self._connections = connections
        self._current = random.randrange(len(self.addresses))

    async def invoke(
        self, code: int, header: Header | None = None, body: bytes = b"", *, check: bool = True
    ) -> Command:
        """A request to the current name server, or to the next one while it cannot be reached.

        :raises BrokerError: a name server answered with another code than success (``check``).
        :raises NetworkError: none of them answers; the error of each is told.
        """
        failures: list[NetworkError] = []
        for number in self._order():
            try:
                return await self._ask(number, code, header, body, check=check)
            except NetworkError as e:
                failures.append(e)
        raise _none_answers(failures)

    async def invoke_any(self, code: int, header: Header | None = None) -> Command:
        """A request that any of them may be able to answer: who refuses it is not believed until all have.

        One that has just started knows no topics yet.

        :raises BrokerError: they refuse it; the first refusal.
        :raises NetworkError: none of them answers.
        """
        refusal: BrokerError | None = None
        failures: list[NetworkError] = []
        for number in self._order():
            try:
                return await self._ask(number, code, header, b"", check=True)
            except BrokerError as e:
                refusal = refusal or e
                self._pass_over(number)
            except NetworkError as e:
                failures.append(e)
        raise refusal or _none_answers(failures)

    def _order(self) -> list[int]:
        """All of them, the current one first. Each request keeps to its own order, whatever others find meanwhile."""
        return [*range(self._current, len(self.addresses)), *range(self._current)]

    async def _ask(self, number: int, code: int, header: Header | None, body: bytes, *, check: bool) -> Command:
        """A request to one of them.

        :raises BrokerError: it answered with another code than success (``check``).
        :raises NetworkError: it does not answer, or is about to end.
        """
        address = self.addresses[number]
        try:
            answer = await self._connections.invoke(address, code, header, body, self.timeout, check=False)
        except NetworkError:
            self._connections.drop(address)
            self._pass_over(number)
            raise
        if answer.code == ResponseCode.GO_AWAY:
            self._pass_over(number)
            raise NetworkError(f"{address} is shutting down")
        self._current = number
        if check and answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, address)
        return answer

    def _pass_over(self, number: int) -> None:
        """The next one is asked first, unless another request has found that out already."""
        if self._current == number:
            self._current = (number + 1) % len(self.addresses)

    def __str__(self) -> str:
        return ";".join(self.addresses)


def _none_answers(failures: Sequence[NetworkError]) -> NetworkError:
    if len(failures) == 1:
        return failures[0]
    told = "; ".join(map(str, failures))
    error = NetworkError(f"none of {len(failures)} name servers answers: {told}")
    error.__cause__ = failures[-1]
    return error


class Routes:
    """Routes by topic: asked for once, then kept until :meth:`refresh`."""

    def __init__(self, name_servers: NameServers) -> None:
        self.name_servers = name_servers
        self._routes: dict[str, TopicRoute] = {}
        self._provisional: dict[str, TopicRoute] = {}
        self._asking = SingleFlight(self._ask)
        self._asked_at: dict[str, float] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._stale = False
        """Whether it was said that routes are not refreshed."""
        self._doubtful: set[str] = set()
        """Topics with a known route that name servers no longer know; other routes know better where a broker is."""

    def known(self, topic: str) -> TopicRoute | None:
        """The route of a topic as far as it is known already; provisional ones included."""
        return self._routes.get(topic) or self._provisional.get(topic)

    async def get(self, topic: str) -> TopicRoute:
        """The route of a topic; asked for when unknown.

        :raises NoRouteError: no name server knows the topic.
        :raises NetworkError: no name server answers.
        """
        return self._routes.get(topic) or await self.refresh(topic)

    async def refresh(self, topic: str) -> TopicRoute:
        """The route of a topic as the name server has it now. Callers at the same time share one request.

        What goes wrong leaves the known route in place, also when the topic is unknown there: its brokers have yet to
        register at name servers that were started anew. Errors as :meth:`get`.
        """
        return await self._asking.get(topic)

    async def not_older_than(self, topic: str, seconds: float) -> TopicRoute | None:
        """The route of a topic as the name server had it at most ``seconds`` ago; None if it does not know the topic.

        :raises NetworkError: no name server answers.
        """
        if time.monotonic() - self._asked_at.get(topic, -math.inf) >= seconds:
            try:
                return await self.refresh(topic)
            except NoRouteError:
                pass  # what is known may still be right: see refresh
        return self.known(topic)

    async def for_sending(self, topic: str, queue_nums: int, create_topic: str = AUTO_CREATE_TOPIC) -> TopicRoute:
        """The route of a topic to send to; of one that does not exist yet, the provisional route of ``create_topic``.

        :param queue_nums: queues a topic created on the way is to have; at most what ``create_topic`` has.
        Errors as :meth:`get`.
        """
        try:
            return await self.get(topic)
        except NoRouteError as unknown:
            kept = self._provisional.get(topic)
            if kept is not None:
                return kept
            try:
                data = await self._fetch(create_topic)
            except NoRouteError:
                raise unknown from None
            route = self._provisional[topic] = TopicRoute(topic, auto_create_route(data, queue_nums), provisional=True)
            self._changed()
            return route

    async def refresh_all(self, topics: set[str]) -> None:
        """Refresh the routes of ``topics``; failures are logged and leave what was known in place."""
        results = await asyncio.gather(*(self.refresh(topic) for topic in topics), return_exceptions=True)
        failures = [result for result in results if isinstance(result, Exception)]
        lost = [failure for failure in failures if not isinstance(failure, NoRouteError)]
        if lost and not self._stale:
            _log.warning("routes are not refreshed, going on with those known (%d topics): %s", len(lost), lost[0])
        elif self._stale and topics and not lost:
            _log.warning("routes are refreshed again")
        self._stale = bool(lost) or (self._stale and not topics)

    def broker_address(self, broker_name: str, broker_id: int = 0, *, only_this: bool = False) -> str | None:
        """Where to reach a broker: that id, else the next slave, else any (unless ``only_this``); None if unknown."""
        return pick_address(self._brokers.get(broker_name, {}), broker_id, only_this=only_this)

    def master(self, broker_name: str) -> str | None:
        """Where to reach the master of a broker; None if unknown."""
        addresses = self._brokers.get(broker_name)
        return addresses.get(MASTER_ID) if addresses else None

    def broker_addresses(self) -> dict[str, dict[int, str]]:
        """Addresses of all brokers that any known route names: by broker name, then by broker id (0 the master)."""
        return self._brokers

    def broker_name(self, address: str) -> str | None:
        """The name of the broker that advertises ``address``."""
        return next((name for name, ids in self._brokers.items() if address in ids.values()), None)

    def _changed(self) -> None:
        routes = sorted(self._routes.values(), key=lambda route: route.topic not in self._doubtful)
        routes += self._provisional.values()
        self._brokers = {name: ids for route in routes for name, ids in route.brokers.items() if ids}

    async def _ask(self, topic: str) -> TopicRoute:
        self._asked_at[topic] = time.monotonic()
        try:
            route = TopicRoute(topic, await self._fetch(topic))
        except NoRouteError:
            if topic in self._routes and topic not in self._doubtful:
                self._doubtful.add(topic)
                self._changed()
            raise
        self._doubtful.discard(topic)
        known = self._routes.pop(topic, None)
        if known == route:
            route = known
        self._routes[topic] = route  # behind all others: the latest answer knows best where its brokers are
        self._provisional.pop(topic, None)
        if route is not known or any(self._brokers.get(name) != ids for name, ids in route.brokers.items() if ids):
            self._changed()
        return route

    async def _fetch(self, topic: str) -> TopicRouteData:
        header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
        try:
            answer = await self.name_servers.invoke_any(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        except TopicNotExist as e:
            raise NoRouteError(
                f"no route for topic {topic!r}: name server {e.address} does not know it. Create the topic, or check "
                "its name and that its broker registers at this name server"
            ) from e
        except BrokerError as e:
            if e.code == ResponseCode.NO_PERMISSION:
                raise
            raise NoRouteError(f"no route for topic {topic!r}: name server {e.address} answered {e}") from e
        return TopicRouteData.decode(answer.body)
