"""The cached routes of a client, fetched from name servers. ``core.route`` has the rules about routes."""

from __future__ import annotations

import asyncio
import logging
import math
import time

from rocketmq_py.client.name_servers import NameServers
from rocketmq_py.core.route import MASTER_ID, TopicRoute, auto_create_route, pick_address
from rocketmq_py.errors import BrokerError, ConfigError, NoRouteError, TopicNotExist
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.topic import GetRouteInfo
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from rocketmq_py.remoting.single_flight import SingleFlight

_log = logging.getLogger(__name__)


class Routes:
    """Caches routes by topic, and the addresses of their brokers. A cached route is replaced by :meth:`refresh`."""

    def __init__(self, name_servers: NameServers) -> None:
        self.name_servers = name_servers
        self._routes: dict[str, TopicRoute] = {}
        self._provisional: dict[str, TopicRoute] = {}
        self._asking = SingleFlight(self._ask)
        self._asked_at: dict[str, float] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._stale = False
        """True after a warning that routes cannot be refreshed, until they can."""
        self._doubtful: set[str] = set()
        """Topics with a cached route that name servers no longer have: addresses in other routes override theirs."""

    def known(self, topic: str) -> TopicRoute | None:
        """The cached route of a topic, else its provisional one (see :meth:`for_sending`); None if there is neither."""
        return self._routes.get(topic) or self._provisional.get(topic)

    async def get(self, topic: str) -> TopicRoute:
        """The route of a topic, fetched from a name server if it is not cached.

        :raises NoRouteError: no name server knows the topic.
        :raises NetworkError: no name server answers.
        """
        return self._routes.get(topic) or await self.refresh(topic)

    async def refresh(self, topic: str) -> TopicRoute:
        """Fetch the route of a topic from a name server and cache it. Concurrent calls share one request.

        After a failure the cached route stays, also if the name server does not know the topic: brokers may not have
        registered yet at a name server that has just started. Errors as of :meth:`get`.
        """
        return await self._asking.get(topic)

    async def not_older_than(self, topic: str, seconds: float) -> TopicRoute | None:
        """The route of a topic, fetched again if the last request for it was ``seconds`` ago or more.

        If the name server does not know the topic, the cached route; None if there is none.

        :raises NetworkError: no name server answers.
        """
        if time.monotonic() - self._asked_at.get(topic, -math.inf) >= seconds:
            try:
                return await self.refresh(topic)
            except NoRouteError:
                pass  # the cached route may still be right: see refresh
        return self.known(topic)

    async def for_sending(self, topic: str, queue_nums: int, create_topic: str = AUTO_CREATE_TOPIC) -> TopicRoute:
        """The route of a topic for sending; if the topic does not exist, a provisional route made from another topic's.

        :param queue_nums: how many queues the first message creates; at most those of ``create_topic``.
        :param create_topic: the topic whose route is copied, because brokers create topics with its settings.

        Errors as of :meth:`get`.
        """
        try:
            return await self.get(topic)
        except NoRouteError as unknown:
            kept = self._provisional.get(topic)
            if kept is not None:
                return kept
            try:
                data = await self.fetch(create_topic)
            except NoRouteError:
                raise unknown from None
            route = self._provisional[topic] = TopicRoute(topic, auto_create_route(data, queue_nums), provisional=True)
            self._changed()
            return route

    async def refresh_all(self, topics: set[str]) -> None:
        """Refresh the routes of ``topics``; failures are logged, and the cached routes stay in use."""
        results = await asyncio.gather(*(self.refresh(topic) for topic in topics), return_exceptions=True)
        failures = [result for result in results if isinstance(result, Exception)]
        lost = [failure for failure in failures if not isinstance(failure, NoRouteError)]
        if lost and not self._stale:
            _log.warning("routes are not refreshed, the known ones stay in use (%d topics): %s", len(lost), lost[0])
        elif self._stale and topics and not lost:
            _log.warning("routes are refreshed again")
        self._stale = bool(lost) or (self._stale and not topics)

    def broker_of(self, queue: MessageQueue) -> str:
        """The name of the broker that serves a queue; for a logical queue, of the broker it is now mapped to."""
        route = self.known(queue.topic)
        return queue.broker_name if route is None else route.broker_of(queue)

    def queue_address(self, queue: MessageQueue, broker_id: int = MASTER_ID, *, only_this: bool = False) -> str | None:
        """The ``host:port`` of the broker that serves a queue; parameters and None as of :meth:`broker_address`."""
        return self.broker_address(self.broker_of(queue), broker_id, only_this=only_this)

    def queue_master(self, queue: MessageQueue) -> str | None:
        """The ``host:port`` of the master that serves a queue; None if no cached route has one."""
        return self.master(self.broker_of(queue))

    def broker_address(self, broker_name: str, broker_id: int = 0, *, only_this: bool = False) -> str | None:
        """The ``host:port`` of a replica of a broker; None if no cached route has one.

        :param broker_id: the preferred replica; 0 is the master. Without it the next slave, or else any replica.
        :param only_this: return None instead of another replica's address.
        """
        return pick_address(self._brokers.get(broker_name, {}), broker_id, only_this=only_this)

    def master(self, broker_name: str) -> str | None:
        """The ``host:port`` of a broker's master; None if no cached route has one."""
        addresses = self._brokers.get(broker_name)
        return addresses.get(MASTER_ID) if addresses else None

    def broker_addresses(self) -> dict[str, dict[int, str]]:
        """The addresses of the brokers of all cached routes: by broker name, then by broker id (0 is the master).

        It is another dictionary after each change of a cached route.
        """
        return self._brokers

    def broker_name(self, address: str) -> str | None:
        """The name of the broker that advertises ``address``; None if no cached route has it."""
        return next((name for name, ids in self._brokers.items() if address in ids.values()), None)

    def _changed(self) -> None:
        routes = sorted(self._routes.values(), key=lambda route: route.topic not in self._doubtful)
        routes += self._provisional.values()
        self._brokers = {name: ids for route in routes for name, ids in route.brokers.items() if ids}

    async def _ask(self, topic: str) -> TopicRoute:
        self._asked_at[topic] = time.monotonic()
        try:
            route = TopicRoute(topic, await self.fetch(topic))
        except NoRouteError:
            if topic in self._routes and topic not in self._doubtful:
                self._doubtful.add(topic)
                self._changed()
            raise
        self._doubtful.discard(topic)
        known = self._routes.pop(topic, None)
        if known == route:
            route = known
        self._routes[topic] = route  # last in order: the latest response overrides others for broker addresses
        self._provisional.pop(topic, None)
        if route is not known or any(self._brokers.get(name) != ids for name, ids in route.brokers.items() if ids):
            self._changed()
        return route

    async def fetch(self, topic: str) -> TopicRouteData:
        """The route of a topic as a name server has it now; the cache is neither used nor changed. Errors as of get."""
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
            if e.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise ConfigError(
                    f"{e.address} is not a name server: it does not serve routes. It may be a broker; namesrv (or "
                    "NAMESRV_ADDR) must be the address of a name server, which listens on port 9876 by default"
                ) from e
            raise NoRouteError(f"no route for topic {topic!r}: name server {e.address} answered {e}") from e
        return TopicRouteData.decode(answer.body)
