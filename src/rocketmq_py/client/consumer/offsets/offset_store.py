"""The committed offsets of a consumer: in memory, and stored at the brokers.

Sends QUERY_CONSUMER_OFFSET (14), UPDATE_CONSUMER_OFFSET (15), and queries of a queue's offsets.
"""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.queue_requests import ask_about_queue, broker_of, first_offset
from rocketmq_py.core.consumer.offset_table import OffsetTable, first_of_each_table
from rocketmq_py.core.consumer.rebalance import OffsetQuery, initial_offset
from rocketmq_py.errors import NotFound, RocketMQError
from rocketmq_py.model import ConsumeFromWhere, MessageQueue
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.offset import (
    GetMaxOffset,
    OffsetResponse,
    QueryConsumerOffset,
    QueueHeader,
    SearchOffset,
    UpdateConsumerOffset,
)
from rocketmq_py.protocol.names import is_retry_topic

_log = logging.getLogger(__name__)

TIMEOUT = 5.0
"""Seconds to wait for the answer to a request about offsets."""


class OffsetStore(OffsetTable, abc.ABC):
    """The committed offsets of a consumer, in memory; subclasses store them at brokers or in a local file."""

    __slots__ = ("_instance",)

    def __init__(self, instance: ClientInstance) -> None:
        super().__init__()
        self._instance = instance

    @abc.abstractmethod
    async def fetch(self, queue: MessageQueue) -> int | None:
        """Read the stored offset of a queue; None if there is none."""

    @abc.abstractmethod
    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Store the offsets of ``queues`` without waiting for the brokers' answers; failures are logged."""

    @abc.abstractmethod
    async def persist_confirmed(self, queues: Collection[MessageQueue]) -> None:
        """Store the offsets of ``queues`` and wait until they are stored; failures are logged."""

    @abc.abstractmethod
    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store these offsets and wait until they are stored; if one fails, the others are stored all the same.

        :raises NetworkError: a broker cannot be reached.
        :raises BrokerError: a broker refuses the offset.
        :raises StoreError: the local file cannot be written.
        """

    async def max_offset(self, queue: MessageQueue) -> int:
        """Ask the broker for the offset that the queue's next message will get."""
        header = GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id)
        return await self._ask(queue, RequestCode.GET_MAX_OFFSET, header)

    async def min_offset(self, queue: MessageQueue) -> int:
        """Ask the broker for the offset of the queue's oldest message."""
        header = QueueHeader(topic=queue.topic, queue_id=queue.queue_id)
        return first_offset(await self._ask(queue, RequestCode.GET_MIN_OFFSET, header))

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Ask the broker for the offset of the first message stored at or after a time.

        :param timestamp_ms: milliseconds since the epoch.
        """
        header = SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        return await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def start_of(
        self, queue: MessageQueue, stored: int | None, mode: ConsumeFromWhere, timestamp_ms: Callable[[], int]
    ) -> int:
        """Return the offset at which to start consuming a queue.

        :param stored: the group's committed offset; None if there is none.
        :param mode: where to start without a committed offset.
        :param timestamp_ms: returns the time to start at in milliseconds, for ``ConsumeFromWhere.TIMESTAMP``.
        """
        start = initial_offset(mode, stored, is_retry=is_retry_topic(queue.topic))
        if start is OffsetQuery.MAX_OFFSET:
            return await self.max_offset(queue)
        if start is OffsetQuery.BY_TIMESTAMP:
            return await self.offset_at(queue, timestamp_ms())
        return start

    async def _ask(self, queue: MessageQueue, code: RequestCode, header: Header) -> int:
        answer = await ask_about_queue(self._instance, queue, code, header, timeout=TIMEOUT)
        return OffsetResponse.from_ext(answer.ext).offset


class BrokerOffsetStore(OffsetStore):
    """The committed offsets of a clustering consumer, stored at the brokers of the queues.

    The first offset of a topic at a broker is sent alone; :func:`first_of_each_table` gives the reason.
    """

    __slots__ = ("_failing_brokers", "_group", "_tables")

    def __init__(self, instance: ClientInstance, group: str) -> None:
        super().__init__(instance)
        self._group = group
        self._failing_brokers: set[str] = set()
        self._tables: set[tuple[str, str]] = set()
        """Broker and topic of the offsets that a broker has confirmed."""

    async def fetch(self, queue: MessageQueue) -> int | None:
        """Ask the broker for the group's committed offset; None if there is none.

        :raises NetworkError: the broker cannot be reached.
        :raises BrokerError: the broker refuses the query.
        """
        header = QueryConsumerOffset(consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id)
        try:
            return await self._ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except NotFound:
            return None

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Send the offsets of ``queues`` to their brokers without waiting for answers; failures are logged."""
        for queue, offset in self:
            if queue in queues:
                await self._send(queue, offset, confirm=False)

    async def persist_confirmed(self, queues: Collection[MessageQueue]) -> None:
        """Send the offsets of ``queues`` to their brokers and wait for the answers; failures are logged."""
        for part in self._first_and_rest({queue: offset for queue, offset in self if queue in queues}):
            await asyncio.gather(*(self._send(queue, offset, confirm=True) for queue, offset in part.items()))

    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        results: list[BaseException | None] = []
        for part in self._first_and_rest(offsets):
            updates = (self._update(queue, offset) for queue, offset in part.items())
            results += await asyncio.gather(*updates, return_exceptions=True)
        for error in results:
            if error is not None:
                raise error

    def _first_and_rest(self, offsets: Mapping[MessageQueue, int]) -> tuple[dict[MessageQueue, int], ...]:
        """Divide offsets into those to send first, one for each new broker and topic, and those to send after them."""
        firsts = first_of_each_table(offsets, self._instance.routes.broker_of, self._tables)
        return (
            {queue: offset for queue, offset in offsets.items() if queue in firsts},
            {queue: offset for queue, offset in offsets.items() if queue not in firsts},
        )

    async def _update(self, queue: MessageQueue, offset: int) -> None:
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        await ask_about_queue(self._instance, queue, code, self._header(queue, offset), timeout=TIMEOUT)
        self._tables.add((self._instance.routes.broker_of(queue), queue.topic))

    async def _send_current(self, queue: MessageQueue) -> None:
        """Send the offset that a queue has once its broker can be reached; nothing if the queue was released meanwhile.

        Pulls commit offsets, too: one from before the wait would overwrite theirs, or that of the queue's new owner.
        """
        connection = await self._instance.connections.get(await broker_of(self._instance, queue))
        offset = self.get(queue)
        if offset is not None:
            connection.oneway(RequestCode.UPDATE_CONSUMER_OFFSET, self._header(queue, offset))

    def _header(self, queue: MessageQueue, offset: int) -> UpdateConsumerOffset:
        return UpdateConsumerOffset(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )

    async def _send(self, queue: MessageQueue, offset: int, *, confirm: bool) -> None:
        try:
            await (self._update(queue, offset) if confirm else self._send_current(queue))
        except RocketMQError as e:
            level = logging.DEBUG if queue.broker_name in self._failing_brokers else logging.WARNING
            self._failing_brokers.add(queue.broker_name)
            _log.log(level, "offset %d of %s, group %s, could not be persisted: %s", offset, queue, self._group, e)
        else:
            self._failing_brokers.discard(queue.broker_name)
