"""The headers of requests between clients, brokers and name servers, and of their responses.

Names are those of Apache RocketMQ's header classes in snake_case; only exceptions are spelled out. Which code takes
which header is tabled in ``requests``.
"""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header


class TopicHeader(Header, kw_only=True):
    """Fields 5.x clients add to requests about a topic; brokers outside static topics ignore them."""

    bname: str | None = None
    ns: str | None = None
    nsd: bool | None = None


# -- sending


class SendMessage(TopicHeader, kw_only=True):
    """A message to store (codes 10, 324)."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: int | None = None


class SendMessageV2(Header, kw_only=True, rename={
    "producer_group": "a", "topic": "b", "default_topic": "c", "default_topic_queue_nums": "d", "queue_id": "e",
    "sys_flag": "f", "born_timestamp": "g", "flag": "h", "properties": "i", "reconsume_times": "j", "unit_mode": "k",
    "max_reconsume_times": "l", "batch": "m", "bname": "n",
}):  # fmt: skip
    """:class:`SendMessage` with one-letter names (codes 310, 320, 325)."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool | None = None
    max_reconsume_times: int | None = None
    batch: bool | None = None
    bname: str | None = None


class SendResponse(Header, kw_only=True, rename={
    "msg_id": "msgId", "queue_id": "queueId", "queue_offset": "queueOffset", "transaction_id": "transactionId",
    "batch_uniq_id": "batchUniqId", "recall_handle": "recallHandle", "msg_region": "MSG_REGION", "trace_on": "TRACE_ON",
}):  # fmt: skip
    """Where a message went; ``msg_id`` is the offset id (a comma list for a batch)."""

    msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = None
    trace_on: str | None = None


class ConsumerSendMsgBack(TopicHeader, kw_only=True):
    """A message a consumer failed on (36); ``offset`` is its commit log offset."""

    offset: int
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: int | None = None


class EndTransaction(TopicHeader, kw_only=True):
    """The end of a transaction (37): 0 unknown, 8 commit, 12 rollback."""

    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: int
    msg_id: str
    topic: str | None = None
    from_transaction_check: bool = False
    transaction_id: str | None = None


class EndTransactions(TopicHeader, kw_only=True):
    """The end of many transactions of one outcome (300037); the body says where their half messages are.

    The answer's body has a byte for each, 1 where it has ended. With ``in_order`` the first that cannot be ended is the
    last that is tried.
    """

    producer_group: str
    commit_or_rollback: int
    in_order: bool = False
    topic: str | None = None


class CheckTransactionState(TopicHeader, kw_only=True):
    """A broker asks a producer for the state of a transaction (39)."""

    tran_state_table_offset: int
    commit_log_offset: int
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessage(TopicHeader, kw_only=True):
    """A half message that was given up is to be asked about again (323); ``msg_id`` is its offset id."""

    topic: str | None = None
    msg_id: str | None = None


# -- pulling and offsets


class PullMessage(TopicHeader, kw_only=True):
    """A pull (codes 11, 361).

    ``bulk`` is an addition of this project, which Apache RocketMQ's brokers ignore: the broker may answer with as many
    messages as are asked for, within its limits of bytes, and not with 32.
    """

    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_msg_nums: int
    sys_flag: int
    commit_offset: int
    suspend_timeout_millis: int
    sub_version: int
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: int | None = None
    request_source: int | None = None
    proxy_froward_client_id: str | None = None
    bulk: bool | None = None


class PullResponse(Header, kw_only=True):
    """What a pull found, beside the records in the body."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
    forbidden_type: int | None = None


class QueryConsumerOffset(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffset(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: int


class SearchOffset(TopicHeader, kw_only=True):
    topic: str
    queue_id: int
    timestamp: int
    boundary_type: str | None = None


class GetMaxOffset(TopicHeader, kw_only=True):
    topic: str
    queue_id: int
    committed: bool | None = None


class QueueHeader(TopicHeader, kw_only=True):
    """A queue of a topic (codes 31, 32)."""

    topic: str
    queue_id: int


class OffsetResponse(Header, kw_only=True):
    offset: int


class TimestampResponse(Header, kw_only=True):
    timestamp: int


class ViewMessage(TopicHeader, kw_only=True):
    """One message by its commit log offset (33)."""

    offset: int
    topic: str | None = None


class QueryMessage(TopicHeader, kw_only=True, rename={
    "bname": "bname", "ns": "ns", "nsd": "nsd", "topic": "topic", "key": "key", "max_num": "maxNum",
    "begin_timestamp": "beginTimestamp", "end_timestamp": "endTimestamp", "unique_key_query": "_UNIQUE_KEY_QUERY",
    "index_type": "indexType", "last_key": "lastKey",
}):  # fmt: skip
    """Messages by key (12)."""

    topic: str
    key: str
    max_num: int
    begin_timestamp: int
    end_timestamp: int
    unique_key_query: bool | None = None
    index_type: str | None = None
    last_key: str | None = None


class QueryMessageResponse(Header, kw_only=True):
    index_last_update_timestamp: int
    index_last_update_phyoffset: int


# -- clients and groups


class UnregisterClient(TopicHeader, kw_only=True, rename={
    "bname": "bname", "ns": "ns", "nsd": "nsd", "client_id": "clientID", "producer_group": "producerGroup",
    "consumer_group": "consumerGroup",
}):  # fmt: skip
    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


class GroupHeader(TopicHeader, kw_only=True):
    """A consumer group (codes 38, 40, 203)."""

    consumer_group: str


class ProducerGroupHeader(TopicHeader, kw_only=True):
    producer_group: str


class GetConsumerRunningInfo(TopicHeader, kw_only=True):
    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectly(TopicHeader, kw_only=True):
    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None


class ResetOffset(TopicHeader, kw_only=True):
    topic: str
    group: str
    timestamp: int
    is_force: bool = False
    queue_id: int = -1
    offset: int | None = None


class ConsumerStatus(TopicHeader, kw_only=True):
    topic: str
    group: str
    client_addr: str | None = None


# -- administration of a broker


class CreateTopic(TopicHeader, kw_only=True):
    topic: str
    default_topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_filter_type: str
    order: bool
    topic_sys_flag: int | None = None
    attributes: str | None = None
    force: bool | None = None


class TopicName(TopicHeader, kw_only=True):
    """A topic and nothing else (codes 202, 215, 300, 351)."""

    topic: str


class DeleteGroup(TopicHeader, kw_only=True):
    group_name: str
    clean_offset: bool = False


class GroupName(TopicHeader, kw_only=True):
    group: str


class GetConsumeStats(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class CloneGroupOffset(TopicHeader, kw_only=True):
    """Give one group the offsets of another (314)."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class GroupAndTopic(TopicHeader, kw_only=True):
    """A group and one of its topics (345)."""

    group: str
    topic: str


class GroupForbidden(TopicHeader, kw_only=True):
    """Whether a group may read a topic (353); ``readable`` absent only asks."""

    group: str
    topic: str
    readable: bool | None = None


class VersionResponse(Header, kw_only=True):
    version: str


# -- name server


class GetRouteInfo(TopicHeader, kw_only=True):
    topic: str
    accept_standard_json_only: bool | None = None


class RegisterBroker(TopicHeader, kw_only=True, rename={
    "bname": "bname", "ns": "ns", "nsd": "nsd", "broker_name": "brokerName", "broker_addr": "brokerAddr",
    "cluster_name": "clusterName", "ha_server_addr": "haServerAddr", "broker_id": "brokerId",
    "heartbeat_timeout_millis": "heartbeatTimeoutMillis", "enable_acting_master": "enableActingMaster",
    "compressed": "compressed", "body_crc32": "bodyCrc32", "zone_name": "__ZONE_NAME",
}):  # fmt: skip
    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: int
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: int = 0
    zone_name: str | None = None


class RegisterBrokerResponse(Header, kw_only=True):
    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBroker(TopicHeader, kw_only=True):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


class BrokerHeartbeat(TopicHeader, kw_only=True):
    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: int | None = None
    epoch: int | None = None
    max_offset: int | None = None
    confirm_offset: int | None = None
    heartbeat_timeout_mills: int | None = None
    election_priority: int | None = None


class QueryDataVersion(TopicHeader, kw_only=True):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


class DataVersionResponse(Header, kw_only=True):
    changed: bool


class BrokerMemberGroup(TopicHeader, kw_only=True):
    cluster_name: str
    broker_name: str


class PutKvConfig(TopicHeader, kw_only=True):
    namespace: str
    key: str
    value: str


class KvConfigKey(TopicHeader, kw_only=True):
    namespace: str
    key: str


class KvNamespace(TopicHeader, kw_only=True):
    namespace: str


class KvValueResponse(Header, kw_only=True):
    value: str | None = None


class ClusterName(TopicHeader, kw_only=True):
    cluster: str


class BrokerNameHeader(TopicHeader, kw_only=True):
    broker_name: str


class WipeWritePermResponse(Header, kw_only=True):
    wipe_topic_count: int


class AddWritePermResponse(Header, kw_only=True):
    add_topic_count: int


class DeleteTopicInNamesrv(TopicHeader, kw_only=True):
    topic: str
    cluster_name: str | None = None
