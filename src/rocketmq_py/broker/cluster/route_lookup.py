"""Queries to the name servers, sent to one after the other until one answers, and a cache of topic routes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.errors import NoRouteError, RocketMQError, TopicNotExist
from rocketmq_py.protocol.bodies.route import TopicRouteData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.topic import GetRouteInfo
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import Command

_log = logging.getLogger(__name__)

T = TypeVar("T")

_SECONDS = 3.0
ROUTE_MS = 5_000
_MOST_KNOWN = 10_000
"""Number of cached routes at which old ones are forgotten."""


async def ask_name_servers(
    config: BrokerConfig, ask: Callable[[str], Awaitable[T | None]], failed: Callable[[str, RocketMQError], None]
) -> T | None:
    """Query the name servers one after the other; return the first answer, None if no name server has one.

    :param ask: queries the name server at an address; returns None if it has no answer.
    :param failed: called for a name server that does not answer, refuses, or answers with a malformed body.
    """
    for address in config.namesrv_addresses:
        try:
            answer = await ask(address)
        except RocketMQError as e:
            failed(address, e)
            continue
        if answer is not None:
            return answer
    return None


async def query_route(config: BrokerConfig, rpc_client: RpcClient, topic: str) -> TopicRoute | None:
    """Query the route of a topic; it has no queues if the topic is unknown; None if no name server answers."""
    request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=GetRouteInfo(topic=topic).to_ext())

    async def ask(address: str) -> TopicRoute:
        try:
            reply = await rpc_client.ask(address, request, _SECONDS)
        except TopicNotExist:
            return TopicRoute(topic, TopicRouteData())
        return TopicRoute(topic, TopicRouteData.decode(bytes(reply.body)))

    def failed(address: str, error: RocketMQError) -> None:
        _log.warning("name server %s did not return the route of topic %s: %s", address, topic, error)

    return await ask_name_servers(config, ask, failed)


class RouteCache:
    """A cache of routes by topic, each valid for five seconds.

    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(self, config: BrokerConfig, rpc_client: RpcClient, clock: Callable[[], int]) -> None:
        self._config = config
        self._rpc_client = rpc_client
        self._clock = clock
        self._known: dict[str, tuple[TopicRoute, int]] = {}

    async def get(self, topic: str, *, max_age_ms: int = ROUTE_MS) -> TopicRoute:
        """Return the route of a topic.

        :param max_age_ms: the maximum age of a cached route; an older one is queried again.
        :raises NoRouteError: no name server answers.
        """
        route, since_ms = self._known.get(topic, (None, 0))
        if route is None or since_ms + max_age_ms <= self._clock():
            route = await query_route(self._config, self._rpc_client, topic)
            if route is None:
                raise NoRouteError(f"no name server returned a route of topic {topic}")
            self._forget_old()
            self._known[topic] = route, self._clock()
        return route

    def _forget_old(self) -> None:
        """Keep the cache small: clients may ask for any number of names."""
        if len(self._known) >= _MOST_KNOWN:
            since_ms = self._clock() - ROUTE_MS
            self._known = {topic: known for topic, known in self._known.items() if known[1] > since_ms}

    def remove(self, topic: str) -> None:
        """Remove the route of a topic, so that the next :meth:`get` asks a name server."""
        self._known.pop(topic, None)
