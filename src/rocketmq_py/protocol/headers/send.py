"""Headers of sends, of failed messages that consumers send back, of replies and of recalls."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader
from rocketmq_py.wire.integers import Int32, Int64


class SendMessage(TopicHeader, kw_only=True):
    """Sends a message or a reply (request codes 10, 324)."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None


class SendMessageV2(Header, kw_only=True, rename={
    "producer_group": "a", "topic": "b", "default_topic": "c", "default_topic_queue_nums": "d", "queue_id": "e",
    "sys_flag": "f", "born_timestamp": "g", "flag": "h", "properties": "i", "reconsume_times": "j", "unit_mode": "k",
    "max_reconsume_times": "l", "batch": "m", "bname": "n",
}):  # fmt: skip
    """Sends a message, a batch or a reply; :class:`SendMessage` with one-letter names (request codes 310, 320, 325)."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None
    bname: str | None = None


class SendResponse(Header, kw_only=True, rename={
    "msg_id": "msgId", "queue_id": "queueId", "queue_offset": "queueOffset", "transaction_id": "transactionId",
    "batch_uniq_id": "batchUniqId", "recall_handle": "recallHandle", "msg_region": "MSG_REGION", "trace_on": "TRACE_ON",
}):  # fmt: skip
    """Where a sent message was stored; ``msg_id`` is the broker's message id (a comma-separated list for a batch)."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = None
    trace_on: str | None = None


class ConsumerSendMsgBack(TopicHeader, kw_only=True):
    """Sends back a message that a consumer failed to consume (request code 36); ``offset`` is its commit log offset."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None


class PushReplyMessage(TopicHeader, kw_only=True):
    """Pushes a reply message from the broker to the client that waits for it (request code 326).

    Hosts are ``ip:port``, with IPv6 addresses without brackets.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    born_host: str
    store_host: str
    store_timestamp: Int64
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None


class RecallMessage(TopicHeader, kw_only=True):
    """Recalls a delayed message (request code 370); ``recall_handle`` is from the response to its send."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallMessageResponse(Header, kw_only=True):
    """Result of a recall: ``msg_id`` is the unique key of the recalled message."""

    msg_id: str
