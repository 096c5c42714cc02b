"""Calls of one method that came with one read: they are handled together when the read ends."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from rocketmq_py.server.grpc.call import Call
from rocketmq_py.wire.grpc import GrpcStatus

_log = logging.getLogger(__name__)

_LARGEST = 64 * 1024
"""Larger requests are handled alone: what is handled together is copied once more."""
_MOST = 128
"""Requests that are handled together; if all need special treatment, that takes some ten milliseconds."""

Waiting = tuple[Call, bytes]


class CallsOfRead(ABC):
    """Collects the calls of a read, and handles them when it ends.

    :param alone: handles one request.
    :param what: the calls, in the plural, for the log.
    """

    def __init__(self, alone: Callable[[Call, bytes], None], what: str) -> None:
        self._alone = alone
        self._what = what
        self._waiting: list[Waiting] = []

    def add(self, call: Call, data: bytes) -> None:
        """Take a request, which is handled before the end of its read."""
        if len(data) > _LARGEST or not call.metadata.get(b"x-mq-client-id", b"").strip():
            self.finish()
            self._alone(call, data)
            return
        call.on_message = None
        self._waiting.append((call, data))
        if len(self._waiting) >= _MOST:
            self.finish()

    def finish(self) -> None:
        """Handle the requests that wait, in their order."""
        if not self._waiting:
            return
        waiting, self._waiting = [one for one in self._waiting if one[0].is_open], []
        try:
            self._handle(waiting)
        except Exception:  # noqa: BLE001 - as for each call: the clients wait for answers
            _log.exception("%s by gRPC failed", self._what)
            for call, _ in waiting:
                call.end(GrpcStatus.INTERNAL, "the server failed; its log says why")

    @abstractmethod
    def _handle(self, waiting: list[Waiting]) -> None:
        """Handle requests together, and each one with anything unusual alone."""
