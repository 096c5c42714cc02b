"""Headers of requests about the offsets of queues and of consumer groups."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader
from rocketmq_py.wire.integers import Int32, Int64


class QueryConsumerOffset(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffset(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffset(TopicHeader, kw_only=True):
    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None


class GetMaxOffset(TopicHeader, kw_only=True):
    """Asks for the offset that the next message of a queue will get (request code 30).

    ``bounds`` is an extension of this project that Apache RocketMQ's brokers ignore: with True, the broker also returns
    the offset of the oldest message.
    """

    topic: str
    queue_id: Int32
    committed: bool | None = None
    bounds: bool | None = None


class QueueHeader(TopicHeader, kw_only=True):
    """A request about a queue of a topic, without other fields (request codes 31, 32)."""

    topic: str
    queue_id: Int32


class OffsetResponse(Header, kw_only=True):
    offset: Int64


class MaxOffsetResponse(OffsetResponse, kw_only=True):
    """``min_offset`` is the offset of the oldest message, if the request asked for it and the broker knows that."""

    min_offset: Int64 | None = None


class TimestampResponse(Header, kw_only=True):
    timestamp: Int64


class ResetOffset(TopicHeader, kw_only=True):
    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False
    queue_id: Int32 = -1
    offset: Int64 | None = None


class CloneGroupOffset(TopicHeader, kw_only=True):
    """Copies the offsets of one group to another (request code 314)."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False
