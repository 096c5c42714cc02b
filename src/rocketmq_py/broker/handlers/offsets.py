"""Requests about consumer offsets, the offset ranges of queues, and offset resets."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, NamedTuple

from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.handlers.long_answers import assemble, members
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.pull.cold_read import answer_when_loaded
from rocketmq_py.core.broker.client_registry import RegisteredClient
from rocketmq_py.errors import BadHeader, BrokerError, NetworkError, QueueRebuilding
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.admin import QueryCorrectionOffset
from rocketmq_py.protocol.headers.group import ConsumerStatus
from rocketmq_py.protocol.headers.offset import (
    GetMaxOffset,
    MaxOffsetResponse,
    OffsetResponse,
    QueryConsumerOffset,
    QueueHeader,
    ResetOffset,
    SearchOffset,
    TimestampResponse,
    UpdateConsumerOffset,
)
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply, handles
from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.store import Boundary, MessageStore
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.wire.command import Command, language_name
from rocketmq_py.wire.fastjson import BareKey, dumps_java, loads

_log = logging.getLogger(__name__)

_SECONDS = 5.0
"""The timeout for a consumer's answer."""

Queue = tuple[tuple[str, object], ...]
_LARGEST = 2**63 - 1
"""Long.MAX_VALUE: the correction offset of a queue in which the compared group is behind."""


class OffsetHandlers:
    """Handlers of the request codes 14, 15, 29 to 32, 43 and 308."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicConfigs,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        slices: SlicedWork,
    ) -> None:
        self._config = config
        self._slices = slices
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets

    @handles(Code.QUERY_CONSUMER_OFFSET, lane="consumer")
    def query(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return a group's committed offset in a queue.

        Without one the answer is 0 if the group can begin at message 0 (see :meth:`_first`), otherwise QUERY_NOT_FOUND.
        """
        del peer, body
        header: QueryConsumerOffset = request.header
        offset = self._offsets.query(header.consumer_group, header.topic, header.queue_id)
        if offset < 0:
            return answer_when_loaded(
                lambda residency: Reply(header=OffsetResponse(offset=self._first(header, residency))),
                self._store.new_residency(),
            )
        return Reply(header=OffsetResponse(offset=offset))

    def _first(self, header: QueryConsumerOffset, residency: Residency | None) -> int:
        """Return 0 as the offset of a new group.

        :raises BrokerError: QUERY_NOT_FOUND, message 0 is deleted or no longer in memory, or ``setZeroIfNotFound`` is
            false.
        :raises NotInMemory: only with ``residency``.
        """
        if header.set_zero_if_not_found is False:
            remark = "Not found, do not set to zero, maybe this group boot first"
            raise BrokerError.of(ResponseCode.QUERY_NOT_FOUND, remark)
        smallest, _ = self._store.queue_range(header.topic, header.queue_id)
        if smallest <= 0:
            self._store.checks.entries(header.topic, header.queue_id, 0, 1, residency)
        if smallest > 0 or not self._store.in_memory(header.topic, header.queue_id, 0):
            remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
            raise BrokerError.of(ResponseCode.QUERY_NOT_FOUND, remark)
        return 0

    @handles(Code.UPDATE_CONSUMER_OFFSET, lane="consumer")
    def update(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Commit an offset; ignored while a reset is pending."""
        del body
        header: UpdateConsumerOffset = request.header
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        if self._groups.get(group) is None:
            raise BrokerError.of(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
        if self._topics.get(topic) is None:
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        if self._config.use_server_side_reset_offset and self._offsets.has_reset(group, topic, queue_id):
            return Reply(remark="Offset has been previously reset")
        self._offsets.commit(group, topic, queue_id, header.commit_offset, peer.address)
        return Reply()

    @handles(Code.GET_MAX_OFFSET)
    def max_offset(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return the offset of the next message of a queue."""
        del peer, body
        header: GetMaxOffset = request.header
        end = self._store.queue_range(header.topic, header.queue_id)[1]
        if not header.bounds:
            return Reply(header=OffsetResponse(offset=end))
        first = self._store.min_offset_for_clients(header.topic, header.queue_id)
        return Reply(header=MaxOffsetResponse(offset=end, min_offset=first))

    @handles(Code.GET_MIN_OFFSET)
    def min_offset(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return the offset of the oldest message of a queue."""
        del peer, body
        header: QueueHeader = request.header
        return Reply(header=OffsetResponse(offset=self._store.min_offset_for_clients(header.topic, header.queue_id)))

    @handles(Code.SEARCH_OFFSET_BY_TIMESTAMP)
    def search(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return the offset of the first message stored at the header's time or later.

        If the header's ``boundaryType`` is ``upper``: of the last message stored at this time or earlier.
        """
        del peer, body
        header: SearchOffset = request.header
        boundary = Boundary.UPPER if (header.boundary_type or "").lower() == "upper" else Boundary.LOWER
        topic, queue_id = header.topic, header.queue_id
        _, end = self._store.queue_range(topic, queue_id)

        def read(residency: Residency | None) -> Reply:
            offset = self._store.offset_by_time(
                topic, queue_id, header.timestamp, boundary, end=end, residency=residency
            )
            return Reply(header=OffsetResponse(offset=offset))

        return answer_when_loaded(read, self._store.new_residency())

    @handles(Code.GET_EARLIEST_MSG_STORETIME)
    def earliest(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return the store time of the oldest message of a queue; -1 if it is empty."""
        del peer, body
        header: QueueHeader = request.header
        return self._earliest(header.topic, header.queue_id)

    def _earliest(self, topic: str, queue_id: int) -> Reply | Hold:
        if self._store.rebuild.has(topic, queue_id):
            raise QueueRebuilding.of(topic, queue_id)

        def read(residency: Residency | None) -> Reply:
            self._store.checks.earliest_store_time(topic, queue_id, residency)
            return Reply(header=TimestampResponse(timestamp=self._store.earliest_store_time(topic, queue_id)))

        return answer_when_loaded(read, self._store.new_residency())

    @handles(Code.GET_ALL_CONSUMER_OFFSET)
    async def all_offsets(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return all offsets, for slaves."""
        del peer, request, body
        offsets = self._offsets
        # The version before the offsets: a slave that gets newer offsets with it asks again.
        version, topics = dumps_java(bean(offsets.version)), members(offsets.topics_by_group().items())
        parts = (b'{"dataVersion":', version, b',"groupTopicMap":{', topics, b'},"offsetTable":{')
        return Reply(body=await assemble(self._slices, *parts, members(offsets.entries()), b"}}"))

    @handles(Code.QUERY_CORRECTION_OFFSET)
    def corrections(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the smallest offset that a group has committed in each queue of a topic, as JSON by queue id.

        Groups in the header's ``filterGroups`` are not counted; unlike Java's broker, this one does not delete their
        offsets. If the header's ``compareGroup`` has committed a smaller offset in a queue, the queue's value is
        Long.MAX_VALUE.
        """
        del peer, body
        header: QueryCorrectionOffset = request.header
        filtered = set(filter(None, (header.filter_groups or "").split(",")))
        smallest = {}
        for queue_id, offsets in self._offsets.committed(header.topic, filtered).items():
            first, _ = self._store.queue_range(header.topic, queue_id)
            if kept := [offset for offset in offsets if offset >= first]:
                smallest[queue_id] = min(kept)
        compared = self._offsets.table.get(f"{header.topic}@{header.compare_group}", {})
        table = {
            BareKey(queue_id): _LARGEST if compared.get(queue_id, least) < least else least
            for queue_id, least in sorted(smallest.items())
        }
        return Reply(body=dumps_java({"correctionOffsets": table}))


class _Search(NamedTuple):
    """Searches by time for a reset, which run again after each load from disk.

    :ivar ends: by queue id: end of the search, which must not change between the runs.
    """

    ends: dict[int, int]
    residency: Residency | None


class ResetHandlers:
    """Handlers of the request codes 222 and 223."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicConfigs, groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        clients: Clients,
    ) -> None:  # fmt: skip
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients

    @handles(Code.INVOKE_BROKER_TO_RESET_OFFSET)
    def reset(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Reset the offsets of a group to a time or an offset.

        With ``useServerSideResetOffset`` the next pull of a member, or one on hold, is answered with the new offset;
        otherwise the broker sends the new offsets to the members.
        """
        del peer, body
        ends: dict[int, int] = {}
        return answer_when_loaded(
            lambda residency: self._reset(request, _Search(ends, residency)), self._store.new_residency()
        )  # fmt: skip

    def _reset(self, request: Request, search: _Search) -> Reply:
        header: ResetOffset = request.header
        topic = self._topics.get(header.topic)
        if not self._config.use_server_side_reset_offset:
            return self._reset_members(header, topic, search, in_c=language_name(request.language) == "CPP")
        if self._config.is_slave:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, "Can not reset offset in slave broker")
        if topic is None:
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist")
        if self._groups.get(header.group) is None:
            remark = f"Group {header.group} does not exist"
            raise BrokerError.of(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        wanted = self._wanted(header, topic, search)
        for queue_id, offset in wanted.items():
            self._offsets.reset(header.group, header.topic, queue_id, offset)
        return Reply(body=dumps_java({"offsetTable": self._table(header.topic, wanted)}))

    def _wanted(self, header: ResetOffset, topic: TopicConfig, search: _Search) -> dict[int, int]:
        if header.queue_id < 0:
            return {q: self._at(header.topic, q, header.timestamp, search) for q in range(topic.read_queue_nums)}
        if header.offset is None or header.offset == -1:
            return {header.queue_id: self._at(header.topic, header.queue_id, header.timestamp, search)}
        first, end = self._store.queue_range(header.topic, header.queue_id)
        if not first <= header.offset <= end + 1:
            remark = f"Target offset {header.offset} not in consume queue range [{first}-{end}]"
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, remark)
        return {header.queue_id: header.offset}

    def _at(self, topic: str, queue_id: int, timestamp: int, search: _Search) -> int:
        """Return the offset of a store time in milliseconds; the end of the queue for a negative time.

        :raises NotInMemory: messages of the queue have to be loaded from disk.
        """
        end = search.ends.setdefault(queue_id, self._store.queue_range(topic, queue_id)[1])
        if timestamp < 0:
            return end
        return self._store.offset_by_time(topic, queue_id, timestamp, end=end, residency=search.residency)

    def _table(self, topic: str, offsets: dict[int, int]) -> dict[Queue, int]:
        name = self._config.broker_name
        return {(("brokerName", name), ("queueId", q), ("topic", topic)): offset for q, offset in offsets.items()}

    # -- resets that members apply

    def _reset_members(self, header: ResetOffset, topic: TopicConfig | None, search: _Search, *, in_c: bool) -> Reply:
        if topic is None:
            remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}"
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, remark)
        wanted = self._moved(header, topic, search)
        table = dumps_java({"offsetTable": self._table(header.topic, wanted)})
        listed = [
            {"brokerName": self._config.broker_name, "offset": offset, "queueId": queue_id, "topic": header.topic}
            for queue_id, offset in wanted.items()
        ]
        offsets = dumps_java({"offsetTable": listed}) if in_c else table
        ext = {"topic": header.topic, "group": header.group, "timestamp": str(header.timestamp), "isForce": "false"}
        command = Command(Code.RESET_CONSUMER_CLIENT_OFFSET, ext=ext, body=offsets)
        members = self._members(header.group)
        if not members:
            remark = (
                f"Consumer not online, so can not reset offset, Group: {header.group} Topic: {header.topic} "
                f"Timestamp: {header.timestamp}"
            )
            raise BrokerError.of(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        for _, channel in members:
            channel.send(command)
        return Reply(body=table)

    def _moved(self, header: ResetOffset, topic: TopicConfig, search: _Search) -> dict[int, int]:
        """Return the new offset of each queue; without ``is_force`` it is never larger than the committed offset."""
        moved = {}
        for queue_id in range(topic.write_queue_nums):
            consumed = self._offsets.query(header.group, header.topic, queue_id)
            if consumed < 0:
                raise BrokerError.of(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist")
            offset = max(0, self._at(header.topic, queue_id, header.timestamp, search))
            moved[queue_id] = offset if header.is_force or offset < consumed else consumed
        return moved

    # -- offsets of members

    @handles(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
    async def status(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the offsets of all members of a group, or of one; members that do not answer are left out."""
        del peer, body
        header: ConsumerStatus = request.header
        members = self._members(header.group)
        if not members:
            remark = f"No Any Consumer online in the consumer group: [{header.group}]"
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, remark)
        asked = [pair for pair in members if not header.client_addr or pair[0].client_id == header.client_addr]
        ext = {"topic": header.topic, "group": header.group}
        command = Command(Code.GET_CONSUMER_STATUS_FROM_CLIENT, ext=ext)
        answers = await asyncio.gather(*(self._ask(member, channel, command) for member, channel in asked))
        found = {
            member.client_id: table for (member, _), table in zip(asked, answers, strict=True) if table is not None
        }
        return Reply(body=dumps_java({"consumerTable": found, "messageQueueTable": {}}))

    async def _ask(self, member: RegisteredClient, channel: Peer, command: Command) -> dict[Queue, Any] | None:
        try:
            answer = await channel.invoke(command, _SECONDS)
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                return None
            return _offsets_of(bytes(answer.body))
        except (NetworkError, BadHeader) as e:
            _log.warning("consumer %s did not return its offsets: %s", member.client_id, e)
            return None

    def _members(self, group: str) -> list[tuple[RegisteredClient, Peer]]:
        found = self._clients.consumers.groups.get(group)
        members = found.members.values() if found else ()
        return [(member, member.channel) for member in members if isinstance(member.channel, Peer)]


def _offsets_of(body: bytes) -> dict[Queue, Any]:
    """Decode a consumer's answer to offsets by queue.

    :raises BadHeader: the answer cannot be decoded.
    """
    try:
        tree = loads(body)
        table = tree.get("messageQueueTable") or {}
        return {tuple(sorted(loads(key).items())): offset for key, offset in table.items()}
    except (ValueError, AttributeError) as e:
        raise BadHeader(f"expected offsets by queue: {e}") from e
