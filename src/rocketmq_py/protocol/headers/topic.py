"""Headers of requests about topics and their routes."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import TopicHeader
from rocketmq_py.wire.integers import Int32


class CreateTopic(TopicHeader, kw_only=True):
    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    order: bool
    topic_sys_flag: Int32 | None = None
    attributes: str | None = None
    force: bool | None = None


class TopicName(TopicHeader, kw_only=True):
    """A request about a topic, without other fields (request codes 202, 215, 300, 351)."""

    topic: str


class DeleteTopicInNamesrv(TopicHeader, kw_only=True):
    topic: str
    cluster_name: str | None = None


class GetRouteInfo(TopicHeader, kw_only=True):
    topic: str
    accept_standard_json_only: bool | None = None
