"""The headers of a recall: a message that waits for its time is taken back.

Names are those of Apache RocketMQ's header classes in snake_case.
"""

from __future__ import annotations

from rocketmq_py.protocol.header import Header
from rocketmq_py.protocol.headers import TopicHeader


class RecallMessage(TopicHeader, kw_only=True):
    """Take back a message that waits for its time (370); ``recall_handle`` came with the answer to its send."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallMessageResponse(Header, kw_only=True):
    """The unique key of the message that was taken back."""

    msg_id: str
