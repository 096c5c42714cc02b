"""Requests about messages: sends, batches, send-backs, pulls, replies, commits and rollbacks of transactions."""

from __future__ import annotations

from typing import Protocol

from rocketmq_py.accelerator import SendRun
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.record_permissions import MOST_ENDS
from rocketmq_py.broker.send.reply_messages import ReplyService
from rocketmq_py.broker.send.send_message_back import SendBackService
from rocketmq_py.broker.transaction.transactions import Transactions
from rocketmq_py.errors import BrokerError, CorruptRecord
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.half_messages import decode_half_positions
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply, RunReply, handles, handles_runs
from rocketmq_py.server.requests.failures import rejected
from rocketmq_py.wire.command import ONEWAY_FLAG


class Sender(Protocol):
    """Stores messages; see :class:`~rocketmq_py.broker.send.send.SendService`."""

    def send(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold: ...
    def send_batch(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold: ...
    def send_halves(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold: ...
    def send_run(self, peer: Peer, run: SendRun, begin: int) -> RunReply | None: ...


class Puller(Protocol):
    """Answers pulls; see :class:`~rocketmq_py.broker.pull.pull.PullService`."""

    def pull(self, peer: Peer, request: Request, *, may_hold: bool = True) -> Reply | Hold: ...


class SendHandlers:
    """Handlers of the request codes 10, 36, 310, 320 and 300320."""

    def __init__(self, sender: Sender, send_back: SendBackService) -> None:
        self._send = sender.send
        self._send_batch = sender.send_batch
        self._send_halves = sender.send_halves
        self._send_run = sender.send_run
        self._send_back = send_back

    @handles(Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, lane="send")
    def send(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store one message, or a batch if the header says so."""
        return self._send_batch(peer, request, body) if request.header.batch else self._send(peer, request, body)

    @handles_runs(Code.SEND_MESSAGE_V2)
    def send_run(self, peer: Peer, run: SendRun, begin: int) -> RunReply | None:
        """Store the sends of a run from index ``begin`` on, up to the first that must be handled by :meth:`send`.

        Returns None, without storing anything, if that is already the send at ``begin``.
        """
        return self._send_run(peer, run, begin)

    @handles(Code.SEND_BATCH_MESSAGE, lane="send")
    def send_batch(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store a batch, or one message if the header says so; as in Java the header decides, not the code."""
        return self._send_batch(peer, request, body) if request.header.batch else self._send(peer, request, body)

    @handles(Code.SEND_HALF_MESSAGES, lane="send")
    def send_halves(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store the messages of a batch as half messages, all or none."""
        return self._send_halves(peer, request, body)

    @handles(Code.CONSUMER_SEND_MSG_BACK, lane="send")
    def send_back(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store a message that a consumer failed to process again, for a retry or as a dead letter."""
        del peer, body
        return self._send_back.take(request.header, request.version)


class SlaveSendHandlers:
    """Handlers of the request codes 10, 36, 310, 320 and 300320 of a slave, which refuse.

    With ``enableSlaveActingMaster`` the response codes are others, as in Java.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    @handles(Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_HALF_MESSAGES, lane="send")
    def refuse(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Refuse a send: the log of a slave has only what its master stored."""
        del peer, request, body
        return self._refused(ResponseCode.SERVICE_NOT_AVAILABLE, "is a slave: messages are sent to masters")

    @handles(Code.CONSUMER_SEND_MSG_BACK, lane="send")
    def refuse_back(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Refuse a send-back: there is no master here that could store the message."""
        del peer, request, body
        return self._refused(ResponseCode.SYSTEM_ERROR, "is a slave: no master is here that takes a message back")

    def _refused(self, code: ResponseCode, why: str) -> Reply:
        config = self._config
        if not config.enable_slave_acting_master:
            return rejected()
        return Reply(code, f"broker {config.broker_name} (id {config.broker_id}) {why}")


class PullHandlers:
    """Handlers of the request codes 11 and 361."""

    def __init__(self, pull_service: Puller) -> None:
        self._pull = pull_service.pull

    @handles(Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, lane="pull")
    def pull(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return messages from an offset on; held while there are none, if the client allows it."""
        del body
        return self._pull(peer, request)


class ReplyHandlers:
    """Handlers of the request codes 324 and 325."""

    def __init__(self, replies: ReplyService) -> None:
        self._replies = replies

    @handles(Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2, lane="reply")
    async def reply(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Push a reply to the requesting client, and store it."""
        return await self._replies.take(peer, request.header, body)


class TransactionHandlers:
    """Handlers of the request codes 37, 323 and 300037."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @handles(Code.END_TRANSACTION, lane="transaction")
    def end(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold | None:
        """Commit or roll back a transaction; no answer to a oneway request, or if the producer sent UNKNOWN."""
        del body
        if request.flag & ONEWAY_FLAG:
            self._transactions.end_oneway(request.header, peer.address)
            return None
        return self._transactions.end_when_loaded(request.header, peer.address)

    @handles(Code.END_TRANSACTIONS, lane="transaction")
    async def end_all(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Commit or roll back many transactions, at most ``MOST_ENDS`` (2048)."""
        try:
            places, offsets = decode_half_positions(body)
        except CorruptRecord as e:
            raise BrokerError.of(ResponseCode.INVALID_PARAMETER, str(e)) from e
        if len(places) > MOST_ENDS:
            remark = (
                f"{len(places)} transactions are too many for one request: at most {MOST_ENDS} can be ended at once"
            )
            raise BrokerError.of(ResponseCode.INVALID_PARAMETER, remark)
        return Reply(body=await self._transactions.end_all_when_loaded(request.header, places, offsets, peer.address))

    @handles(Code.RESUME_CHECK_HALF_MESSAGE)
    def resume(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Resume the transaction checks of a half message after the broker gave them up."""
        del peer, body
        self._transactions.resume(request.header.msg_id or "")
        return Reply()
