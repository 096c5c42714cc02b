"""One call of gRPC: what its client has sent with it, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Protocol, TypeAlias

from rocketmq_py.server.peer import Peer
from rocketmq_py.wire.grpc import GrpcStatus

Metadata = Mapping[bytes, bytes]


class Carrier(Protocol):
    """The connection of a call."""

    peer: Peer

    def send_message(self, stream_id: int, message: bytes) -> None: ...
    def send_answer(self, stream_id: int, messages: Sequence[bytes]) -> None: ...
    def end_call(self, stream_id: int, status: GrpcStatus, text: str) -> None: ...


class Call:
    """One call. Sending is possible until it ends: by an answer, by :meth:`end`, or by the client, which may cancel it.

    :param metadata: the request headers.
    :param deadline: when its client stops waiting, on the monotonic clock; None if it waits for ever.
    """

    __slots__ = ("_carrier", "_stream_id", "deadline", "metadata", "on_cancel", "on_end", "on_message")

    def __init__(self, carrier: Carrier, stream_id: int, metadata: Metadata, deadline: float | None) -> None:
        self._carrier: Carrier | None = carrier
        self._stream_id = stream_id
        self.metadata = metadata
        self.deadline = deadline
        self.on_message: OnMessage | None = None
        """Takes each message of the client."""
        self.on_end: Callable[[], None] | None = None
        """Called when the client has sent its last message. Without it, a call that still waits for one fails then."""
        self.on_cancel: Callable[[], None] | None = None
        """Called when the client has cancelled the call, or its connection has broken."""

    @property
    def peer(self) -> Peer:
        """The connection of the call.

        :raises RuntimeError: the call has ended.
        """
        if self._carrier is None:
            raise RuntimeError("the call has ended")
        return self._carrier.peer

    @property
    def is_open(self) -> bool:
        """True until the call has ended."""
        return self._carrier is not None

    def header(self, name: bytes) -> str:
        """Return a value of the metadata as text; empty if it is absent."""
        return self.metadata.get(name, b"").decode("latin-1")

    def seconds_left(self) -> float | None:
        """Return how long the client waits from now on; None if for ever."""
        return None if self.deadline is None else self.deadline - monotonic()

    def answer(self, message: bytes) -> None:
        """Send the only message of an answer, and end the call."""
        if self._carrier is not None:
            self._take_carrier().send_answer(self._stream_id, (message,))

    def answer_many(self, messages: Sequence[bytes]) -> None:
        """Send all messages of an answer, and end the call."""
        if self._carrier is not None:
            self._take_carrier().send_answer(self._stream_id, messages)

    def send(self, message: bytes) -> None:
        """Send one message of several."""
        if self._carrier is not None:
            self._carrier.send_message(self._stream_id, message)

    def end(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:
        """End the call."""
        if self._carrier is not None:
            self._take_carrier().end_call(self._stream_id, status, text)

    def cancelled(self) -> None:
        """Note that the client cannot be answered any more."""
        if self._carrier is not None:
            self._take_carrier()
            if self.on_cancel is not None:
                self.on_cancel()

    def _take_carrier(self) -> Carrier:
        carrier, self._carrier = self._carrier, None
        assert carrier is not None
        self.on_message = self.on_end = None
        return carrier


OnMessage: TypeAlias = Callable[[bytes], None]

Method: TypeAlias = Callable[[Call], None]
"""Begins a call: sets its ``on_message`` and what else it wants to be told."""


class Methods(Protocol):
    """The methods that a server offers by gRPC."""

    def find(self, path: bytes) -> Method | None:
        """Return the method with a path such as ``/package.Service/Method``; None if there is none."""
        ...

    def finish_read(self) -> str | None:
        """Make durable what the calls of a read have stored; return why that failed, or None."""
        ...
