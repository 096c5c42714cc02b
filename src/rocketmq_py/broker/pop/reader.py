"""Reads queues for pops: the offset at which a group's next pop begins, and the records of its response.

The group's offset in a queue and its initial value, and the form in which messages of retry topics are returned
(PopMessageProcessor).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.offsets import NOT_FOUND
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.records.message_properties import decode, encode
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.core.consumer.subscription import RecordFilter, TagsCodeFilter
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.properties import Property
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.pop_handle import ExtraInfo, InitMode, pop_retry_topic
from rocketmq_py.store import GetResult, GetStatus, MessageStore
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.wire.record import QUEUE_OFFSET_AT, encode_record, record_sizes

_CRC_AT, _CRC_END = 8, 12
"""Begin and end of the body's checksum in a record, in bytes."""

_MOVED = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL)


class PopOffsets(Protocol):
    """The methods of :class:`~rocketmq_py.broker.metadata.offsets.ConsumerOffsets` that pops call."""

    def query(self, group: str, topic: str, queue_id: int) -> int: ...
    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: str) -> None: ...
    def has_reset(self, group: str, topic: str, queue_id: int) -> bool: ...
    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None: ...


class PopReader:
    """Reads messages of queues for pops, and knows the offsets at which groups continue."""

    def __init__(self, config: BrokerConfig, store: MessageStore, topics: TopicConfigs, offsets: PopOffsets) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self.offsets = offsets
        self.new_residency = store.new_residency

    def retry_topic(self, topic: str, group: str, *, v2: bool) -> TopicConfig | None:
        """Return the retry topic of a group that pops ``topic``; None if it does not exist.

        :param v2: with a name of version 2 (``enableRetryTopicV2``).
        """
        return self._topics.get(pop_retry_topic(topic, group, v2=v2))

    def start(self, group: str, topic: str, queue_id: int, init_mode: int, residency: Residency | None = None) -> int:
        """Return the offset at which a group's next pop of a queue begins; commit an initial one if it has none.

        :param init_mode: see :class:`InitMode`; retry topics always begin at their first message.
        :param residency: if given, do not wait for the disk.
        :raises NotInMemory: only with ``residency``; nothing was committed.
        """
        offset = self.offsets.query(group, topic, queue_id)
        if offset == NOT_FOUND:
            offset = self._initial(topic, queue_id, init_mode, residency)
            self.offsets.commit(group, topic, queue_id, offset, "a first pop")
        return offset

    def _initial(self, topic: str, queue_id: int, init_mode: int, residency: Residency | None) -> int:
        first, end = self._store.queue_range(topic, queue_id)
        if init_mode == InitMode.MIN or is_retry_topic(topic):
            return first
        is_young = self._config.init_pop_offset_by_check_msg_in_mem and first <= 0
        if is_young:
            self._store.checks.entries(topic, queue_id, 0, 1, residency)
            if self._store.in_memory(topic, queue_id, 0):
                return 0
        return max(0, end - 1)

    def next_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Return a group's offset in a queue, the minimum offset if it has none; commit nothing (see :meth:`start`)."""
        offset = self.offsets.query(group, topic, queue_id)
        return self._store.queue_range(topic, queue_id)[0] if offset == NOT_FOUND else offset

    def is_readable(self, topic: str, queue_id: int) -> bool:
        """Return False while a queue is being rebuilt."""
        return not self._store.rebuild.has(topic, queue_id)

    def end(self, topic: str, queue_id: int) -> int:
        """Return the offset behind the last message of a queue."""
        return self._store.queue_range(topic, queue_id)[1]

    def rest(self, group: str, topic: str, queue_id: int) -> int:
        """Return the number of messages of a queue that a group has not popped."""
        return self.end(topic, queue_id) - self.next_offset(group, topic, queue_id)

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count: int,
        accepts: TagsCodeFilter | None,
        wants: RecordFilter | None,
        residency: Residency | None = None,
    ) -> tuple[int, GetResult]:
        """Read at most ``count`` messages from ``offset`` on, or from the nearest offset that the queue has.

        :param accepts: the tag filter; None for none.
        :param wants: the SQL filter; None for none.
        :param residency: if given, do not wait for the disk.
        :returns: the offset at which the read began, and the messages.
        :raises NotInMemory: only with ``residency``.
        """
        get = self._store.get
        found = get(topic, queue_id, offset, count, accepts=accepts, message_filter=wants, residency=residency)
        if found.status in _MOVED:
            offset = found.next_offset
            found = get(topic, queue_id, offset, count, accepts=accepts, message_filter=wants, residency=residency)
        return offset, found


def offsets_of(start: int, found: GetResult) -> Sequence[int]:
    """Return the queue offsets of the messages in ``found``, which was read from ``start`` on."""
    if found.next_offset - start == found.count:
        return range(start, found.next_offset)
    body, at = bytes(found.body), QUEUE_OFFSET_AT
    return [int.from_bytes(body[p + at : p + at + 8], "big") for p, _ in record_sizes(body)]


def as_popped(body: bytes, topic: str, handle: ExtraInfo) -> bytes:
    """Encode records of a retry topic for a client: with the topic it subscribes to and the property POP_CK.

    :param topic: the topic that the client subscribes to.
    :param handle: the receipt handle of the pop; each record gets a copy with its own queue offset as POP_CK.
    """
    records = []
    for position, size in record_sizes(body):
        record = body[position : position + size]
        try:
            stored = read_stored(record)
        except CorruptRecord:  # returned unchanged: the consumer detects the damage and reads the other records
            records.append(record)
            continue
        properties = decode(stored.properties.decode("utf-8", "replace"))
        properties.setdefault(Property.POP_CK, handle._replace(offset=stored.head.queue_offset).encode())
        changed = encode_record(stored.head, topic, stored.body, encode(properties).encode())
        # The checksum stays that of the body that was sent: a damaged one must not get one that fits.
        records.append(changed[:_CRC_AT] + record[_CRC_AT:_CRC_END] + changed[_CRC_END:])
    return b"".join(records)
