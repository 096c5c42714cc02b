"""Requests that bring replies, to be passed on to the clients that wait for them."""

from __future__ import annotations

from rocketmq_py.broker.send.reply_messages import ReplyService
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply, handles


class ReplyHandlers:
    """324 and 325."""

    def __init__(self, replying: ReplyService) -> None:
        self._replying = replying

    @handles(Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2, lane="reply")
    async def reply(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Pass a reply on to the client that waits for it, and store it."""
        return await self._replying.take(peer, request.header, body)
