"""Requests about timed messages: recalls, and the state that slaves fetch."""

from __future__ import annotations

from rocketmq_py.broker.timer.recall import RecallService
from rocketmq_py.broker.timer.timers import Timers
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.send import RecallMessageResponse
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.wire.fastjson import dumps_java


class TimerHandlers:
    """Handlers of the request codes 60, 61 and 370."""

    def __init__(self, timers: Timers, recalls: RecallService, region: str) -> None:
        self._timers, self._recalls = timers, recalls
        self._ext = {"MSG_REGION": region}

    @handles(Code.RECALL_MESSAGE, lane="send")
    def recall(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Cancel a timed message that is not delivered yet; the answer has its unique key."""
        del body
        try:
            key = self._recalls.recall(request.header, peer.host)
        except BrokerError as e:
            return Reply(e.code, e.remark, ext=self._ext)
        return Reply(header=RecallMessageResponse(msg_id=key), ext=self._ext)

    @handles(Code.GET_TIMER_CHECK_POINT)
    def checkpoint(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the timer checkpoint, as the bytes of its file."""
        del peer, request, body
        found = self._timers.checkpoint()
        if found is None:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, "The checkpoint is null")
        return Reply(header=self._timers.checkpoint_extension(), body=found)

    @handles(Code.GET_TIMER_METRICS)
    def metrics(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the number of undelivered timed messages of each topic."""
        del peer, request, body
        if not self._timers.is_enabled:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, "The timer message store is null")
        return Reply(body=dumps_java(self._timers.metrics.tree()))
