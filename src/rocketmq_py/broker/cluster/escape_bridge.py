"""Sends messages to other brokers, and reads messages of other brokers (EscapeBridge).

A slave must not store messages and sends them to a master of another name; messages of a pop may be at another broker
than its check-point.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from struct import Struct

from rocketmq_py.broker.cluster.route_lookup import RouteCache
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.records.message_properties import encode
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
_QUEUES = 4
_PULLED = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
           ResponseCode.PULL_OFFSET_MOVED)  # fmt: skip
_DONE = ("DELAY", Property.REAL_TOPIC, Property.REAL_QUEUE_ID)
"""Properties to remove before the send: with them another broker delays the message or treats it as a half message."""


class EscapeBridge:
    """Sends messages to masters of other names, and reads messages there.

    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(self, config: BrokerConfig, rpc_client: RpcClient, clock: Callable[[], int]) -> None:
        self._config = config
        self._rpc_client = rpc_client
        self._clock = clock
        self._group = f"InnerProducerGroup_{config.broker_name}_{config.broker_id}"
        self._routes = RouteCache(config, rpc_client, clock)
        self._turn = RoundRobin(random.getrandbits(16))

    async def put(self, record: NewRecord, key: str | None = None) -> None:
        """Send a message to another master, to any queue of its topic.

        :param key: messages with the same key go to the same master, while the same masters have the topic.
        :raises NoRouteError: no other broker has the topic, or none may be written to.
        :raises BrokerError: the send is refused.
        :raises NetworkError: no answer; the message may have been stored.
        """
        route = await self._routes.get(record.topic)
        own = self._config.broker_name
        masters = {name for name, ids in route.brokers.items() if MASTER_ID in ids and name != own}
        queues = [queue for queue in route.write_queues if route.broker_of(queue) in masters]
        if not queues:
            self._routes.remove(record.topic)
            raise NoRouteError(f"no master other than {own} has topic {record.topic}: create it on other masters, too")
        queue = self._turn.pick(queues if key is None else _at_one_broker(route, queues, key))
        broker = route.broker_of(queue)
        address = route.brokers[broker][MASTER_ID]
        properties = decode_properties(record.properties)
        for name in _DONE:
            properties.pop(name, None)
        header = SendMessageV2(
            producer_group=properties.get(Property.PRODUCER_GROUP) or self._group, topic=record.topic,
            default_topic=names.AUTO_CREATE_TOPIC, default_topic_queue_nums=_QUEUES, queue_id=queue.queue_id,
            sys_flag=record.sys_flag, born_timestamp=record.born_timestamp, flag=record.flag,
            properties=encode(properties), reconsume_times=record.reconsume_times, unit_mode=False, batch=False,
            bname=broker,
        )  # fmt: skip
        command = Command(RequestCode.SEND_MESSAGE_V2, ext=header.to_ext(), body=record.body)
        reply = await self._rpc_client.invoke(address, command, _SECONDS)
        if reply.code not in STORED:
            self._routes.remove(record.topic)
            raise BrokerError.of(reply.code, reply.remark, address)

    async def get(self, broker_name: str, topic: str, queue_id: int, offset: int) -> bytes | None:
        """Read a record from the master of a broker name, from a slave if no master is registered.

        :returns: the record as it is stored there; None if it was deleted.
        :raises NoRouteError: at the name servers, the broker does not exist or does not have the topic.
        :raises OffsetIllegal: the queue ends before the offset, for example at a slave that lags.
        :raises BrokerError: the request is refused.
        :raises NetworkError: no answer within ten seconds.
        """
        ids = (await self._routes.get(topic)).brokers.get(broker_name)
        if not ids:
            self._routes.remove(topic)
            raise NoRouteError(f"no name server knows a broker {broker_name} with topic {topic}")
        address = ids.get(MASTER_ID) or next(iter(ids.values()))
        header = PullMessage(
            consumer_group=names.TOOLS_GROUP, topic=topic, queue_id=queue_id, queue_offset=offset, max_msg_nums=1,
            sys_flag=PULL_SUBSCRIPTION, commit_offset=0, suspend_timeout_millis=0, sub_version=0, subscription="*",
            expression_type="TAG", bname=broker_name,
        )  # fmt: skip
        try:
            reply = await self._rpc_client.invoke(
                address, Command(RequestCode.PULL_MESSAGE, ext=header.to_ext()), _GET_SECONDS
            )
        except NetworkError:
            self._routes.remove(topic)
            raise
        if reply.code not in _PULLED:
            raise BrokerError.of(reply.code, reply.remark, address)
        if PullResponse.from_ext(reply.ext).max_offset <= offset:
            raise OffsetIllegal(f"queue {queue_id} of topic {topic} ends before {offset} at {address}")
        raw = bytes(reply.body)
        if reply.code != ResponseCode.SUCCESS or _queue_offset(raw, QUEUE_OFFSET_AT)[0] > offset:
            return None
        return raw

    def close(self) -> None:
        """Close the connections."""
        self._rpc_client.close()


def _at_one_broker(route: TopicRoute, queues: list[MessageQueue], key: str) -> list[MessageQueue]:
    """Return the queues of the broker that the hash of a key selects."""
    brokers = sorted({route.broker_of(queue) for queue in queues})
    chosen = brokers[string_hash(key) % len(brokers)]
    return [queue for queue in queues if route.broker_of(queue) == chosen]
