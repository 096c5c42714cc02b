"""Requests that store messages: sends, batches, and what a consumer sends back."""

from __future__ import annotations

from rocketmq_py.broker.send.send import SendService
from rocketmq_py.broker.send.send_message_back import SendBackService
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply, handles


class SendHandlers:
    """10, 310, 320, 300320 and 36."""

    def __init__(self, sender: SendService, send_back: SendBackService) -> None:
        self._send = sender.send
        self._send_batch = sender.send_batch
        self._send_halves = sender.send_halves
        self._send_back = send_back

    @handles(Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, lane="send")
    def send(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store one message, or several when the header says that it is a batch."""
        return self._send_batch(peer, request, body) if request.header.batch else self._send(peer, request, body)

    @handles(Code.SEND_BATCH_MESSAGE, lane="send")
    def send_batch(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store a batch; as in Java it is the header that says so, not the code."""
        return self._send_batch(peer, request, body) if request.header.batch else self._send(peer, request, body)

    @handles(Code.SEND_HALF_MESSAGES, lane="send")
    def send_halves(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store the messages of a batch as half messages, all or none."""
        return self._send_halves(peer, request, body)

    @handles(Code.CONSUMER_SEND_MSG_BACK, lane="send")
    def send_back(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Take back a message a consumer failed on."""
        del peer, body
        self._send_back.take(request.header, request.version)
        return Reply()
