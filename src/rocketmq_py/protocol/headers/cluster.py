"""Headers of requests between the servers of a cluster: metadata, roles and replication."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader
from rocketmq_py.wire.integers import Int32, Int64


class NotifyMinBrokerIdChange(Header, kw_only=True):
    """A name server notifies the brokers of one broker name which of them has the smallest id now (request code 905).

    ``offline_broker_addr`` is the broker that went offline. It is None if a broker with a smaller id registered; then
    ``ha_broker_addr`` is the new broker's replication address.
    """

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class AllTopics(Header, kw_only=True):
    """A slave asks its master for a page of topics, or for all topics if the fields are None (request code 21).

    :ivar topic_seq: index of the first topic, in the order of names.
    :ivar max_topic_num: maximum number of topics.
    :ivar data_version: data version of the earlier pages as JSON; if the master's has changed, it returns the first
        page again.
    """

    topic_seq: Int32 | None = None
    max_topic_num: Int32 | None = None
    data_version: str | None = None


class AllGroups(Header, kw_only=True):
    """A slave asks its master for consumer groups, by page as with :class:`AllTopics` (request code 201)."""

    group_seq: Int32 | None = None
    max_group_num: Int32 | None = None
    data_version: str | None = None


class AllTopicsResponse(Header, kw_only=True):
    """Total number of topics; absent from brokers before 5.3.3, which return all topics in one response."""

    total_topic_num: Int32 | None = None


class AllGroupsResponse(Header, kw_only=True):
    """Total number of consumer groups."""

    total_group_num: Int32 | None = None


class ExchangeHaInfo(Header, kw_only=True):
    """Addresses of a master and of its HA port (request code 906).

    A master sends them in the request; a slave sends a request without them and gets them in the response.
    ``master_flush_offset`` is the end of the master's commit log at its start.
    """

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class TimerCheckPointResponse(Header, kw_only=True):
    """Delivery progress of a slave that has acted as master, returned with its timer checkpoint (request code 60).

    An extension of this project: Java brokers neither send nor read these fields. Times are milliseconds since the
    epoch.

    :ivar delivered_before: the slave has delivered all timer messages due before this time, except ``waiting``.
    :ivar waiting: queue offsets in the timer topic of messages that it has not delivered, separated by commas.
    :ivar acted_from: time at which the slave began to act as master.
    """

    delivered_before: Int64 | None = None
    waiting: str | None = None
    acted_from: Int64 | None = None


class ResetMasterFlushOffset(TopicHeader, kw_only=True):
    """Tells a slave up to which offset its master has flushed the commit log (request code 908)."""

    master_flush_offset: Int64
