"""Requests that read messages of a queue."""

from __future__ import annotations

from rocketmq_py.broker.pull.pull import PullService
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply, handles


class PullHandlers:
    """11 and 361."""

    def __init__(self, puller: PullService) -> None:
        self._pull = puller.pull

    @handles(Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, lane="pull")
    def pull(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Messages from an offset on; held while there are none, when the client allows it."""
        del body
        return self._pull(peer, request)
