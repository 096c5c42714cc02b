"""The header of a reply on its last way, from a broker to the client that made the request."""

from __future__ import annotations

from rocketmq_py.protocol.headers.common import TopicHeader


class PushReplyMessage(TopicHeader, kw_only=True):
    """A reply for a client that waits for it (326); hosts are ``ip:port``, IPv6 without brackets."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    born_host: str
    store_host: str
    store_timestamp: int
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool | None = None
