"""What a broker writes down of pops: check-points and acks, the bodies of messages in its revive topic.

Knows their JSON and their names (PopCheckPoint, AckMsg, BatchAckMsg, PopAckConstants). Refuses to know when something
is written and what follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

import msgspec
from msgspec import UNSET, UnsetType

from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.protocol.names import SYSTEM_GROUP_PREFIX, SYSTEM_TOPIC_PREFIX

REVIVE_GROUP = f"{SYSTEM_GROUP_PREFIX}REVIVE_GROUP"
CK_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"

_encode = msgspec.json.Encoder(order="sorted").encode
_TRIES_UNREADABLE = 127
"""What Java makes of a number of tries that is none."""


def revive_topic(cluster: str) -> str:
    """The topic the brokers of a cluster write check-points and acks to."""
    return f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}"


class CkKey(NamedTuple):
    """What tells one pop of one queue from all others."""

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
    """Messages one pop took from one queue.

    ``diffs`` are the distances of their offsets from ``start_offset`` (older brokers leave them out: then they follow
    each other); a bit of ``bit_map`` is set where a message is acked. ``re_put_times``: how often the broker failed to
    bring the messages back.
    """

    bit_map: int = 0
    broker_name: str
    group: str
    diffs: list[int] = msgspec.field(default_factory=list)
    invisible_ms: int
    count: int
    pop_time: int
    queue_id: int
    revive_offset: int = 0
    re_put_times: str | UnsetType = UNSET
    start_offset: int
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
        """The bits of the messages at these offsets; an offset that is none of these has none."""
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
        """Whether every message is acked."""
        return self.bit_map.bit_count() >= self.count

    @property
    def revive_time(self) -> int:
        """When what is not acked becomes visible again."""
        return self.pop_time + self.invisible_ms

    @property
    def tries(self) -> int:
        """How often a broker failed to bring the messages back."""
        text = self.re_put_times
        if isinstance(text, UnsetType):
            return 0
        return int(text) if text.isdecimal() else _TRIES_UNREADABLE

    @property
    def unique_key(self) -> str:
        """The unique key of the message that carries it."""
        return _unique_key(self.topic, self.queue_id, self.start_offset, self.group, self.pop_time, self.broker_name,
                           CK_TAG)  # fmt: skip

    def encode(self) -> bytes:
        """The body as Java writes it: compact, members sorted."""
        return _encode(self)


class AckRecord(Body, kw_only=True, rename={
    "offset": "ao", "broker_name": "bn", "group": "c", "pop_time": "pt", "queue_id": "q", "start_offset": "so",
    "topic": "t",
}):  # fmt: skip
    """One message of a check-point is done; ``offset`` is that of the message."""

    offset: int
    broker_name: str = ""
    group: str
    pop_time: int
    queue_id: int
    start_offset: int
    topic: str

    @property
    def offsets(self) -> list[int]:
        """Offsets of the messages that are done."""
        return [self.offset]

    @property
    def unique_key(self) -> str:
        """The unique key of the message that carries it."""
        return _unique_key(self.topic, self.queue_id, self.offset, self.group, self.pop_time, self.broker_name, ACK_TAG)

    def key(self, broker_name: str) -> CkKey:
        """Which check-point it belongs to.

        :param broker_name: of this broker: old ones do not write theirs.
        """
        name = self.broker_name or broker_name
        return CkKey(self.topic, self.group, self.queue_id, self.start_offset, self.pop_time, name)

    def encode(self) -> bytes:
        """The body as Java writes it: compact, members sorted."""
        return _encode(self)


class BatchAckRecord(AckRecord, kw_only=True, rename={
    "offset": "ao", "offset_list": "aol", "broker_name": "bn", "group": "c", "pop_time": "pt", "queue_id": "q",
    "start_offset": "so", "topic": "t",
}):  # fmt: skip
    """Several messages of a check-point are done."""

    offset: int = -1
    offset_list: list[int]

    @classmethod
    def of(cls, one: AckRecord, offsets: list[int]) -> Self:
        """The record of several messages of the pop that ``one`` is of."""
        return cls(
            offset_list=offsets, broker_name=one.broker_name, group=one.group, pop_time=one.pop_time,
            queue_id=one.queue_id, start_offset=one.start_offset, topic=one.topic,
        )  # fmt: skip

    @property
    def offsets(self) -> list[int]:
        """Offsets of the messages that are done."""
        return self.offset_list


def _unique_key(*words: str | int) -> str:
    return "@".join(map(str, words))


def decode_revive(tag: str, body: bytes) -> CheckPoint | AckRecord | None:
    """What a message of the revive topic holds; None for a tag that is none of ours.

    :raises BadHeader: the body is not what the tag says.
    """
    cls = _CLASSES.get(tag)
    return None if cls is None else cls.decode(body)


_CLASSES: dict[str, type[CheckPoint | AckRecord]] = {
    CK_TAG: CheckPoint,
    ACK_TAG: AckRecord,
    BATCH_ACK_TAG: BatchAckRecord,
}
