"""Check-points and acks of POP: the bodies of the messages in a broker's revive topic.

JSON members and names are those of PopCheckPoint, AckMsg, BatchAckMsg and PopAckConstants.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NamedTuple, Self

import msgspec
from msgspec import UNSET, UnsetType

from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.protocol.names import SYSTEM_GROUP_PREFIX, SYSTEM_TOPIC_PREFIX
from rocketmq_py.wire.integers import INT32_MIN, Int32, Int64

REVIVE_GROUP = f"{SYSTEM_GROUP_PREFIX}REVIVE_GROUP"
CK_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"

_encode = msgspec.json.Encoder(order="sorted").encode
_TRIES_UNREADABLE = 127
"""Number of tries that Java assumes if it cannot parse the number in a check-point."""

_BitMap = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=2**32 - 1)]
"""A bit map of 32 bits, which Java writes as a signed number."""


def revive_topic(cluster: str) -> str:
    """Return the name of a cluster's revive topic, in which brokers store check-points and acks."""
    return f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}"


class CkKey(NamedTuple):
    """Identifies the messages that one pop returned from one queue."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time: int
    broker_name: str


class CheckPoint(Body, kw_only=True, rename={
    "bit_map": "bm", "broker_name": "bn", "group": "c", "diffs": "d", "invisible_ms": "it", "count": "n",
    "pop_time": "pt", "queue_id": "q", "revive_offset": "ro", "re_put_times": "rp", "start_offset": "so", "topic": "t",
}):  # fmt: skip
    """The messages that one pop returned from one queue, and which of them are acked.

    ``diffs`` are the distances of their queue offsets from ``start_offset``; without them, as from older brokers, the
    offsets are consecutive. Bit i of ``bit_map`` is set if the i-th of the ``count`` messages is acked.
    ``re_put_times`` is the number of the broker's failed attempts to make the messages visible again. Times are
    milliseconds.
    """

    bit_map: _BitMap = 0
    broker_name: str
    group: str
    diffs: list[Int32] = msgspec.field(default_factory=list)
    invisible_ms: Int64
    count: Int32
    pop_time: Int64
    queue_id: Int32
    revive_offset: Int64 = 0
    re_put_times: str | UnsetType = UNSET
    start_offset: Int64
    topic: str

    @property
    def key(self) -> CkKey:
        return CkKey(self.topic, self.group, self.queue_id, self.start_offset, self.pop_time, self.broker_name)

    @property
    def offsets(self) -> list[int]:
        """Queue offsets of the messages."""
        start = self.start_offset
        if self._is_run:
            return list(range(start, start + self.count))
        return [start + diff for diff in self.diffs]

    @property
    def _is_run(self) -> bool:
        """True if the messages have consecutive offsets from ``start_offset`` on; ``diffs`` ascend."""
        diffs = self.diffs
        return not diffs or (diffs[-1] == self.count - 1 and len(diffs) == self.count)

    def bits_of(self, offsets: Iterable[int]) -> int:
        """Return a bit mask of the messages with these queue offsets; offsets of other messages are ignored."""
        start = self.start_offset
        end = start + self.count
        bits = 0
        if self._is_run:
            if isinstance(offsets, range) and offsets.step == 1:
                low, high = max(offsets.start, start), min(offsets.stop, end)
                return (1 << high - start) - (1 << low - start) if low < high else 0
            for offset in offsets:
                if start <= offset < end:
                    bits |= 1 << offset - start
        else:
            diffs = self.diffs
            for offset in offsets:
                if offset - start in diffs:
                    bits |= 1 << diffs.index(offset - start)
        return bits

    @property
    def is_new(self) -> bool:
        """True if nothing has happened since the pop, and ``diffs`` has each message."""
        is_first = not self.bit_map and not self.revive_offset and self.re_put_times is UNSET
        return is_first and len(self.diffs) == self.count

    @property
    def is_done(self) -> bool:
        """True if every message is acked."""
        return self.bit_map.bit_count() >= self.count

    @property
    def revive_time(self) -> int:
        """Time at which unacked messages become visible again, in milliseconds since the epoch."""
        return self.pop_time + self.invisible_ms

    @property
    def tries(self) -> int:
        """Number of the broker's failed attempts to make the messages visible again."""
        text = self.re_put_times
        if isinstance(text, UnsetType):
            return 0
        return int(text) if text.isdecimal() else _TRIES_UNREADABLE

    @property
    def unique_key(self) -> str:
        """Unique key of the message that carries the check-point."""
        place = f"{self.topic}@{self.queue_id}@{self.start_offset}"
        return f"{place}@{self.group}@{self.pop_time}@{self.broker_name}@{CK_TAG}"

    def encode(self) -> bytes:
        """Encode as Java does: compact, members sorted."""
        return _encode(self)


class AckRecord(Body, kw_only=True, rename={
    "offset": "ao", "broker_name": "bn", "group": "c", "pop_time": "pt", "queue_id": "q", "start_offset": "so",
    "topic": "t",
}):  # fmt: skip
    """The ack of one message of a check-point; ``offset`` is the queue offset of the message."""

    offset: Int64
    broker_name: str = ""
    group: str
    pop_time: Int64
    queue_id: Int32
    start_offset: Int64
    topic: str

    @property
    def offsets(self) -> list[int]:
        """Queue offsets of the acked messages."""
        return [self.offset]

    @property
    def unique_key(self) -> str:
        """Unique key of the message that carries the ack."""
        place = f"{self.topic}@{self.queue_id}@{self.offset}"
        return f"{place}@{self.group}@{self.pop_time}@{self.broker_name}@{ACK_TAG}"

    def key(self, broker_name: str) -> CkKey:
        """Return the key of the check-point to which the ack belongs.

        :param broker_name: name of this broker, for acks of old brokers, which leave it out.
        """
        name = self.broker_name or broker_name
        return CkKey(self.topic, self.group, self.queue_id, self.start_offset, self.pop_time, name)

    def encode(self) -> bytes:
        """Encode as Java does: compact, members sorted."""
        return _encode(self)


class BatchAckRecord(AckRecord, kw_only=True, rename={
    "offset": "ao", "offset_list": "aol", "broker_name": "bn", "group": "c", "pop_time": "pt", "queue_id": "q",
    "start_offset": "so", "topic": "t",
}):  # fmt: skip
    """The ack of several messages of a check-point."""

    offset: Int64 = -1
    offset_list: list[Int64]

    @classmethod
    def of(cls, one: AckRecord, offsets: list[int]) -> Self:
        """Build the ack of several messages.

        :param one: the ack of a message of the same pop, for the other fields.
        :param offsets: queue offsets of the acked messages.
        """
        return cls(
            offset_list=offsets, broker_name=one.broker_name, group=one.group, pop_time=one.pop_time,
            queue_id=one.queue_id, start_offset=one.start_offset, topic=one.topic,
        )  # fmt: skip

    @property
    def offsets(self) -> list[int]:
        """Queue offsets of the acked messages."""
        return self.offset_list


def decode_revive(tag: str, body: bytes) -> CheckPoint | AckRecord | None:
    """Decode the body of a message of the revive topic by its tag; return None for an unknown tag.

    :raises BadHeader: the body is malformed.
    """
    cls = _CLASSES.get(tag)
    return None if cls is None else cls.decode(body)


_CLASSES: dict[str, type[CheckPoint | AckRecord]] = {
    CK_TAG: CheckPoint,
    ACK_TAG: AckRecord,
    BATCH_ACK_TAG: BatchAckRecord,
}
