"""Reads messages without consuming them: by id, by key, or from an offset of a queue on.

Pulls as the consumer group that brokers reserve for tools, commits no offset and joins no group.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

from rocketmq_py.client.admin.groups import GroupAdmin
from rocketmq_py.client.consumer.filters import make_subscription
from rocketmq_py.client.queue_requests import ask_about_queue
from rocketmq_py.core.consumer.pull_result import filter_by_tags, located_records
from rocketmq_py.errors import ConfigError, NotFound
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.route import ClusterInfo
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage, PullResponse, QueryMessage, ViewMessage
from rocketmq_py.protocol.names import TOOLS_GROUP
from rocketmq_py.protocol.sys_flag import PULL_SUBSCRIPTION, PULL_SUSPEND
from rocketmq_py.wire.ids import parse_offset_msg_id
from rocketmq_py.wire.record import decode_record, decode_records

FOREVER = 2**63 - 1
_PULL_MESSAGES = 32
_PULLED = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


class Pulled(NamedTuple):
    """The result of one pull.

    :ivar next_offset: the offset to pull next, after the returned messages and those that the filter excluded.
    :ivar min_offset: the offset of the queue's oldest message.
    :ivar max_offset: the offset that the queue's next message will get.
    """

    messages: list[MessageExt]
    next_offset: int
    min_offset: int
    max_offset: int


class MessageAdmin(GroupAdmin):
    """Base of :class:`~rocketmq_py.client.admin.admin.Admin`: its methods for messages."""

    async def message(self, offset_msg_id: str) -> MessageExt:
        """Read the message with an offset message id, which encodes the broker's address and the commit log offset.

        :raises ConfigError: it is not an offset message id, or its broker is not in this cluster.
        :raises BrokerError: the broker has no message at that offset.
        """
        ip, port, offset = parse_offset_msg_id(offset_msg_id)
        address = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
        broker = _name_of(await self.cluster(), address)
        if broker is None:
            raise ConfigError(
                f"{offset_msg_id} is not an offset message id of this cluster: no broker is registered at {address}. "
                "If it is the unique key that a producer made, look it up with its topic"
            )
        answer = await self._ask(address, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(offset=offset))
        return decode_record(answer.body, 0, broker)

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int = FOREVER,
        unique: bool = False,
    ) -> list[MessageExt]:
        """Find the messages of a topic with a key, oldest first, in the brokers' index of keys.

        The index lags slightly: messages of the last moment may be missing.

        :param key: one of the message's keys, or its unique key.
        :param max_messages: maximum number of messages per broker; the newest ones if there are more.
        :param begin_ms: only messages stored at or after this time, in milliseconds since the epoch.
        :param end_ms: only messages stored at or before this time, in milliseconds since the epoch.
        :param unique: compare ``key`` only with the unique key, which producers set in every message.
        :raises NoRouteError: the name server does not know the topic.
        """
        header = QueryMessage(
            topic=topic, key=key, max_num=max_messages, begin_timestamp=begin_ms, end_timestamp=end_ms,
            unique_key_query=unique or None,
        )  # fmt: skip
        brokers = await self._brokers_of(topic)
        answers = await self._ask_each(brokers, RequestCode.QUERY_MESSAGE, header, without=(NotFound,))
        found = [message for name, answer in answers.items() for message in decode_records(answer.body, name)]
        # The index has hashes of keys: drop messages of which a different key has the same hash.
        wanted = [message for message in found if message.topic == topic and _has_key(message, key, unique=unique)]
        return sorted(wanted, key=_by_time)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_messages: int = _PULL_MESSAGES,
        tags: str = "*",
        sql: str | None = None,
        wait: float = 0.0,
    ) -> Pulled:
        """Pull messages of a queue from ``offset`` on; commits no offset.

        :param max_messages: maximum number of messages; brokers also have a limit (by default 32 messages and 256 KiB).
        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :param wait: seconds that the broker may hold the pull until a message arrives (long polling).
        :raises ConfigError: an illegal expression.
        :raises NoRouteError: the name servers do not know the queue's broker.
        """
        subscription = make_subscription(queue.topic, tags, sql, 0)
        header = PullMessage(
            consumer_group=TOOLS_GROUP, topic=queue.topic, queue_id=queue.queue_id, queue_offset=offset,
            max_msg_nums=max_messages, sys_flag=PULL_SUBSCRIPTION | (PULL_SUSPEND if wait > 0 else 0), commit_offset=0,
            suspend_timeout_millis=int(wait * 1000), sub_version=0, subscription=subscription.sub_string,
            expression_type=subscription.expression_type, bname=queue.broker_name,
        )  # fmt: skip
        answer = await ask_about_queue(
            self._instance, queue, RequestCode.PULL_MESSAGE, header, timeout=self._timeout + wait, accepted=_PULLED
        )
        response = PullResponse.from_ext(answer.ext)
        messages: list[MessageExt] = []
        if answer.code == ResponseCode.SUCCESS:
            body = located_records(answer.body, response, queue.queue_id)
            messages = filter_by_tags(decode_records(body, queue.broker_name), frozenset(subscription.tags_set))
        return Pulled(messages, response.next_begin_offset, response.min_offset, response.max_offset)

    async def read(
        self, queue: MessageQueue, start: int | None = None, stop: int | None = None, *, tags: str = "*",
        sql: str | None = None,
    ) -> AsyncIterator[MessageExt]:  # fmt: skip
        """Iterate over the messages of a queue from ``start`` to before ``stop``, in offset order.

        Other parameters and errors as of :meth:`pull`.

        :param start: the first offset; None, or an offset whose message is deleted, means the oldest message.
        :param stop: the offset after the last one; None means the end of the queue at the time of the call.
        """
        first, end = await self._extent(queue)
        offset = first if start is None else max(first, start)
        stop = end if stop is None else min(stop, end)
        while offset < stop:
            pulled = await self.pull(queue, offset, tags=tags, sql=sql)
            for message in pulled.messages:
                if message.queue_offset >= stop:
                    return
                yield message
            if pulled.next_offset <= offset:
                return  # the broker returns nothing more
            offset = pulled.next_offset

    async def newest(
        self, topic: str, count: int, *, tags: str = "*", sql: str | None = None
    ) -> tuple[list[MessageExt], dict[MessageQueue, int]]:
        """Read the newest ``count`` messages of a topic that match the filter, oldest first.

        :returns: the messages, and the max offset of each queue at the start of the call.

        Other parameters and errors as of :meth:`pull`.
        """
        queues = await self._readable(topic)
        ends = dict(zip(queues, await asyncio.gather(*map(self.max_offset, queues)), strict=True))
        if not count:
            return [], ends
        lists = await asyncio.gather(*(self._newest_of(queue, end, count, tags, sql) for queue, end in ends.items()))
        found = sorted((message for each in lists for message in each), key=_by_time)
        return found[-count:], ends

    async def _newest_of(
        self, queue: MessageQueue, end: int, count: int, tags: str, sql: str | None
    ) -> list[MessageExt]:
        """Read the newest ``count`` messages of a queue that match the filter, in offset order.

        Reads ranges of offsets backwards from ``end`` (exclusive). Each range is larger than the one before, because
        few messages may match.
        """
        first = await self.min_offset(queue)
        found: list[MessageExt] = []
        step, stop = max(count, _PULL_MESSAGES), end
        while len(found) < count and stop > first:
            start = max(first, stop - step)
            found = [message async for message in self.read(queue, start, stop, tags=tags, sql=sql)] + found
            step, stop = 4 * step, start
        return found[-count:]


def _by_time(message: MessageExt) -> tuple[int, int]:
    """Sort key: store time, then commit log offset; exact among messages of one broker."""
    return message.store_timestamp, message.commit_log_offset


def _has_key(message: MessageExt, key: str, *, unique: bool) -> bool:
    return message.msg_id == key or (not unique and key in (message.keys or "").split())


def _name_of(info: ClusterInfo, address: str) -> str | None:
    return next((name for name, data in info.broker_addr_table.items() if address in data.broker_addrs.values()), None)
