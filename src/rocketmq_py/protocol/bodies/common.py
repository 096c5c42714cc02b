"""The JSON bodies of requests and responses, one declaration each.

Names are those of Apache RocketMQ's body classes in snake_case. Decoding is tolerant of fastjson's dialect; encoding is
strict JSON, which every peer reads, unless a function says otherwise.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from rocketmq_py.errors import BadHeader
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.java_hash import string_hash


class Body(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=False):
    """Base of all bodies; members that are None are left out, as fastjson does."""

    def encode(self) -> bytes:
        """Strict compact JSON with sorted keys."""
        return fastjson.dumps(without_nulls(msgspec.to_builtins(self, str_keys=True)))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The body of JSON in either dialect; unknown members are ignored, null ones take their default.

        :raises BadHeader: it is not JSON or a member is of the wrong kind.
        """
        try:
            return cls.convert(fastjson.loads(data))
        except ValueError as e:
            raise BadHeader(f"body of {len(data)} bytes is no {cls.__name__}: {e}") from e
        except RecursionError as e:
            raise BadHeader(f"body of {len(data)} bytes is no {cls.__name__}: it is nested too deeply") from e

    @classmethod
    def convert(cls, tree: Any) -> Self:
        """The body of an already parsed value."""
        try:
            return msgspec.convert(without_nulls(tree), cls, strict=False)
        except msgspec.ValidationError as e:
            raise BadHeader(f"{cls.__name__}: {e}") from e


def without_nulls(value: Any) -> Any:
    """The value without members that are null, at every depth."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value


class DataVersion(Body, kw_only=True):
    """Which of two states is newer: compared as a whole, bumped on every change."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0

    def bump(self, now_ms: int) -> DataVersion:
        return DataVersion(counter=self.counter + 1, state_version=self.state_version, timestamp=now_ms)


# -- heartbeat


class SubscriptionData(Body, kw_only=True):
    """What one topic subscription asks for. ``sub_version`` is the time it was made."""

    topic: str
    sub_string: str = "*"
    tags_set: list[str] = []
    code_set: list[int] = []
    sub_version: int = 0
    expression_type: str = "TAG"
    class_filter_mode: bool = False

    @staticmethod
    def parse(topic: str, expression: str | None, sub_version: int, expression_type: str = "TAG") -> SubscriptionData:
        """The subscription of an expression; tags are separated by ``||`` (FilterAPI.buildSubscriptionData).

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


# -- routes


class QueueData(Body, kw_only=True):
    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0


class BrokerData(Body, kw_only=True):
    """One broker name: addresses by broker id, 0 being the master."""

    cluster: str = ""
    broker_name: str
    broker_addrs: dict[int, str] = {}
    zone_name: str | None = None
    enable_acting_master: bool = False


class TopicRouteData(Body, kw_only=True):
    """Where the queues of a topic are."""

    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    topic_queue_mapping_by_broker: dict[str, Any] | None = None


class ClusterInfo(Body, kw_only=True):
    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class BrokerMemberGroupData(Body, kw_only=True):
    cluster: str
    broker_name: str
    broker_addrs: dict[int, str] = {}


class TopicList(Body, kw_only=True):
    topic_list: list[str] = []
    broker_addr: str | None = None


class GroupList(Body, kw_only=True):
    group_list: list[str] = []


class KvTable(Body, kw_only=True):
    table: dict[str, str] = {}


# -- topics and groups


class TopicConfig(Body, kw_only=True):
    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}


class TopicConfigList(Body, kw_only=True):
    """Topics to create or change in one go (18)."""

    topic_config_list: list[TopicConfig] = []


class TopicConfigTable(Body, kw_only=True):
    """All topics of a broker (TopicConfigAndMappingSerializeWrapper); also the layout of topics.json."""

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    topic_queue_mapping_detail_map: dict[str, Any] | None = None
    topic_queue_mapping_info_map: dict[str, Any] | None = None
    mapping_data_version: DataVersion | None = None


class RegisterBrokerBody(Body, kw_only=True):
    topic_config_serialize_wrapper: TopicConfigTable = msgspec.field(default_factory=TopicConfigTable)
    filter_server_list: list[str] = []


class GroupRetryPolicy(Body, kw_only=True):
    type: str = "CUSTOMIZED"
    customized_retry_policy: Any = None
    exponential_retry_policy: Any = None


class SubscriptionGroupConfig(Body, kw_only=True):
    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: GroupRetryPolicy = msgspec.field(default_factory=GroupRetryPolicy)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[Any] | None = None
    attributes: dict[str, str] = {}


class SubscriptionGroupList(Body, kw_only=True):
    """Groups to create or change in one go (225)."""

    group_config_list: list[SubscriptionGroupConfig] = []


class SubscriptionGroupTable(Body, kw_only=True):
    """All consumer groups of a broker; also the layout of subscriptionGroup.json."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    forbidden_table: dict[str, dict[str, int]] = {}
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)


# -- clients


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


class CheckClientConfig(Body, kw_only=True):
    client_id: str
    group: str
    subscription_data: SubscriptionData
    namespace: str | None = None
