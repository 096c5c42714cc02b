"""Headers of requests that a name server answers: broker registration, KV config, write permissions."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader
from rocketmq_py.wire.integers import Int32, Int64


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
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0
    zone_name: str | None = None


class RegisterBrokerResponse(Header, kw_only=True):
    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBroker(TopicHeader, kw_only=True):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class BrokerHeartbeat(TopicHeader, kw_only=True):
    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class QueryDataVersion(TopicHeader, kw_only=True):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


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
    wipe_topic_count: Int32


class AddWritePermResponse(Header, kw_only=True):
    add_topic_count: Int32
