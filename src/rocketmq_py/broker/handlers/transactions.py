"""Requests about transactions: their end, and a half message that is to be asked about again."""

from __future__ import annotations

from rocketmq_py.broker.transaction.transactions import Transactions
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.half_messages import decode_half_positions
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.wire.command import ONEWAY_FLAG


class TransactionHandlers:
    """37, 300037 and 323."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @handles(Code.END_TRANSACTION, lane="transaction")
    def end(self, peer: Peer, request: Request, body: bytes) -> Reply | None:
        """Commit or roll back; a producer that does not know yet gets no answer."""
        del body
        if request.flag & ONEWAY_FLAG:
            self._transactions.end_soon(request.header, peer.address)
            return None
        return Reply() if self._transactions.end(request.header, peer.address) else None

    @handles(Code.END_TRANSACTIONS, lane="transaction")
    def end_all(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Commit or roll back many."""
        places, offsets = decode_half_positions(body)
        return Reply(body=self._transactions.end_all(request.header, places, offsets, peer.address))

    @handles(Code.RESUME_CHECK_HALF_MESSAGE)
    def resume(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Ask about a half message again that was given up."""
        del peer, body
        self._transactions.resume(request.header.msg_id or "")
        return Reply()
