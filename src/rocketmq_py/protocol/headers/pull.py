"""Headers of requests that read messages: by pull, by commit log offset and by key."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader
from rocketmq_py.wire.integers import Int32, Int64


class PullMessage(TopicHeader, kw_only=True):
    """Pulls messages of a queue (request codes 11, 361).

    ``bulk`` is an extension of this project that Apache RocketMQ's brokers ignore: with True, the broker may return up
    to ``max_msg_nums`` messages, within its limits in bytes, instead of 32.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None
    bulk: bool | None = None


class PullResponse(Header, kw_only=True):
    """Result of a pull; the records are in the body.

    ``damaged`` is an extension of this project that other clients ignore: the queue offsets, separated by commas, of
    messages that the broker left out because its stored copy is damaged.
    """

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None
    damaged: str | None = None


class ViewMessage(TopicHeader, kw_only=True):
    """Reads one message by its commit log offset (request code 33)."""

    offset: Int64
    topic: str | None = None


class QueryMessage(TopicHeader, kw_only=True, rename={
    "bname": "bname", "ns": "ns", "nsd": "nsd", "topic": "topic", "key": "key", "max_num": "maxNum",
    "begin_timestamp": "beginTimestamp", "end_timestamp": "endTimestamp", "unique_key_query": "_UNIQUE_KEY_QUERY",
    "index_type": "indexType", "last_key": "lastKey",
}):  # fmt: skip
    """Queries messages by key (request code 12)."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: bool | None = None
    index_type: str | None = None
    last_key: str | None = None


class QueryMessageResponse(Header, kw_only=True):
    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64
