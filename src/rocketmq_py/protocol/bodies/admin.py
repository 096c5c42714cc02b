"""JSON bodies of administration requests about offsets, statistics and replication.

In Java's maps, keys may be message queues, which fastjson writes as objects. The parser converts such a key to its JSON
text (:mod:`rocketmq_py.wire.fastjson`), and the methods here convert that to a
:class:`~rocketmq_py.model.MessageQueue`.
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
    """The offsets of one queue. ``last_update_timestamp`` is the store time of its newest message in milliseconds, 0 if
    it has none.
    """

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0


class OffsetWrapper(Body, kw_only=True):
    """The progress of a group in one queue.

    ``broker_offset`` is the queue's max offset, ``consumer_offset`` the committed offset (0 if there is none, -1 in a
    physical queue of a static topic), ``last_timestamp`` the store time of the last consumed message in milliseconds, 0
    if it is not known.
    """

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    pull_offset: Int64 = 0
    last_timestamp: Int64 = 0

    @property
    def lag(self) -> int:
        """Number of messages from the committed offset to the end of the queue, including deleted ones."""
        return max(0, self.broker_offset - max(0, self.consumer_offset))


class _Tables(Body, kw_only=True):
    """Base of bodies with an ``offsetTable``, a map with message queues as keys."""

    offset_table: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Decode like :meth:`Body.decode`; an empty body, which some brokers send, is an empty table."""
        return cls.decode(data) if data else cls()

    def _by_queue(self, kind: type[V], known: dict[str, MessageQueue] | None = None) -> dict[MessageQueue, V]:
        """Return the table by queue.

        :param known: queues by key, which were parsed before; gets those of this table.
        """
        known = {} if known is None else known
        found: dict[MessageQueue, V] = {}
        for key, value in self.offset_table.items():
            queue = known.get(key)
            if queue is None:
                queue = known[key] = queue_of_key(key)
            found[queue] = _convert(value, kind)
        return found


class TopicStatsTable(_Tables, kw_only=True):
    """The offsets of a topic's queues on one broker (request code 202)."""

    topic_put_tps: float = 0.0

    def queues(self) -> dict[MessageQueue, TopicOffset]:
        """Return the offsets of each queue."""
        return self._by_queue(TopicOffset)


class ConsumeStatsTable(_Tables, kw_only=True):
    """The progress of a group on one broker (request code 208)."""

    consume_tps: float = 0.0

    def queues(self, known: dict[str, MessageQueue] | None = None) -> dict[MessageQueue, OffsetWrapper]:
        """Return the group's progress in each queue.

        :param known: queues by key, which were parsed before; gets those of this table.
        """
        return self._by_queue(OffsetWrapper, known)


class ResetOffsetTable(_Tables, kw_only=True):
    """The offsets to which a group was reset (request code 222)."""

    def queues(self) -> dict[MessageQueue, int]:
        """Return the new offset of each queue."""
        return self._by_queue(int)


def queue_of_key(key: str) -> MessageQueue:
    """Parse the key of a JSON object that contains a message queue as JSON text.

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
    """The connection of a slave, as its master reports it.

    ``addr`` is the slave's address, ``slave_ack_offset`` the commit log offset that it has acknowledged, ``diff`` the
    number of bytes it lags behind; ``in_sync`` is True if that is less than ``haMaxGapNotInSync``.
    """

    addr: str = ""
    slave_ack_offset: Int64 = 0
    diff: Int64 = 0
    in_sync: bool = False
    transferred_byte_in_second: Int64 = 0
    transfer_from_where: Int64 = 0


class SlaveRuntime(Body, kw_only=True):
    """The state of replication, as a slave reports it. ``max_offset`` is the end of its commit log,
    ``last_read_timestamp`` the time in milliseconds at which it last received data from the master.
    """

    master_addr: str | None = None
    max_offset: Int64 = 0
    last_read_timestamp: Int64 = 0
    transferred_byte_in_second: Int64 = 0


class HaStatus(Body, kw_only=True):
    """Replication status of a broker: a master reports its slaves, a slave its connection to the master."""

    master: bool = True
    master_commit_log_max_offset: Int64 = 0
    in_sync_slave_nums: Int32 = 0
    ha_connection_info: list[SlaveConnection] = msgspec.field(default_factory=list)
    ha_client_runtime_info: SlaveRuntime = msgspec.field(default_factory=SlaveRuntime)
