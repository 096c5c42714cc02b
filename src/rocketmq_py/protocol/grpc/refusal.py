"""The refusal of a call: a code and a text for the status of its response."""

from __future__ import annotations

from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.grpc.definition import Status
from rocketmq_py.protocol.grpc.enums import Code


class CallRefused(RocketMQError):
    """A call of gRPC that is not carried out.

    :ivar code: why, as a number for the client.
    :ivar text: why, as a text for people.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    def status(self) -> Status:
        """Return the status of the response."""
        return Status(code=self.code, message=self.text)


OK = Status(code=Code.OK, message="OK")
