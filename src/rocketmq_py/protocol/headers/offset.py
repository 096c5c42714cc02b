"""Headers of requests about the offsets of queues and of consumer groups."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader


class QueryConsumerOffset(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffset(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: int


class SearchOffset(TopicHeader, kw_only=True):
    topic: str
    queue_id: int
    timestamp: int
    boundary_type: str | None = None


class GetMaxOffset(TopicHeader, kw_only=True):
    topic: str
    queue_id: int
    committed: bool | None = None


class QueueHeader(TopicHeader, kw_only=True):
    """A queue of a topic (31, 32)."""

    topic: str
    queue_id: int


class OffsetResponse(Header, kw_only=True):
    offset: int


class TimestampResponse(Header, kw_only=True):
    timestamp: int


class ResetOffset(TopicHeader, kw_only=True):
    topic: str
    group: str
    timestamp: int
    is_force: bool = False
    queue_id: int = -1
    offset: int | None = None


class CloneGroupOffset(TopicHeader, kw_only=True):
    """Copies the offsets of one group to another (314)."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False
