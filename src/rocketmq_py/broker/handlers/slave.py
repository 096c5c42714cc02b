"""What a slave refuses: messages. Producers and consumers that send one back turn to another broker then."""

from __future__ import annotations

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.server.requests.failures import rejected


class SlaveSendHandlers:
    """10, 310, 320, 300320 and 36 of a slave; one that may act for its master refuses with other codes, as Java's."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    @handles(Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_HALF_MESSAGES, lane="send")
    def refuse(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """A slave's log is its master's."""
        del peer, request, body
        return self._refused(ResponseCode.SERVICE_NOT_AVAILABLE, "is a slave: messages are sent to masters")

    @handles(Code.CONSUMER_SEND_MSG_BACK, lane="send")
    def refuse_back(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """There is no master here that would store the message again."""
        del peer, request, body
        return self._refused(ResponseCode.SYSTEM_ERROR, "is a slave: no master is here that takes a message back")

    def _refused(self, code: ResponseCode, why: str) -> Reply:
        config = self._config
        if not config.enable_slave_acting_master:
            return rejected()
        return Reply(code, f"broker {config.broker_name} (id {config.broker_id}) {why}")
