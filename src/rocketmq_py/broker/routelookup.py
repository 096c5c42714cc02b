"""Asking name servers where the queues of a topic are.

Knows the order in which they are asked. Refuses to know what the queues are wanted for.
"""

from __future__ import annotations

import logging

from rocketmq_py.broker.config import BrokerConfig
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.bodies import TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers import GetRouteInfo
from rocketmq_py.server.outward import Outward
from rocketmq_py.wire.command import Command

_log = logging.getLogger(__name__)

_SECONDS = 3.0


async def ask_route(config: BrokerConfig, outward: Outward, topic: str) -> TopicRoute | None:
    """The route the first name server that answers tells, without queues for a topic it does not know.

    None when none answers.
    """
    request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=GetRouteInfo(topic=topic).to_ext())
    for address in config.namesrv_addresses:
        try:
            reply = await outward.invoke(address, request, _SECONDS)
            if reply.code == ResponseCode.TOPIC_NOT_EXIST:
                return TopicRoute(topic, TopicRouteData())
            if reply.code == ResponseCode.SUCCESS:
                return TopicRoute(topic, TopicRouteData.decode(bytes(reply.body)))
            why: object = f"code {reply.code}: {reply.remark}"
        except RocketMQError as e:
            why = e
        _log.warning("name server %s does not tell the queues of topic %s: %s", address, topic, why)
    return None
