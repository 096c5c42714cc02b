"""Headers of requests between the servers of a cluster: metadata, roles and replication."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader
from rocketmq_py.wire.integers import Int32, Int64


class NotifyMinBrokerIdChange(Header, kw_only=True):
    """A name server reports to the brokers of one broker name which of them has the smallest id now (905).

    ``offline_broker_addr`` is the broker that went offline. It is None if a broker with a smaller id registered; then
    ``ha_broker_addr`` is the new broker's replication address.
    """

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class AllTopics(Header, kw_only=True):
    """A slave asks its master for topics (21): a page of them, or all without these fields.

    :ivar topic_seq: index of the first topic, by name. :ivar data_version: JSON of the data version of earlier pages;
        if it has changed, the master starts again with the first page.
    """

    topic_seq: Int32 | None = None
    max_topic_num: Int32 | None = None
    data_version: str | None = None


class AllGroups(Header, kw_only=True):
    """A slave asks its master for consumer groups (201), by page like :class:`AllTopics`."""

    group_seq: Int32 | None = None
    max_group_num: Int32 | None = None
    data_version: str | None = None


class AllTopicsResponse(Header, kw_only=True):
    """Total number of topics; absent from brokers before 5.3.3, which return all topics at once."""

    total_topic_num: Int32 | None = None


class AllGroupsResponse(Header, kw_only=True):
    """Total number of consumer groups."""

    total_group_num: Int32 | None = None


class ExchangeHaInfo(Header, kw_only=True):
    """Addresses of a master and of its log replication (906), in the request, or in the response to a request without
    them.

    ``master_flush_offset`` is the log end of the master at its start.
    """

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class TimerCheckPointResponse(Header, kw_only=True):
    """Delivery progress that a slave of this project returns with its timer checkpoint (60), if it has acted as master.

    Java brokers neither send nor read these fields. Times are milliseconds.

    :ivar delivered_before: messages of slots before this time are delivered. :ivar waiting: except these: queue offsets
        in the timer topic, separated by commas. :ivar acted_from: when the slave began to act as master.
    """

    delivered_before: Int64 | None = None
    waiting: str | None = None
    acted_from: Int64 | None = None


class ResetMasterFlushOffset(TopicHeader, kw_only=True):
    """The flushed offset of a master, sent to a slave (908)."""

    master_flush_offset: Int64
