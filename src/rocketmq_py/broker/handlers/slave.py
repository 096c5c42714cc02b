"""What a slave refuses: messages. Producers and consumers that send one back turn to another broker then."""

from __future__ import annotations

from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.server.failures import rejected


class SlaveSendHandlers:
    """10, 310, 320 and 36 of a slave."""

    @handles(Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.CONSUMER_SEND_MSG_BACK, lane="send")
    def refuse(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Refuse as busy, in Java's words."""
        del peer, request, body
        return rejected()
