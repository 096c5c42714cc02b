"""Headers of requests that read messages: pulls, views by offset and queries by key."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader


class PullMessage(TopicHeader, kw_only=True):
    """A pull (11, 361).

    ``bulk`` is an extension of this project that Apache RocketMQ's brokers ignore: the broker may return as many
    messages as the request asks for, within its limits in bytes, instead of 32.
    """

    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_msg_nums: int
    sys_flag: int
    commit_offset: int
    suspend_timeout_millis: int
    sub_version: int
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: int | None = None
    request_source: int | None = None
    proxy_froward_client_id: str | None = None
    bulk: bool | None = None


class PullResponse(Header, kw_only=True):
    """Result of a pull, besides the records in the body."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
    forbidden_type: int | None = None


class ViewMessage(TopicHeader, kw_only=True):
    """Reads one message by its commit log offset (33)."""

    offset: int
    topic: str | None = None


class QueryMessage(TopicHeader, kw_only=True, rename={
    "bname": "bname", "ns": "ns", "nsd": "nsd", "topic": "topic", "key": "key", "max_num": "maxNum",
    "begin_timestamp": "beginTimestamp", "end_timestamp": "endTimestamp", "unique_key_query": "_UNIQUE_KEY_QUERY",
    "index_type": "indexType", "last_key": "lastKey",
}):  # fmt: skip
    """Queries messages by key (12)."""

    topic: str
    key: str
    max_num: int
    begin_timestamp: int
    end_timestamp: int
    unique_key_query: bool | None = None
    index_type: str | None = None
    last_key: str | None = None


class QueryMessageResponse(Header, kw_only=True):
    index_last_update_timestamp: int
    index_last_update_phyoffset: int
