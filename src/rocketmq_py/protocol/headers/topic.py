"""Headers of requests about topics and their routes."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import TopicHeader


class CreateTopic(TopicHeader, kw_only=True):
    topic: str
    default_topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_filter_type: str
    order: bool
    topic_sys_flag: int | None = None
    attributes: str | None = None
    force: bool | None = None


class TopicName(TopicHeader, kw_only=True):
    """A topic and no other field (202, 215, 300, 351)."""

    topic: str


class DeleteTopicInNamesrv(TopicHeader, kw_only=True):
    topic: str
    cluster_name: str | None = None


class GetRouteInfo(TopicHeader, kw_only=True):
    topic: str
    accept_standard_json_only: bool | None = None
