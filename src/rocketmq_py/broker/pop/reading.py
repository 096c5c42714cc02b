"""Where a pop of a queue begins, and the records it answers with.

Knows a group's offset in a queue and how it comes into being, and the form in which messages of retry topics travel
(PopMessageProcessor). Refuses to know what is written down of a pop.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketmq_py.broker.metadata.offsets import NOT_FOUND
from rocketmq_py.broker.pop.parts import PopParts
from rocketmq_py.broker.send.message_properties import decode, encode
from rocketmq_py.broker.send.stored_record import read_stored
from rocketmq_py.core.consumer.subscription import RecordFilter, TagsCodeFilter
from rocketmq_py.properties import Property
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.pop_handle import ExtraInfo, InitMode
from rocketmq_py.store import GetResult, GetStatus
from rocketmq_py.wire.record import QUEUE_OFFSET_AT, encode_record, record_sizes

_MOVED = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL)


class PopReader:
    """Reads queues for pops."""

    def __init__(self, parts: PopParts) -> None:
        self._config = parts.config
        self._store = parts.store
        self._offsets = parts.offsets

    def start(self, group: str, topic: str, queue_id: int, init_mode: int) -> int:
        """Where a group's next pop of a queue begins; a group that has no offset gets one.

        :param init_mode: see :class:`InitMode`; retry topics always begin at their first message.
        """
        offset = self._offsets.query(group, topic, queue_id)
        if offset == NOT_FOUND:
            offset = self._first(topic, queue_id, init_mode)
            self._offsets.commit(group, topic, queue_id, offset, "a first pop")
        return offset

    def _first(self, topic: str, queue_id: int, init_mode: int) -> int:
        first, end = self._store.queue_range(topic, queue_id)
        if init_mode == InitMode.MIN or is_retry_topic(topic):
            return first
        young = self._config.init_pop_offset_by_check_msg_in_mem and first <= 0
        if young and self._store.in_memory(topic, queue_id, 0):
            return 0
        return max(0, end - 1)

    def seen(self, group: str, topic: str, queue_id: int) -> int:
        """Where a group would go on; nothing is committed."""
        offset = self._offsets.query(group, topic, queue_id)
        return self._store.queue_range(topic, queue_id)[0] if offset == NOT_FOUND else offset

    def rest(self, group: str, topic: str, queue_id: int) -> int:
        """How many messages of a queue a group has not popped."""
        return self._store.queue_range(topic, queue_id)[1] - self.seen(group, topic, queue_id)

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count: int,
        tags_filter: TagsCodeFilter | None,
        record_filter: RecordFilter | None,
    ) -> tuple[int, GetResult]:
        """Messages from ``offset`` on, or from where the queue has some; where the reading began in the end."""
        found = self._store.get(topic, queue_id, offset, count, accepts=tags_filter, message_filter=record_filter)
        if found.status in _MOVED:
            offset = found.next_offset
            found = self._store.get(topic, queue_id, offset, count, accepts=tags_filter, message_filter=record_filter)
        return offset, found


def offsets_of(start: int, found: GetResult) -> Sequence[int]:
    """Offsets of the messages found."""
    if found.next_offset - start == found.count:
        return range(start, found.next_offset)
    body, at = bytes(found.body), QUEUE_OFFSET_AT
    return [int.from_bytes(body[p + at : p + at + 8], "big") for p, _ in record_sizes(body)]


def as_popped(body: bytes, topic: str, handle: ExtraInfo) -> bytes:
    """Records of a retry topic as a client gets them: under the topic it subscribes to, with their handles in them.

    :param handle: of the pop; the offset is that of each record.
    """
    records = []
    for position, size in record_sizes(body):
        stored = read_stored(body[position : position + size])
        properties = decode(stored.properties.decode("utf-8", "replace"))
        properties.setdefault(Property.POP_CK, handle._replace(offset=stored.head.queue_offset).encode())
        records.append(encode_record(stored.head, topic, stored.body, encode(properties).encode()))
    return b"".join(records)
