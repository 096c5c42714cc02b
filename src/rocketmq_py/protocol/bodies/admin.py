"""The JSON bodies of administrators' requests about progress and extent, keyed by message queue.

fastjson writes a queue that is a key as an object; reading turns it into the object's compact text
(:mod:`rocketmq_py.wire.fastjson`), which becomes a :class:`~rocketmq_py.model.MessageQueue` here.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

import msgspec

from rocketmq_py.errors import BadHeader
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.protocol.bodies.client import MessageQueueBody

V = TypeVar("V")


class TopicOffset(Body, kw_only=True):
    """The extent of one queue. ``last_update_timestamp`` is when its newest message was stored, 0 without one."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class OffsetWrapper(Body, kw_only=True):
    """How far a group has come in one queue.

    ``broker_offset`` is the queue's end, ``consumer_offset`` the committed offset (0 where there is none),
    ``last_timestamp`` when the last consumed message was stored, 0 if that is not known.
    """

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_timestamp: int = 0

    @property
    def lag(self) -> int:
        """How many messages the group has not committed yet; those that are deleted already included."""
        return max(0, self.broker_offset - self.consumer_offset)


class _Tables(Body, kw_only=True):
    """A body with an ``offsetTable``."""

    offset_table: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """As :meth:`Body.decode`; a broker with nothing to tell may send no body at all."""
        return cls.decode(data) if data else cls()

    def _by_queue(self, kind: type[V]) -> dict[MessageQueue, V]:
        return {queue_of_key(key): _convert(value, kind) for key, value in self.offset_table.items()}


class TopicStatsTable(_Tables, kw_only=True):
    """The extent of a topic's queues on one broker (202)."""

    topic_put_tps: float = 0.0

    def queues(self) -> dict[MessageQueue, TopicOffset]:
        """The extent of each queue."""
        return self._by_queue(TopicOffset)


class ConsumeStatsTable(_Tables, kw_only=True):
    """How far a group has come on one broker (208)."""

    consume_tps: float = 0.0

    def queues(self) -> dict[MessageQueue, OffsetWrapper]:
        """How far it has come in each queue."""
        return self._by_queue(OffsetWrapper)


class ResetOffsetTable(_Tables, kw_only=True):
    """Where a group was set to (222)."""

    def queues(self) -> dict[MessageQueue, int]:
        """The new offset of each queue."""
        return self._by_queue(int)


def queue_of_key(key: str) -> MessageQueue:
    """The queue that is the key of a member.

    :raises BadHeader: it is none.
    """
    try:
        found = msgspec.json.decode(key, type=MessageQueueBody, strict=False)
    except (msgspec.ValidationError, msgspec.DecodeError) as e:
        raise BadHeader(f"{key!r} is no message queue: {e}") from e
    return MessageQueue(found.topic, found.broker_name, found.queue_id)


def _convert(value: Any, kind: type[V]) -> V:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as e:
        raise BadHeader(f"{kind.__name__}: {e}") from e


class SlaveConnection(Body, kw_only=True):
    """A slave as its master sees it.

    ``addr`` is the slave's end of the connection, ``slave_ack_offset`` how much of the log it has, ``diff`` how many
    bytes it lacks, ``in_sync`` whether that is few enough to count (``haMaxGapNotInSync``).
    """

    addr: str = ""
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


class SlaveRuntime(Body, kw_only=True):
    """How a slave fetches its master's log. ``max_offset`` is where its own log ends, ``last_read_timestamp`` when it
    last heard of its master.
    """

    master_addr: str | None = None
    max_offset: int = 0
    last_read_timestamp: int = 0
    transferred_byte_in_second: int = 0


class HaStatus(Body, kw_only=True):
    """How the replication of a broker is doing: of a master its slaves, of a slave its own part."""

    master: bool = True
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[SlaveConnection] = msgspec.field(default_factory=list)
    ha_client_runtime_info: SlaveRuntime = msgspec.field(default_factory=SlaveRuntime)
