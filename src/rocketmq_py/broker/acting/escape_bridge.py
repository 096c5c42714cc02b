"""Messages that are at another broker, or go there (EscapeBridge).

A slave may store none itself and hands them to a master of another name; messages of a pop may lie at another broker
than the note of it. Knows which broker is asked and in which form. Refuses to know why, and why now.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from rocketmq_py.broker.cluster.route_lookup import query_route
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.send.message_properties import encode
from rocketmq_py.core.producer.send_attempts import RoundRobin
from rocketmq_py.core.route import MASTER_ID, TopicRoute
from rocketmq_py.errors import BrokerError, NetworkError, NoRouteError, OffsetIllegal
from rocketmq_py.model import MessageQueue
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol import names
from rocketmq_py.protocol.codes import STORED, RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage, PullResponse
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.protocol.sys_flag import PULL_SUBSCRIPTION
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.store import NewRecord
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.java_hash import string_hash
from rocketmq_py.wire.record import QUEUE_OFFSET_AT

_queue_offset = Struct(">q").unpack_from
_SECONDS = 3.0
_GET_SECONDS = 10.0
_ROUTE_MS = 5_000
_QUEUES = 4
_PULLED = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
           ResponseCode.PULL_OFFSET_MOVED)  # fmt: skip
_DONE = ("DELAY", Property.REAL_TOPIC, Property.REAL_QUEUE_ID)
"""Properties of a message that has waited, or was a half message: it would wait again, or be taken for another one."""


class _Known(NamedTuple):
    route: TopicRoute
    until_ms: int


class EscapeBridge:
    """Sends messages to masters of other names, and fetches them there.

    :param clock: the time in milliseconds.
    """

    def __init__(self, config: BrokerConfig, outward: RpcClient, clock: Callable[[], int]) -> None:
        self._config = config
        self._outward = outward
        self._clock = clock
        self._group = f"InnerProducerGroup_{config.broker_name}_{config.broker_id}"
        self._routes: dict[str, _Known] = {}
        self._turn = RoundRobin(random.getrandbits(16))

    async def put(self, record: NewRecord, key: str | None = None) -> None:
        """Have another master store a message, in any queue of its topic.

        :param key: messages of the same key go to the same master, as long as the same ones have the topic.
        :raises NoRouteError: no other broker has the topic, or none may be written to.
        :raises BrokerError: it is refused. :raises NetworkError: nobody answers; it may have been stored.
        """
        route = await self._route(record.topic)
        own = self._config.broker_name
        queues = [queue for queue in route.write_queues if queue.broker_name != own]
        if not queues:
            self._routes.pop(record.topic, None)
            raise NoRouteError(f"no master but {own} has topic {record.topic}: create it on others, too")
        queue = self._turn.pick(queues if key is None else _at_one_broker(queues, key))
        address = route.brokers[queue.broker_name][MASTER_ID]
        properties = decode_properties(record.properties)
        for name in _DONE:
            properties.pop(name, None)
        header = SendMessageV2(
            producer_group=properties.get(Property.PRODUCER_GROUP) or self._group, topic=record.topic,
            default_topic=names.AUTO_CREATE_TOPIC, default_topic_queue_nums=_QUEUES, queue_id=queue.queue_id,
            sys_flag=record.sys_flag, born_timestamp=record.born_timestamp, flag=record.flag,
            properties=encode(properties), reconsume_times=record.reconsume_times, unit_mode=False, batch=False,
            bname=queue.broker_name,
        )  # fmt: skip
        command = Command(RequestCode.SEND_MESSAGE_V2, ext=header.to_ext(), body=record.body)
        reply = await self._outward.invoke(address, command, _SECONDS)
        if reply.code not in STORED:
            self._routes.pop(record.topic, None)
            raise BrokerError.of(reply.code, reply.remark, address)

    async def get(self, broker_name: str, topic: str, queue_id: int, offset: int) -> bytes | None:
        """A message of another broker, as it is stored there; None when it is there no more.

        Its master is asked, or a slave if no name server knows one. Whoever's queue does not reach so far may be a
        slave that has not got it yet.

        :raises NoRouteError: no name server knows that this broker has the topic. :raises OffsetIllegal: the queue
            ends before it. :raises BrokerError: it is refused. :raises NetworkError: nobody answers in ten seconds.
        """
        ids = (await self._route(topic)).brokers.get(broker_name)
        if not ids:
            self._routes.pop(topic, None)
            raise NoRouteError(f"no name server knows a broker {broker_name} with topic {topic}")
        address = ids.get(MASTER_ID) or next(iter(ids.values()))
        header = PullMessage(
            consumer_group=names.TOOLS_GROUP, topic=topic, queue_id=queue_id, queue_offset=offset, max_msg_nums=1,
            sys_flag=PULL_SUBSCRIPTION, commit_offset=0, suspend_timeout_millis=0, sub_version=0, subscription="*",
            expression_type="TAG", bname=broker_name,
        )  # fmt: skip
        try:
            reply = await self._outward.invoke(
                address, Command(RequestCode.PULL_MESSAGE, ext=header.to_ext()), _GET_SECONDS
            )
        except NetworkError:
            self._routes.pop(topic, None)
            raise
        if reply.code not in _PULLED:
            raise BrokerError.of(reply.code, reply.remark, address)
        if PullResponse.from_ext(reply.ext).max_offset <= offset:
            raise OffsetIllegal(f"queue {queue_id} of topic {topic} ends before {offset} at {address}")
        raw = bytes(reply.body)
        if reply.code != ResponseCode.SUCCESS or _queue_offset(raw, QUEUE_OFFSET_AT)[0] > offset:
            return None
        return raw

    async def _route(self, topic: str) -> TopicRoute:
        known = self._routes.get(topic)
        if known is None or known.until_ms <= self._clock():
            route = await query_route(self._config, self._outward, topic)
            if route is None:
                raise NoRouteError(f"no name server tells which brokers have topic {topic}")
            known = self._routes[topic] = _Known(route, self._clock() + _ROUTE_MS)
        return known.route

    def close(self) -> None:
        """End the connections."""
        self._outward.close()


def _at_one_broker(queues: list[MessageQueue], key: str) -> list[MessageQueue]:
    """Those queues that are at the broker a key belongs to."""
    brokers = sorted({queue.broker_name for queue in queues})
    chosen = brokers[string_hash(key) % len(brokers)]
    return [queue for queue in queues if queue.broker_name == chosen]
