"""JSON bodies that describe clients: heartbeats, subscriptions, connections and queue locks."""

from __future__ import annotations

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.wire.java_hash import string_hash


class SubscriptionData(Body, kw_only=True):
    """The subscription of a consumer group to one topic. ``sub_version`` is its creation time in milliseconds."""

    topic: str
    sub_string: str = "*"
    tags_set: list[str] = []
    code_set: list[int] = []
    sub_version: int = 0
    expression_type: str = "TAG"
    class_filter_mode: bool = False

    @staticmethod
    def parse(topic: str, expression: str | None, sub_version: int, expression_type: str = "TAG") -> SubscriptionData:
        """Build the subscription of an expression; tags are separated by ``||`` (FilterAPI.buildSubscriptionData).

        :raises BadHeader: the expression consists of separators only.
        """
        text = expression if expression and expression.strip() else "*"
        tags: list[str] = []
        if expression_type == "TAG" and text != "*":
            tags = [tag.strip() for tag in text.split("||") if tag.strip()]
            if not tags:
                raise BadHeader(f"the tag expression {text!r} names no tag; write 'a || b', or '*' for all")
        return SubscriptionData(
            topic=topic, sub_string=text, tags_set=tags, code_set=[string_hash(tag) for tag in tags],
            sub_version=sub_version, expression_type=expression_type,
        )  # fmt: skip


class ConsumerData(Body, kw_only=True):
    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class ProducerData(Body, kw_only=True):
    group_name: str


class HeartbeatData(Body, kw_only=True, rename={
    "client_id": "clientID", "producer_data_set": "producerDataSet", "consumer_data_set": "consumerDataSet",
    "heartbeat_fingerprint": "heartbeatFingerprint", "without_sub": "withoutSub",
}):  # fmt: skip
    client_id: str
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


class CheckClientConfig(Body, kw_only=True):
    client_id: str
    group: str
    subscription_data: SubscriptionData
    namespace: str | None = None


class MessageQueueBody(Body, kw_only=True):
    topic: str
    broker_name: str
    queue_id: int


class LockBatchRequest(Body, kw_only=True):
    consumer_group: str | None = None
    client_id: str | None = None
    only_this_broker: bool = False
    mq_set: list[MessageQueueBody] = []


class LockBatchResponse(Body, kw_only=True, rename={"lock_ok_mq_set": "lockOKMQSet"}):
    lock_ok_mq_set: list[MessageQueueBody] = []


class ConsumerIdList(Body, kw_only=True):
    consumer_id_list: list[str] = []


class ConnectionInfo(Body, kw_only=True):
    client_id: str
    client_addr: str
    language: str = "OTHER"
    version: int = 0


class ConsumerConnection(Body, kw_only=True):
    connection_set: list[ConnectionInfo] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


class ProducerConnection(Body, kw_only=True):
    connection_set: list[ConnectionInfo] = []
