"""Headers of requests of administration tools: statistics, consume queues, corrected offsets."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader
from rocketmq_py.wire.integers import Int32, Int64


class QueryConsumeTimeSpan(TopicHeader, kw_only=True):
    """Asks for the store times of the oldest, newest and last consumed message of each queue (request code 303)."""

    topic: str
    group: str


class QueryCorrectionOffset(TopicHeader, kw_only=True):
    """Asks for the smallest offset of all groups in each queue of a topic (request code 308).

    :ivar filter_groups: groups to leave out, separated by commas.
    """

    topic: str
    compare_group: str
    filter_groups: str | None = None


class ViewBrokerStats(TopicHeader, kw_only=True):
    """Asks for the values of one counter of the broker's statistics (request code 315)."""

    stats_name: str
    stats_key: str


class BrokerConsumeStats(TopicHeader, kw_only=True):
    """Asks for the consume progress of all groups (request code 317).

    :ivar is_order: True selects only groups that consume in order.
    """

    is_order: bool


class QueryConsumeQueue(TopicHeader, kw_only=True):
    """Asks for ``count`` entries of a consume queue, from offset ``index`` on (request code 321)."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None


class ListHeldRequests(Header, kw_only=True):
    """Asks for the pulls, pops and notifications that a broker holds (request code 300100, of this project only).

    :ivar topic: only those that wait for messages of this topic.
    :ivar consumer_group: only those of this group.
    """

    topic: str | None = None
    consumer_group: str | None = None


class VersionResponse(Header, kw_only=True):
    version: str
