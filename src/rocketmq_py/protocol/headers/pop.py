"""Headers of POP requests and responses, of notification and of polling.

The codes need more than 16 bits, so they travel in JSON headers only. ``extra_info``, ``start_offset_info`` and the
like are texts in the formats of :mod:`rocketmq_py.protocol.pop_handle`.
"""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader
from rocketmq_py.wire.integers import Int32, Int64

ALL_QUEUES = -1
"""The queue id that stands for every queue of a broker; Java reads any negative number so."""


class PopMessage(TopicHeader, kw_only=True):
    """A pop (200050). ``queue_id`` -1 is any queue; times are in milliseconds; ``init_mode`` is an ``InitMode``.

    ``born_time`` is when the client sent the request; a broker that receives it later than ``poll_time`` plus 500 ms
    refuses it.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    init_mode: Int32
    born_time: Int64 = 0
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None

    def __post_init__(self) -> None:
        self.queue_id = max(ALL_QUEUES, self.queue_id)


class PopResponse(Header, kw_only=True):
    """Result of a pop, besides the records in the body; ``rest_num`` is the number of messages left."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessage(TopicHeader, kw_only=True):
    """The ack of a popped message (200051). Topic, queue and offset are those it was popped from, possibly a retry
    topic.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64


class ChangeInvisibleTime(TopicHeader, kw_only=True):
    """Sets the invisible time of a popped message (200053), counted from now in milliseconds."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64


class ChangeInvisibleTimeResponse(Header, kw_only=True):
    """Parts of the message's new extra info."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class PeekMessage(TopicHeader, kw_only=True):
    """Reads messages without popping them (200052)."""

    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: str


class Notification(TopicHeader, kw_only=True):
    """Waits until there are messages to pop (200054)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64 = 0
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None

    def __post_init__(self) -> None:
        self.queue_id = max(ALL_QUEUES, self.queue_id)


class NotificationResponse(Header, kw_only=True):
    """Result of a notification. ``polling_full``: the broker did not wait because too many requests wait."""

    has_msg: bool
    polling_full: bool | None = None


class PollingInfo(TopicHeader, kw_only=True):
    """Number of pops of a group that wait at a queue (200055)."""

    consumer_group: str
    topic: str
    queue_id: Int32

    def __post_init__(self) -> None:
        self.queue_id = max(ALL_QUEUES, self.queue_id)


class PollingInfoResponse(Header, kw_only=True):
    """The number of waiting pops."""

    polling_num: Int32
