"""Pulls single messages after the answer to a pull of several messages was damaged.

The records after a damaged one cannot be located, because its length field may be wrong. So the messages are pulled
one by one, by offset, until an answer is intact.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.calls.decoding import decode_pull
from rocketmq_py.client.consumer.calls.pull_calls import ANSWERS, FOUND, pull_header
from rocketmq_py.client.consumer.skipped import SkippedMessages
from rocketmq_py.client.queue_requests import broker_of
from rocketmq_py.core.consumer.pull_result import PulledMessages
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import BrokerError, RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.protocol.namespaces import queue_without_namespace
from rocketmq_py.protocol.sys_flag import PULL_SUBSCRIPTION
from rocketmq_py.wire.record import BodyRules

_log = logging.getLogger(__name__)

TIMEOUT = 10.0
"""Seconds to wait for the answer to a pull of one message."""


class _Answer(NamedTuple):
    pulled: PulledMessages
    code: int
    header: PullResponse
    damaged: int
    """The offset of the damaged message; meaningless if ``pulled.damage`` is None."""


class SinglePulls:
    """Pulls single messages for a consumer group.

    :param rules: how to check and decompress message bodies.
    :param skipped: records messages that are damaged or cannot be decoded.
    """

    def __init__(
        self, instance: ClientInstance, group: str, rules: BodyRules, skipped: SkippedMessages,
        namespace: str | None = None,
    ) -> None:  # fmt: skip
        self._instance = instance
        self._group = group
        self._rules = rules
        self._skipped = skipped
        self._namespace = namespace

    async def pull(
        self, queue: MessageQueue, offset: int, subscription: SubscriptionData, *, broker_id: int = MASTER_ID
    ) -> PulledMessages:
        """Pull the first matching message at or after ``offset``.

        A damaged message is pulled again, from each other replica of its broker, or from the same one if there is no
        other. If every copy is damaged, it is recorded as skipped.

        :returns: the message, if there is one, and the offset of the next pull, which is after a skipped message.
        :raises BrokerError: the broker refuses the pull.
        :raises NetworkError: the broker cannot be reached.
        """
        address = await broker_of(self._instance, queue, broker_id=broker_id)
        first = await self._ask(address, queue, offset, subscription)
        pulled, damage = first.pulled, first.pulled.damage
        self._skipped.undecoded(queue_without_namespace(self._namespace, queue), pulled.undecoded)
        if damage is None:
            return pulled if first.code in _MOVES_ON else pulled._replace(next_offset=offset)
        if pulled.messages:
            return pulled._replace(damage=None)  # a message before the damaged one
        for other in self._others(address, queue):
            whole = await self._second_try(other, queue, first.damaged, subscription)
            if whole is not None:
                _log.info("offset %d of %s is damaged at %s and whole at %s", first.damaged, queue, address, other)
                return whole
        self._skipped.damaged(queue_without_namespace(self._namespace, queue), first.damaged, damage)
        return PulledMessages([], first.damaged + 1)

    def _others(self, address: str, queue: MessageQueue) -> list[str]:
        routes = self._instance.routes
        replicas = routes.broker_addresses().get(routes.broker_of(queue), {})
        return [other for _, other in sorted(replicas.items()) if other != address] or [address]

    async def _second_try(
        self, address: str, queue: MessageQueue, offset: int, subscription: SubscriptionData
    ) -> PulledMessages | None:
        """Pull the message at ``offset`` from ``address``; None if it is damaged or missing there, or on an error."""
        try:
            answer = await self._ask(address, queue, offset, subscription)
        except RocketMQError as e:
            _log.info("offset %d of %s could not be read from %s either: %s", offset, queue, address, e)
            return None
        pulled = answer.pulled
        if answer.code != FOUND or pulled.damage is not None or pulled.next_offset <= offset:
            return None
        if pulled.messages and pulled.messages[0].queue_offset > offset:
            return None  # this broker skips the damaged message
        return pulled

    async def _ask(self, address: str, queue: MessageQueue, offset: int, subscription: SubscriptionData) -> _Answer:
        header = pull_header(
            self._group, queue, offset, 1, PULL_SUBSCRIPTION, subscription, version=subscription.sub_version, suspend=0
        )
        reply = await self._instance.connections.invoke(
            address, RequestCode.PULL_MESSAGE, header, timeout=TIMEOUT, check=False
        )
        if reply.code not in ANSWERS:
            raise BrokerError.of(reply.code, reply.remark, address)
        found = PullResponse.from_ext(reply.ext)
        pulled = await decode_pull(reply.body, found, queue, offset, subscription.tags_set, self._rules)
        left_out = found.damaged is not None
        # The next offset of a pull of one message is the one after it, even if the filter skipped others before it.
        damaged = pulled.next_offset if left_out else max(found.next_begin_offset - 1, offset)
        return _Answer(pulled, reply.code, found, damaged)


_MOVES_ON = frozenset({ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY})
