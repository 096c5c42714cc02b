"""Headers of requests that administration tools make: statistics, consume queues, corrections."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader
from rocketmq_py.wire.integers import Int32, Int64


class QueryConsumeTimeSpan(TopicHeader, kw_only=True):
    """Ages of the messages a group consumes of a topic (303)."""

    topic: str
    group: str


class QueryCorrectionOffset(TopicHeader, kw_only=True):
    """The smallest offsets of a topic's groups, without those of ``filter_groups`` (a comma list) (308)."""

    topic: str
    compare_group: str
    filter_groups: str | None = None


class ViewBrokerStats(TopicHeader, kw_only=True):
    """One counter of the broker's statistics (315)."""

    stats_name: str
    stats_key: str


class BrokerConsumeStats(TopicHeader, kw_only=True):
    """Consume progress of all groups (317); ``is_order`` restricts it to groups that consume in order."""

    is_order: bool


class QueryConsumeQueue(TopicHeader, kw_only=True):
    """Entries of a consume queue from ``index`` on (321)."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None


class VersionResponse(Header, kw_only=True):
    version: str
