"""Headers of requests between the servers of a cluster: metadata, roles and replication."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import Header, TopicHeader


class NotifyMinBrokerIdChange(Header, kw_only=True):
    """A name server tells the brokers of one name which of them has the smallest id now (905).

    ``offline_broker_addr`` is the one that has gone; None when one with a smaller id has come instead, whose
    replication address is ``ha_broker_addr`` then.
    """

    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class AllTopics(Header, kw_only=True):
    """A slave asks for the topics of its master (21), some at a time; without these fields for all at once.

    :ivar topic_seq: from which of them on, by name. :ivar data_version: the version those before were of, as JSON: of
        another version the first are told again.
    """

    topic_seq: int | None = None
    max_topic_num: int | None = None
    data_version: str | None = None


class AllGroups(Header, kw_only=True):
    """The same for groups (201)."""

    group_seq: int | None = None
    max_group_num: int | None = None
    data_version: str | None = None


class AllTopicsResponse(Header, kw_only=True):
    """How many topics there are; nothing from brokers before 5.3.3, which tell of all at once."""

    total_topic_num: int | None = None


class AllGroupsResponse(Header, kw_only=True):
    """The same for groups."""

    total_group_num: int | None = None


class ExchangeHaInfo(Header, kw_only=True):
    """Where a master is, and where its log is fetched (906): told by the request, or by the answer to one without.

    ``master_flush_offset`` is where its log ended when it was started.
    """

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


class TimerCheckPointResponse(Header, kw_only=True):
    """What a slave of this project that has acted for its master tells besides the bytes of its checkpoint (60).

    A Java broker neither tells nor reads it. Times are milliseconds.

    :ivar delivered_before: slots before are delivered. :ivar waiting: but these messages are not: offsets in the queue
        of the timers' topic, with commas between them. :ivar acted_from: since when it has acted.
    """

    delivered_before: int | None = None
    waiting: str | None = None
    acted_from: int | None = None


class ResetMasterFlushOffset(TopicHeader, kw_only=True):
    """How far a master has flushed, told to a slave (908)."""

    master_flush_offset: int
