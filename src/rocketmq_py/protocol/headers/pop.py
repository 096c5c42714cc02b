"""Headers of POP requests and responses, of notifications and of polling.

The request codes need more than 16 bits, so they can be sent in JSON headers only. The formats of ``extra_info``,
``start_offset_info``, ``msg_offset_info`` and ``order_count_info`` are in :mod:`rocketmq_py.protocol.pop_handle`.
"""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader
from rocketmq_py.wire.integers import Int32, Int64

ALL_QUEUES = -1
"""The queue id that stands for all queues of a broker; Java treats any negative number like this."""


class PopMessage(TopicHeader, kw_only=True):
    """Pops messages (request code 200050). Times are milliseconds.

    ``queue_id`` -1 stands for all queues of the broker. ``init_mode`` is an
    :class:`~rocketmq_py.protocol.pop_handle.InitMode`. ``born_time`` is the time at which the client sent the request;
    a broker refuses a request that arrives more than ``poll_time`` plus 500 ms later.
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
    """Result of a pop; the records are in the body. ``rest_num`` is the number of messages left to pop.

    ``damaged`` is an extension of this project that other clients ignore: the messages that the broker left out because
    its stored copy is damaged, in the form of ``msg_offset_info``. They are not popped again.
    """

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None
    damaged: str | None = None


class AckMessage(TopicHeader, kw_only=True):
    """Acks a popped message (request code 200051).

    Topic, queue id and offset are those from which it was popped; the topic may be a retry topic.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64


class ChangeInvisibleTime(TopicHeader, kw_only=True):
    """Sets the invisible time of a popped message, in milliseconds from now (request code 200053)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64


class ChangeInvisibleTimeResponse(Header, kw_only=True):
    """The values for the new handle (``extra_info``) of the message; times are milliseconds."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class PeekMessage(TopicHeader, kw_only=True):
    """Reads messages without popping them (request code 200052)."""

    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: str


class Notification(TopicHeader, kw_only=True):
    """Waits until there are messages to pop, at most ``poll_time`` milliseconds (request code 200054)."""

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
    """Response to a :class:`Notification`: ``has_msg`` is True if there are messages to pop.

    ``polling_full`` is True if the broker did not wait, because too many requests wait already.
    """

    has_msg: bool
    polling_full: bool | None = None


class PollingInfo(TopicHeader, kw_only=True):
    """Asks for the number of pops of a group that wait for messages of a queue (request code 200055)."""

    consumer_group: str
    topic: str
    queue_id: Int32

    def __post_init__(self) -> None:
        self.queue_id = max(ALL_QUEUES, self.queue_id)


class PollingInfoResponse(Header, kw_only=True):
    """The number of waiting pops."""

    polling_num: Int32
