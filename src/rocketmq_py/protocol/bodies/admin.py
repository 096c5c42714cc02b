"""JSON bodies of administration requests about offsets, statistics and replication.

fastjson writes a queue that is a key as an object. Parsing turns it into the object's compact text
(:mod:`rocketmq_py.wire.fastjson`), which becomes a :class:`~rocketmq_py.model.MessageQueue` here.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

import msgspec

from rocketmq_py.errors import BadHeader
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.protocol.bodies.client import MessageQueueBody
from rocketmq_py.wire.integers import Int32, Int64

V = TypeVar("V")


class TopicOffset(Body, kw_only=True):
    """The offsets of one queue. ``last_update_timestamp`` is the store time of its newest message, 0 without one."""

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0


class OffsetWrapper(Body, kw_only=True):
    """The progress of a group in one queue.

    ``broker_offset`` is the queue's max offset, ``consumer_offset`` the committed offset (0 if there is none, -1 in a
    physical queue of a static topic), ``last_timestamp`` the store time of the last consumed message, 0 if unknown.
    """

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    pull_offset: Int64 = 0
    last_timestamp: Int64 = 0

    @property
    def lag(self) -> int:
        """Number of messages that the group has not committed, including deleted ones."""
        return max(0, self.broker_offset - max(0, self.consumer_offset))


class _Tables(Body, kw_only=True):
    """A body with an ``offsetTable``."""

    offset_table: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Decode like :meth:`Body.decode`, but accept an empty body, which some brokers send for an empty table."""
        return cls.decode(data) if data else cls()

    def _by_queue(self, kind: type[V]) -> dict[MessageQueue, V]:
        return {queue_of_key(key): _convert(value, kind) for key, value in self.offset_table.items()}


class TopicStatsTable(_Tables, kw_only=True):
    """The offsets of a topic's queues on one broker (202)."""

    topic_put_tps: float = 0.0

    def queues(self) -> dict[MessageQueue, TopicOffset]:
        """Return the offsets of each queue."""
        return self._by_queue(TopicOffset)


class ConsumeStatsTable(_Tables, kw_only=True):
    """The progress of a group on one broker (208)."""

    consume_tps: float = 0.0

    def queues(self) -> dict[MessageQueue, OffsetWrapper]:
        """Return the group's progress in each queue."""
        return self._by_queue(OffsetWrapper)


class ResetOffsetTable(_Tables, kw_only=True):
    """The offsets a group was reset to (222)."""

    def queues(self) -> dict[MessageQueue, int]:
        """Return the new offset of each queue."""
        return self._by_queue(int)


def queue_of_key(key: str) -> MessageQueue:
    """Parse a key of a JSON object that is itself a message queue, as in Java's maps from ``MessageQueue``.

    :raises BadHeader: the key is not a message queue.
    """
    try:
        found = msgspec.json.decode(key, type=MessageQueueBody, strict=False)
    except (msgspec.ValidationError, msgspec.DecodeError) as e:
        raise BadHeader(f"{key!r} is not a message queue: {e}") from e
    return MessageQueue(found.topic, found.broker_name, found.queue_id)


def _convert(value: Any, kind: type[V]) -> V:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as e:
        raise BadHeader(f"{kind.__name__}: {e}") from e


class SlaveConnection(Body, kw_only=True):
    """A slave as seen by its master.

    ``addr`` is the slave's end of the connection, ``slave_ack_offset`` its acknowledged log offset, ``diff`` how many
    bytes it is behind, ``in_sync`` whether that is less than ``haMaxGapNotInSync``.
    """

    addr: str = ""
    slave_ack_offset: Int64 = 0
    diff: Int64 = 0
    in_sync: bool = False
    transferred_byte_in_second: Int64 = 0
    transfer_from_where: Int64 = 0


class SlaveRuntime(Body, kw_only=True):
    """The replication of a slave. ``max_offset`` is its log end, ``last_read_timestamp`` the time of the last data from
    the master.
    """

    master_addr: str | None = None
    max_offset: Int64 = 0
    last_read_timestamp: Int64 = 0
    transferred_byte_in_second: Int64 = 0


class HaStatus(Body, kw_only=True):
    """Replication status of a broker: for a master its slaves, for a slave its own connection."""

    master: bool = True
    master_commit_log_max_offset: Int64 = 0
    in_sync_slave_nums: Int32 = 0
    ha_connection_info: list[SlaveConnection] = msgspec.field(default_factory=list)
    ha_client_runtime_info: SlaveRuntime = msgspec.field(default_factory=SlaveRuntime)
