"""Asking name servers, one after the other, until one can tell; where the queues of a topic are, for one thing.

Knows the order in which they are asked. Refuses to know what the answers are wanted for.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.errors import RocketMQError, TopicNotExist
from rocketmq_py.protocol.bodies.common import TopicRouteData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.common import GetRouteInfo
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import Command

_log = logging.getLogger(__name__)

T = TypeVar("T")

_SECONDS = 3.0


async def ask_name_servers(
    config: BrokerConfig, ask: Callable[[str], Awaitable[T | None]], failed: Callable[[str, RocketMQError], None]
) -> T | None:
    """What the first name server tells that can; None when none can.

    :param ask: asks the one at an address; None if it does not know.
    :param failed: hears of one that does not answer, refuses, or says what nobody understands.
    """
    for address in config.namesrv_addresses:
        try:
            told = await ask(address)
        except RocketMQError as e:
            failed(address, e)
            continue
        if told is not None:
            return told
    return None


async def query_route(config: BrokerConfig, rpc_client: RpcClient, topic: str) -> TopicRoute | None:
    """The route of a topic, without queues if the name server that answers does not know it; None if none answers."""
    request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=GetRouteInfo(topic=topic).to_ext())

    async def ask(address: str) -> TopicRoute:
        try:
            reply = await rpc_client.ask(address, request, _SECONDS)
        except TopicNotExist:
            return TopicRoute(topic, TopicRouteData())
        return TopicRoute(topic, TopicRouteData.decode(bytes(reply.body)))

    def failed(address: str, error: RocketMQError) -> None:
        _log.warning("name server %s does not tell the queues of topic %s: %s", address, topic, error)

    return await ask_name_servers(config, ask, failed)
