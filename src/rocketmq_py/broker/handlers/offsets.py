"""Requests about consumer offsets and the range of queues."""

from __future__ import annotations

from rocketmq_py.broker.config import BrokerConfig
from rocketmq_py.broker.groups import Groups
from rocketmq_py.broker.offsets import Offsets
from rocketmq_py.broker.topics import Topics
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers import (
    OffsetResponse,
    QueryConsumerOffset,
    QueueHeader,
    ResetOffset,
    SearchOffset,
    TimestampResponse,
    UpdateConsumerOffset,
)  # fmt: skip
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.store import Boundary, MessageStore
from rocketmq_py.wire.fastjson import dumps_java

_LATEST = -1
"""The timestamp that stands for the end of a queue in a reset."""


class OffsetHandlers:
    """14, 15, 29-32, 43, 222."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: Topics, groups: Groups, offsets: Offsets
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets

    @handles(Code.QUERY_CONSUMER_OFFSET, lane="consumer")
    def query(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Where a group stands. A group new to a small young queue stands at its beginning."""
        del peer, body
        header: QueryConsumerOffset = request.header
        offset = self._offsets.query(header.consumer_group, header.topic, header.queue_id)
        if offset < 0:
            offset = self._first(header)
        return Reply(header=OffsetResponse(offset=offset))

    def _first(self, header: QueryConsumerOffset) -> int:
        """0 when message 0 is there and recent enough to be in memory, else the group has no offset."""
        if header.set_zero_if_not_found is False:
            said = "Not found, do not set to zero, maybe this group boot first"
            raise BrokerError.of(ResponseCode.QUERY_NOT_FOUND, said)
        smallest, _ = self._store.queue_range(header.topic, header.queue_id)
        if smallest > 0 or not self._store.in_memory(header.topic, header.queue_id, 0):
            said = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
            raise BrokerError.of(ResponseCode.QUERY_NOT_FOUND, said)
        return 0

    @handles(Code.UPDATE_CONSUMER_OFFSET, lane="consumer")
    def update(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Commit an offset; ignored while a reset waits to be fetched."""
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
    def max_offset(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """The offset the next message of a queue gets."""
        del peer, body
        header: QueueHeader = request.header
        return Reply(header=OffsetResponse(offset=self._store.queue_range(header.topic, header.queue_id)[1]))

    @handles(Code.GET_MIN_OFFSET)
    def min_offset(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """The offset of the oldest message of a queue."""
        del peer, body
        header: QueueHeader = request.header
        return Reply(header=OffsetResponse(offset=self._store.queue_range(header.topic, header.queue_id)[0]))

    @handles(Code.SEARCH_OFFSET_BY_TIMESTAMP)
    def search(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """The offset that belongs to a store time."""
        del peer, body
        header: SearchOffset = request.header
        boundary = Boundary.UPPER if (header.boundary_type or "").lower() == "upper" else Boundary.LOWER
        offset = self._store.offset_by_time(header.topic, header.queue_id, header.timestamp, boundary)
        return Reply(header=OffsetResponse(offset=offset))

    @handles(Code.GET_EARLIEST_MSG_STORETIME)
    def earliest(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """When the oldest message of a queue was stored; -1 when there is none."""
        del peer, body
        header: QueueHeader = request.header
        return Reply(header=TimestampResponse(timestamp=self._store.earliest_store_time(header.topic, header.queue_id)))

    @handles(Code.GET_ALL_CONSUMER_OFFSET)
    def all_offsets(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Every offset, as a slave takes it over."""
        del peer, request, body
        return Reply(body=dumps_java(self._offsets.tree()))

    @handles(Code.INVOKE_BROKER_TO_RESET_OFFSET)
    def reset(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Set a group to a time or an offset; its members learn of it with their next pull."""
        del peer, body
        header: ResetOffset = request.header
        topic = self._topics.get(header.topic)
        if topic is None:
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist")
        if self._groups.get(header.group) is None:
            said = f"Group {header.group} does not exist"
            raise BrokerError.of(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, said)
        wanted = self._wanted(header, topic)
        for queue_id, offset in wanted.items():
            self._offsets.reset(header.group, header.topic, queue_id, offset)
        return Reply(body=dumps_java({"offsetTable": {self._queue(header.topic, q): o for q, o in wanted.items()}}))

    def _wanted(self, header: ResetOffset, topic: TopicConfig) -> dict[int, int]:
        if header.queue_id < 0:
            return {q: self._at(header.topic, q, header.timestamp) for q in range(topic.read_queue_nums)}
        if header.offset is None or header.offset == -1:
            return {header.queue_id: self._at(header.topic, header.queue_id, header.timestamp)}
        first, end = self._store.queue_range(header.topic, header.queue_id)
        if not first <= header.offset <= end + 1:
            said = f"Target offset {header.offset} not in consume queue range [{first}-{end}]"
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, said)
        return {header.queue_id: header.offset}

    def _at(self, topic: str, queue_id: int, timestamp: int) -> int:
        if timestamp == _LATEST:
            return self._store.queue_range(topic, queue_id)[1]
        return self._store.offset_by_time(topic, queue_id, timestamp)

    def _queue(self, topic: str, queue_id: int) -> tuple[tuple[str, object], ...]:
        return (("brokerName", self._config.broker_name), ("queueId", queue_id), ("topic", topic))
