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
"""The number of tries that Java assumes for one it cannot parse."""

_BitMap = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=2**32 - 1)]
"""32 bits, which Java writes as a signed number."""


def revive_topic(cluster: str) -> str:
    """Return the revive topic of a cluster's brokers, for check-points and acks."""
    return f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}"


class CkKey(NamedTuple):
    """Identifies one pop of one queue."""

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
    """The messages one pop took from one queue.

    ``diffs`` are the distances of their offsets from ``start_offset`` (older brokers leave them out: then the offsets
    are consecutive); a bit of ``bit_map`` is set where a message is acked. ``re_put_times`` counts the broker's failed
    attempts to make the messages visible again.
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
        """Offsets of the messages in their queue."""
        start = self.start_offset
        return [start + diff for diff in self.diffs or range(self.count)]

    def bits_of(self, offsets: Iterable[int]) -> int:
        """Return the bits of the messages at these offsets; other offsets are ignored."""
        start, diffs = self.start_offset, self.diffs
        end = start + self.count
        bits = 0
        if not diffs or diffs[-1] == self.count - 1:  # one after the other
            for offset in offsets:
                if start <= offset < end:
                    bits |= 1 << offset - start
        else:
            for offset in offsets:
                if offset - start in diffs:
                    bits |= 1 << diffs.index(offset - start)
        return bits

    @property
    def is_done(self) -> bool:
        """True if every message is acked."""
        return self.bit_map.bit_count() >= self.count

    @property
    def revive_time(self) -> int:
        """Time in milliseconds at which unacked messages become visible again."""
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
        return _unique_key(self.topic, self.queue_id, self.start_offset, self.group, self.pop_time, self.broker_name,
                           CK_TAG)  # fmt: skip

    def encode(self) -> bytes:
        """Encode as Java does: compact, members sorted."""
        return _encode(self)


class AckRecord(Body, kw_only=True, rename={
    "offset": "ao", "broker_name": "bn", "group": "c", "pop_time": "pt", "queue_id": "q", "start_offset": "so",
    "topic": "t",
}):  # fmt: skip
    """The ack of one message of a check-point; ``offset`` is the message's."""

    offset: Int64
    broker_name: str = ""
    group: str
    pop_time: Int64
    queue_id: Int32
    start_offset: Int64
    topic: str

    @property
    def offsets(self) -> list[int]:
        """Offsets of the acked messages."""
        return [self.offset]

    @property
    def unique_key(self) -> str:
        """Unique key of the message that carries the ack."""
        return _unique_key(self.topic, self.queue_id, self.offset, self.group, self.pop_time, self.broker_name, ACK_TAG)

    def key(self, broker_name: str) -> CkKey:
        """Return the key of its check-point.

        :param broker_name: of this broker, for acks of old brokers, which leave the name out.
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
        """Return the ack of several messages of the pop that ``one`` belongs to."""
        return cls(
            offset_list=offsets, broker_name=one.broker_name, group=one.group, pop_time=one.pop_time,
            queue_id=one.queue_id, start_offset=one.start_offset, topic=one.topic,
        )  # fmt: skip

    @property
    def offsets(self) -> list[int]:
        """Offsets of the acked messages."""
        return self.offset_list


def _unique_key(*words: str | int) -> str:
    return "@".join(map(str, words))


def decode_revive(tag: str, body: bytes) -> CheckPoint | AckRecord | None:
    """Decode a message of the revive topic; None for an unknown tag.

    :raises BadHeader: the body does not fit the tag.
    """
    cls = _CLASSES.get(tag)
    return None if cls is None else cls.decode(body)


_CLASSES: dict[str, type[CheckPoint | AckRecord]] = {
    CK_TAG: CheckPoint,
    ACK_TAG: AckRecord,
    BATCH_ACK_TAG: BatchAckRecord,
}
