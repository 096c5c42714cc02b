"""The headers of POP requests and of their responses, and of notification and polling.

Names are those of Apache RocketMQ's header classes in snake_case. The codes are beyond 16 bit: they travel in JSON
headers only. What the texts in ``extra_info``, ``start_offset_info`` and their like hold is told by
:mod:`rocketmq_py.protocol.pop_handle`.
"""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader


class PopMessage(TopicHeader, kw_only=True):
    """A pop (200050). ``queue_id`` -1 is any queue; times are in milliseconds; ``init_mode`` see ``InitMode``.

    ``born_time`` is when the client asked; a broker that gets it later than ``poll_time`` plus 500 ms refuses.
    """

    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int
    invisible_time: int
    poll_time: int
    init_mode: int
    born_time: int = 0
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PopResponse(Header, kw_only=True):
    """What was popped, beside the records in the body; ``rest_num`` is how many messages are left."""

    pop_time: int
    invisible_time: int
    revive_qid: int
    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessage(TopicHeader, kw_only=True):
    """A message is done (200051). Topic, queue and offset are those it was popped from: maybe a retry topic."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int


class ChangeInvisibleTime(TopicHeader, kw_only=True):
    """A message popped there stays invisible for another while (200053), counted from now in milliseconds."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int
    invisible_time: int


class ChangeInvisibleTimeResponse(Header, kw_only=True):
    """What the message's extra info is made of from now on."""

    pop_time: int
    invisible_time: int
    revive_qid: int


class PeekMessage(TopicHeader, kw_only=True):
    """Look at messages without popping them (200052)."""

    topic: str
    queue_id: int
    max_msg_nums: int
    consumer_group: str


class Notification(TopicHeader, kw_only=True):
    """Tell me when there is something to pop (200054)."""

    consumer_group: str
    topic: str
    queue_id: int
    poll_time: int
    born_time: int = 0
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class NotificationResponse(Header, kw_only=True):
    """``polling_full``: the broker could not wait, too many wait already."""

    has_msg: bool
    polling_full: bool | None = None


class PollingInfo(TopicHeader, kw_only=True):
    """How many pops wait at a queue for a group (200055)."""

    consumer_group: str
    topic: str
    queue_id: int


class PollingInfoResponse(Header, kw_only=True):
    """How many wait."""

    polling_num: int
