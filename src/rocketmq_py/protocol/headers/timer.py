"""The headers of requests about messages that wait for their time: recalls, and how far delivery has come.

Names are those of Apache RocketMQ's header classes in snake_case.
"""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.common import TopicHeader


class RecallMessage(TopicHeader, kw_only=True):
    """Take back a message that waits for its time (370); ``recall_handle`` came with the answer to its send."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallMessageResponse(Header, kw_only=True):
    """The unique key of the message that was taken back."""

    msg_id: str


class TimerCheckPointResponse(Header, kw_only=True):
    """What a slave of this project that has acted for its master tells besides the bytes of its checkpoint (60).

    A Java broker neither tells nor reads it. Times are milliseconds.

    :ivar delivered_before: slots before are delivered. :ivar waiting: but these messages are not: offsets in the queue
        of the timers' topic, with commas between them. :ivar acted_from: since when it has acted.
    """

    delivered_before: int | None = None
    waiting: str | None = None
    acted_from: int | None = None
