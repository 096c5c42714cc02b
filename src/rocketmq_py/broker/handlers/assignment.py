"""Requests about who gets which queues, and how groups ask for messages."""

from __future__ import annotations

from rocketmq_py.broker.cluster.assignment import QueueAssignments
from rocketmq_py.broker.metadata.request_modes import RequestModes
from rocketmq_py.protocol.bodies.pop import MessageRequestMode, QueryAssignmentRequest
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles


class AssignmentHandlers:
    """400, 401, 402."""

    def __init__(self, assignments: QueueAssignments, modes: RequestModes) -> None:
        self._assignments = assignments
        self._modes = modes

    @handles(Code.QUERY_ASSIGNMENT, lane="consumer")
    async def query(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """The queues of a client, and how it is to ask for their messages."""
        del peer, request
        return Reply(body=(await self._assignments.query(QueryAssignmentRequest.decode(body))).encode())

    @handles(Code.SET_MESSAGE_REQUEST_MODE)
    def set_mode(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Let a group pull a topic, or pop it."""
        del peer, request
        self._modes.set(MessageRequestMode.decode(body))
        return Reply()

    @handles(Code.GET_ALL_MESSAGE_REQUEST_MODE)
    def list_modes(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Every mode that was set, as a slave takes them over."""
        del peer, request, body
        return Reply(body=self._modes.modes.encode())
