"""Requests about static topics, and about the offsets of their logical queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from rocketmq_py.broker.cluster.registration import Registration
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.handlers.long_answers import members
from rocketmq_py.broker.handlers.offsets import OffsetHandlers
from rocketmq_py.broker.handlers.topics import TopicHandlers, check_numbers
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.queue_mappings import TopicQueueMappings, decode_mapping
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.static_topic.forward import FORWARDED, Answer, Forwarder
from rocketmq_py.broker.static_topic.messages import LogicalQueue, leading_queue
from rocketmq_py.broker.stats import Stats
from rocketmq_py.core.broker.static_topic import (
    find_item,
    leader_map,
    logical_offset,
    logical_offset_of_send,
    physical_offset,
)
from rocketmq_py.core.peer import Reply as RemoteReply
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.static_topic import MappingItem, TopicConfigAndMapping
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.offset import (
    GetMaxOffset,
    OffsetResponse,
    QueryConsumerOffset,
    QueueHeader,
    SearchOffset,
    UpdateConsumerOffset,
)
from rocketmq_py.protocol.headers.topic import CreateTopic
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply, handles
from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.store import Boundary, MessageStore

_LARGEST = (1 << 63) - 1

H = TypeVar("H", QueueHeader, SearchOffset, QueryConsumerOffset, UpdateConsumerOffset, GetMaxOffset)


class StaticTopicHandlers(TopicHandlers):
    """Handlers of topics (see :class:`TopicHandlers`), with the mappings of static topics, and of the code 513.

    :param moved: answers the held pulls of a topic's physical queues to which nothing is written any more.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicConfigs,
        store: MessageStore,
        offsets: ConsumerOffsets,
        stats: Stats,
        registration: Registration,
        mappings: TopicQueueMappings,
        slices: SlicedWork,
        moved: Callable[[str, set[int]], None],
    ) -> None:
        super().__init__(config, topics, store, offsets, stats, registration, slices)
        self._mappings = mappings
        self._moved = moved

    @handles(Code.UPDATE_AND_CREATE_STATIC_TOPIC)
    async def create_static(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Create or change a static topic and its mapping; answered after the name servers have it."""
        del peer
        header: CreateTopic = request.header
        detail = decode_mapping(body)
        self._check_name(header.topic)
        check_numbers(header.topic, header.read_queue_nums, header.write_queue_nums, header.perm)
        before = self._mappings.table.get(header.topic)
        self._mappings.put(detail, header.topic, force=bool(header.force))
        await self._mappings.saved()
        known = self._topics.get(header.topic)
        await self._put([
            TopicConfig(
                topic_name=header.topic, read_queue_nums=header.read_queue_nums,
                write_queue_nums=header.write_queue_nums, perm=header.perm, topic_filter_type=header.topic_filter_type,
                topic_sys_flag=header.topic_sys_flag or 0, order=known is not None and known.order,
                attributes=known.attributes if known is not None else {},
            )
        ])  # fmt: skip
        if before is not None:
            # Otherwise consumers whose pulls are held would detect the change up to 15 s later.
            self._moved(header.topic, set(leader_map(before).values()) - set(leader_map(detail).values()))
        return Reply()

    @handles(Code.DELETE_TOPIC_IN_BROKER)
    async def delete(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Delete a topic with its mapping."""
        reply = await super().delete(peer, request, body)
        self._mappings.delete(request.header.topic)
        await self._mappings.saved()
        return reply

    @handles(Code.GET_TOPIC_CONFIG)
    def get(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the configuration of one topic, with its mapping if the header has ``lo``."""
        reply = super().get(peer, request, body)
        header = request.header
        detail = self._mappings.table.get(header.topic) if header.lo else None
        if detail is None:
            return reply
        topic = self._topics.table[header.topic]
        fields = {name: getattr(topic, name) for name in topic.__struct_fields__}
        return Reply(body=TopicConfigAndMapping(**fields, mapping_detail=detail).encode())

    @handles(Code.GET_ALL_TOPIC_CONFIG)
    async def list_all(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return all topics or a page of them, and all mappings, for slaves."""
        if not self._mappings.table:
            return await super().list_all(peer, request, body)
        return await self._listed(request, self._mappings.version, members(self._mappings.trees()))


class StaticOffsetHandlers(OffsetHandlers):
    """Handlers of offsets (see :class:`OffsetHandlers`) that also accept logical queues.

    A request about a physical queue of this broker is answered at once, others after a request to the queue's broker.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicConfigs,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        slices: SlicedWork,
        mappings: TopicQueueMappings,
        forwarder: Forwarder,
    ) -> None:
        super().__init__(config, store, topics, groups, offsets, slices)
        self._mappings = mappings
        self._forwarder = forwarder

    def _logical(self, header: H) -> LogicalQueue | None:
        """Return the logical queue of a request; None for a request about a physical queue.

        :raises BrokerError: another broker leads it.
        """
        detail = self._mappings.table.get(header.topic) if self._mappings.table else None
        return None if detail is None or header.lo is False else leading_queue(detail, header.queue_id)

    def _forwarded(self, answer: Answer) -> Hold:
        return Hold(FORWARDED, 0, answer)

    async def _ask(self, code: Code, header: H, item: MappingItem) -> RemoteReply:
        """Send a request to the broker of a physical queue and return its answer, of any code."""
        physical = msgspec.structs.replace(header, queue_id=item.queue_id, bname=item.bname, lo=False)
        return await self._forwarder.ask(item.bname, header.topic, code, physical)

    async def _offset(self, code: Code, header: H, item: MappingItem) -> int:
        """Query an offset at the broker of a physical queue.

        :raises BrokerError: that broker refuses.
        """
        reply = await self._ask(code, header, item)
        if reply.code:
            raise BrokerError.of(reply.code, reply.remark)
        return OffsetResponse.from_ext(dict(reply.ext)).offset

    # -- of groups

    @handles(Code.QUERY_CONSUMER_OFFSET, lane="consumer")
    def query(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return a group's offset in a queue; for a logical queue, from its last physical queue with an offset."""
        header: QueryConsumerOffset = request.header
        queue = self._logical(header)
        if queue is None:
            return super().query(peer, request, body)
        if len(queue.items) == 1 and queue.leader.logic_offset == 0:
            header.queue_id = queue.leader.queue_id
            return super().query(peer, request, body)
        return self._forwarded(lambda: self._query(queue, header))

    async def _query(self, queue: LogicalQueue, header: QueryConsumerOffset) -> Reply:
        asked = msgspec.structs.replace(header, set_zero_if_not_found=False)
        for item in reversed(queue.items):
            if item.logic_offset < 0:
                continue
            if queue.is_here(item):
                offset = self._offsets.query(header.consumer_group, header.topic, item.queue_id)
            else:
                reply = await self._ask(Code.QUERY_CONSUMER_OFFSET, asked, item)
                if reply.code not in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND):
                    raise BrokerError.of(reply.code, reply.remark)
                offset = -1 if reply.code else OffsetResponse.from_ext(dict(reply.ext)).offset
            if offset >= 0:
                return Reply(header=OffsetResponse(offset=logical_offset(item, offset)))
        raise BrokerError.of(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")

    @handles(Code.UPDATE_CONSUMER_OFFSET, lane="consumer")
    def update(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Commit an offset; in a logical queue, at the physical queue whose range contains it."""
        header: UpdateConsumerOffset = request.header
        queue = self._logical(header)
        if queue is None:
            return super().update(peer, request, body)
        item = _item(queue, header.commit_offset)
        header.commit_offset = physical_offset(item, header.commit_offset)
        if queue.is_here(item):
            header.queue_id = item.queue_id
            return super().update(peer, request, body)

        async def answer() -> Reply:
            reply = await self._ask(Code.UPDATE_CONSUMER_OFFSET, header, item)
            return Reply(reply.code, reply.remark)

        return self._forwarded(answer)

    # -- of queues

    @handles(Code.GET_MAX_OFFSET)
    def max_offset(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return the offset of the next message of a queue."""
        header: GetMaxOffset = request.header
        queue = self._logical(header)
        if queue is None:
            return super().max_offset(peer, request, body)
        item = _item(queue, _LARGEST)
        if queue.is_here(item):
            end = self._store.queue_range(header.topic, item.queue_id)[1]
            return Reply(header=OffsetResponse(offset=logical_offset(item, end)))

        async def answer() -> Reply:
            return _at(logical_offset(item, await self._offset(Code.GET_MAX_OFFSET, header, item)))

        return self._forwarded(answer)

    @handles(Code.GET_MIN_OFFSET)
    def min_offset(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return the offset of the oldest message of a queue."""
        header: QueueHeader = request.header
        queue = self._logical(header)
        if queue is None:
            return super().min_offset(peer, request, body)
        item = _item(queue, 0)
        if queue.is_here(item):
            return _at(logical_offset_of_send(item, self._store.queue_range(header.topic, item.queue_id)[0]))

        async def answer() -> Reply:
            return _at(logical_offset_of_send(item, await self._offset(Code.GET_MIN_OFFSET, header, item)))

        return self._forwarded(answer)

    @handles(Code.SEARCH_OFFSET_BY_TIMESTAMP)
    def search(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return the offset of the first message stored at the header's time or later.

        If the header's ``boundaryType`` is ``upper``: of the last message stored at this time or earlier.
        """
        header: SearchOffset = request.header
        queue = self._logical(header)
        if queue is None:
            return super().search(peer, request, body)
        return self._forwarded(lambda: self._search(queue, header))

    async def _search(self, queue: LogicalQueue, header: SearchOffset) -> Reply:
        """Search the first physical queue that has a message of that time or later; the last one if none has."""
        items = [item for item in queue.items if item.logic_offset >= 0]
        if not items:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, "the logical queue has no offsets yet")
        for item in items[:-1]:
            offset, end = await self._searched(queue, item, header), await self._end(queue, item, header)
            if offset < end:
                return _at(logical_offset(item, offset))
        return _at(logical_offset(items[-1], await self._searched(queue, items[-1], header)))

    async def _searched(self, queue: LogicalQueue, item: MappingItem, header: SearchOffset) -> int:
        if not queue.is_here(item):
            return await self._offset(Code.SEARCH_OFFSET_BY_TIMESTAMP, header, item)
        boundary = Boundary.UPPER if (header.boundary_type or "").lower() == "upper" else Boundary.LOWER
        end = self._store.queue_range(header.topic, item.queue_id)[1]
        return await self._store.loader.run(
            lambda residency: self._store.offset_by_time(
                header.topic, item.queue_id, header.timestamp, boundary, end=end, residency=residency
            )
        )

    async def _end(self, queue: LogicalQueue, item: MappingItem, header: SearchOffset) -> int:
        if queue.is_here(item):
            return self._store.queue_range(header.topic, item.queue_id)[1]
        asked = GetMaxOffset(topic=header.topic, queue_id=item.queue_id)
        return await self._offset(Code.GET_MAX_OFFSET, asked, item)

    @handles(Code.GET_EARLIEST_MSG_STORETIME)
    def earliest(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return the store time of the oldest message of a queue; -1 if it is empty."""
        header: QueueHeader = request.header
        queue = self._logical(header)
        if queue is None:
            return super().earliest(peer, request, body)
        item = _item(queue, 0)
        if queue.is_here(item):
            return self._earliest(header.topic, item.queue_id)

        async def answer() -> Reply:
            reply = await self._ask(Code.GET_EARLIEST_MSG_STORETIME, header, item)
            return Reply(reply.code, reply.remark, ext=dict(reply.ext))

        return self._forwarded(answer)


def _item(queue: LogicalQueue, logical: int) -> MappingItem:
    """Return the physical queue whose range contains a logical offset.

    :raises BrokerError: no physical queue of the logical queue has a range yet.
    """
    item = find_item(queue.items, logical)
    if item is None:
        raise BrokerError.of(ResponseCode.SYSTEM_ERROR, "the logical queue has no offsets yet")
    return item


def _at(offset: int) -> Reply:
    return Reply(header=OffsetResponse(offset=offset))
