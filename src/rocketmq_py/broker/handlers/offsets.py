"""Requests about consumer offsets and the range of queues."""

from __future__ import annotations

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.admin import QueryCorrectionOffset
from rocketmq_py.protocol.headers.offset import (
    OffsetResponse,
    QueryConsumerOffset,
    QueueHeader,
    SearchOffset,
    TimestampResponse,
    UpdateConsumerOffset,
)
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.store import Boundary, MessageStore
from rocketmq_py.wire.fastjson import BareKey, dumps_java

_LARGEST = 2**63 - 1
"""Stands for an offset nobody has reached (Long.MAX_VALUE)."""


class OffsetHandlers:
    """14, 15, 29-32, 43, 308."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicConfigs,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
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

    @handles(Code.QUERY_CORRECTION_OFFSET)
    def corrections(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """The smallest offset groups have committed in each queue of a topic.

        Where the compared group is behind it, that is the largest number there is. Unlike Java's broker this one only
        leaves the filtered groups out; it does not forget their offsets.
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
        behind = {queue_id for queue_id, offset in compared.items() if smallest.get(queue_id, 0) > offset}
        table = {BareKey(q): _LARGEST if q in behind else smallest[q] for q in sorted(smallest)}
        return Reply(body=dumps_java({"correctionOffsets": table}))
