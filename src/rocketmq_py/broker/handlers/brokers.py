# ruff: noqa: ARG002 - every handler is called with the same three arguments
"""What name servers and other brokers tell this broker."""

from __future__ import annotations

from rocketmq_py.broker.cluster.membership import Membership
from rocketmq_py.broker.ha.replication import Replication
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.cluster import ResetMasterFlushOffset
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.wire.fastjson import dumps_java


class BrokerHandlers:
    """905 to 908.

    :param membership: hears who has the smallest id of this broker's name.
    """

    def __init__(self, replication: Replication, membership: Membership) -> None:
        self._replication = replication
        self._membership = membership

    @handles(Code.NOTIFY_MIN_BROKER_ID_CHANGE)
    def min_broker_id(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Another broker of this name has the smallest id now."""
        self._membership.notified(request.header)
        return Reply()

    @handles(Code.EXCHANGE_BROKER_HA_INFO)
    def exchange_ha_info(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """A broker of the same name asks where the log of the master is fetched, or tells it."""
        return Reply(header=self._replication.exchange(request.header))

    @handles(Code.GET_BROKER_HA_STATUS)
    def ha_status(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """How replication is doing."""
        return Reply(body=dumps_java(self._replication.status()))

    @handles(Code.RESET_MASTER_FLUSH_OFFSET)
    def reset_master_flush_offset(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Tells a slave how far its master has flushed; a master takes no notice."""
        header: ResetMasterFlushOffset = request.header
        self._replication.master_flushed(header.master_flush_offset)
        return Reply()
