"""Requests of POP consumers."""

from __future__ import annotations

from collections.abc import Callable

from rocketmq_py.broker.body_limits import checked
from rocketmq_py.broker.pop.long_polling import NO_MESSAGES
from rocketmq_py.broker.pop.services import PopServices
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.pop import BatchAckRequest
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.pop import ChangeInvisibleTimeResponse, NotificationResponse, PollingInfoResponse
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply, handles


class PopHandlers:
    """Handlers of the request codes 200050 to 200055 and 200151."""

    def __init__(self, pop: PopServices) -> None:
        self._pop_service = pop.pop_service
        self._acks = pop.acks
        self._peek_service = pop.peek_service

    @handles(Code.POP_MESSAGE, lane="pull")
    def pop(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return messages and make them invisible to the group for a while; held while there are none."""
        del body
        try:  # as _answered, without a function for each pop
            return self._pop_service.pop(peer, request)
        except BrokerError as e:
            return Reply(e.code, e.remark, NO_MESSAGES)

    @handles(Code.ACK_MESSAGE, lane="ack")
    def ack(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Acknowledge a popped message."""
        del body
        return self._acks.ack(peer, request.header)

    @handles(Code.BATCH_ACK_MESSAGE, lane="ack")
    def ack_batch(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Acknowledge several popped messages."""
        return self._acks.ack_batch(
            peer, BatchAckRequest.decode(checked(request.code, body)) if body else BatchAckRequest()
        )

    @handles(Code.CHANGE_MESSAGE_INVISIBLETIME, lane="ack")
    def change_invisible(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Change how long a popped message stays invisible."""
        del body
        nothing = ChangeInvisibleTimeResponse(pop_time=0, invisible_time=0, revive_qid=0)
        return _answered(nothing, lambda: self._acks.change_invisible(peer, request.header))

    @handles(Code.PEEK_MESSAGE, lane="pull")
    def peek(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return the next messages without popping them."""
        del body
        return _answered(NO_MESSAGES, lambda: self._peek_service.peek(peer, request.header))

    @handles(Code.NOTIFICATION, lane="pull")
    def notify(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return whether there are messages to pop; held while there are none."""
        del body
        nothing = NotificationResponse(has_msg=False, polling_full=False)
        return _answered(nothing, lambda: self._peek_service.notify(peer, request))

    @handles(Code.POLLING_INFO, lane="pull")
    def polling_info(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return the number of pops on hold."""
        del body
        return _answered(
            PollingInfoResponse(polling_num=0), lambda: self._peek_service.polling_info(peer, request.header)
        )


def _answered(nothing: Header, answer: Callable[[], Reply | Hold]) -> Reply | Hold:
    """Return the result of ``answer()``; if it raises BrokerError, a reply with the error's code and remark.

    :param nothing: the header of that reply, whose fields are empty or 0, as in Java.
    """
    try:
        return answer()
    except BrokerError as e:
        return Reply(e.code, e.remark, nothing)
