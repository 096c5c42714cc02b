# ruff: noqa: ARG002 - every handler is called with the same three arguments
"""What name servers and other brokers tell this broker."""

from __future__ import annotations

import logging

from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers_cluster import NotifyMinBrokerIdChange
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles

_log = logging.getLogger(__name__)


class BrokerHandlers:
    """The news of a cluster."""

    @handles(Code.NOTIFY_MIN_BROKER_ID_CHANGE)
    def min_broker_id(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Nothing follows from it, as in Java where no slave may act as master."""
        header: NotifyMinBrokerIdChange = request.header
        _log.info("id %s at %s is the smallest of this broker name now", header.min_broker_id, header.min_broker_addr)
        return Reply()
