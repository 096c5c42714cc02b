"""The headers of what servers of a cluster tell each other."""

from __future__ import annotations

from rocketmq_py.protocol.header import Header


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
