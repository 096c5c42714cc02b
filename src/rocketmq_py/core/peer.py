"""The protocol state of one connection: it numbers requests, matches responses to them and splits frames.

Both sides of a connection may send requests, so a peer awaits responses and also receives requests. It does no IO:
received bytes and the current time are arguments.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.wire.command import RESPONSE_FLAG, Command, decode_command, decode_ext
from rocketmq_py.wire.frame import JSON, MAX_FRAME, Frame, FrameDecoder, StreamDecoder
from rocketmq_py.wire.integers import Int32

T = TypeVar("T")
H = TypeVar("H", bound=Header)

NEVER = float("inf")
"""Deadline of a request that never expires here, because its caller handles the timeout."""


class Reply(msgspec.Struct, gc=False, rename={"fields": "extFields"}):
    """A response whose header fields are decoded on demand."""

    code: Int32
    opaque: Int32
    flag: Int32 = 0
    remark: str | None = None
    fields: msgspec.Raw = msgspec.Raw(b"{}")  # or bytes, which the accelerator makes
    body: bytes = b""
    version: Int32 = 0

    @property
    def ext(self) -> dict[str, str]:
        """Header fields (``extFields``) as strings, decoded at each access.

        :raises BadHeader: the header fields are malformed.
        """
        try:
            return _decode_ext(self.fields) or {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # values that are not strings, or malformed: the tolerant decoder decides
        try:
            return decode_ext(self.fields)
        except ValueError as e:
            raise BadHeader(f"header fields cannot be understood: {e}") from e

    def header(self, cls: type[H]) -> H:
        """Decode the header fields to a header class.

        :raises BadHeader: a required field is missing or a value is of the wrong type.
        """
        try:
            return _decoder(cls).decode(self.fields)  # type: ignore[no-any-return]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return cls.from_ext(self.ext)  # the tolerant path decodes or refuses them

    def command(self) -> Command:
        """Return the response as a :class:`~rocketmq_py.wire.command.Command`."""
        return Command(self.code, self.opaque, self.flag, self.remark, self.ext, self.body, version=self.version)


_decode_reply = msgspec.json.Decoder(Reply, strict=False).decode
_decode_ext = msgspec.json.Decoder(dict[str, str] | None, strict=False).decode


@cache
def _decoder(cls: type[Header]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cls, strict=False)


def _decode(frame: Frame) -> Reply | Command:
    """Decode a frame: a response to a :class:`Reply`, a request to a :class:`Command`.

    :raises CorruptFrame: the frame cannot be decoded.
    """
    if frame.serialize_type == JSON:
        try:
            reply = _decode_reply(frame.header)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # fastjson's dialect, or malformed: the tolerant decoder decides
        else:
            if reply.flag & RESPONSE_FLAG:
                reply.body = frame.body
                return reply
    command = decode_command(frame)
    if not command.is_response:
        return command
    fields = msgspec.Raw(msgspec.json.encode(command.ext))
    return Reply(command.code, command.opaque, command.flag, command.remark, fields, command.body, command.version)


class InFlight(Generic[T]):
    """The requests in flight on one connection, by ``opaque``, each with a token that the caller chooses.

    ``next_deadline`` is at or before the earliest deadline; before it if that request was answered meanwhile. Deadlines
    and ``now`` are in seconds of one clock.
    """

    __slots__ = ("_opaques", "_waiting", "next_deadline")

    def __init__(self) -> None:
        self._opaques = itertools.count()
        self._waiting: dict[int, tuple[T, float]] = {}
        self.next_deadline = NEVER

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, token: T, deadline: float = NEVER) -> int:
        """Register a request with its token; return the ``opaque`` to send it with.

        :param deadline: time from which on :meth:`expire` removes the request, in seconds of the clock of its ``now``.
        """
        opaque = next(self._opaques) & 0x7FFFFFFF
        self._waiting[opaque] = (token, deadline)
        if deadline < self.next_deadline:  # noqa: PLR1730 - hot path; min() costs as much as the rest of the method
            self.next_deadline = deadline
        return opaque

    def number(self) -> int:
        """Return the next ``opaque`` without registering a request; one-way requests get no response."""
        return next(self._opaques) & 0x7FFFFFFF

    def take(self, opaque: int) -> T | None:
        """Remove a request and return its token; None if no request with this ``opaque`` is in flight."""
        entry = self._waiting.pop(opaque, None)
        return None if entry is None else entry[0]

    def expire(self, now: float) -> list[T]:
        """Remove the requests whose deadline is at or before ``now``; return their tokens, earliest deadline first.

        :param now: current time in seconds, of the clock of the deadlines in :meth:`add`.
        """
        if now < self.next_deadline:
            return []
        waiting = list(self._waiting.items())
        late = sorted((deadline, opaque) for opaque, (_, deadline) in waiting if deadline <= now)
        self.next_deadline = min((deadline for _, (_, deadline) in waiting if deadline > now), default=NEVER)
        return self._take_all(opaque for _, opaque in late)

    def abandon(self) -> list[T]:
        """Remove all requests and return their tokens, after the connection was closed."""
        self.next_deadline = NEVER
        return self._take_all(list(self._waiting))

    def take_first(self, number: int) -> list[T]:
        """Remove the oldest requests, at most ``number``, and return their tokens in the order of :meth:`add`."""
        return self._take_all(list(itertools.islice(self._waiting, number)))

    def _take_all(self, opaques: Iterable[int]) -> list[T]:
        tokens = (self.take(opaque) for opaque in opaques)
        return [token for token in tokens if token is not None]


class ReplyDecoder(StreamDecoder[Frame | Reply]):
    """Splits a stream into frames, of which the accelerator decodes plain answers.

    :param max_frame: see :class:`StreamDecoder`.
    """

    __slots__ = ("_cut_answers",)

    def __init__(self, max_frame: int, accelerator: Accelerator) -> None:
        super().__init__(max_frame)
        self._cut_answers = accelerator.cut_answers

    def _cut(self, data: bytes, items: list[Frame | Reply]) -> int:
        found, position, self._missing, fault = self._cut_answers(bytes(data), self.max_frame, Frame, Reply)
        if fault is not None:
            raise self._corrupt(*fault)
        items += found
        return position


class Peer(InFlight[T]):
    """The protocol state of one connection: its requests in flight, and the decoder of incoming frames.

    :param max_frame: maximum bytes of an incoming frame.
    :param accelerator: decodes plain answers; None for the Python code.
    """

    __slots__ = ("_feed",)

    def __init__(self, max_frame: int = MAX_FRAME, accelerator: Accelerator | None = None) -> None:
        super().__init__()
        self._feed: Callable[[bytes], Sequence[Frame | Reply]]
        self._feed = (FrameDecoder(max_frame) if accelerator is None else ReplyDecoder(max_frame, accelerator)).feed

    def receive(self, data: bytes) -> tuple[list[tuple[T, Reply]], list[Command]]:
        """Decode received bytes; return the responses, each with the token of its request, and the other side's
        requests, both in order of arrival.

        A response to no request in flight is dropped.

        :raises CorruptFrame: the stream is corrupt; close the connection and :meth:`abandon` its requests, among them
            those whose responses in ``data`` came before the corrupt frame.
        """
        answers: list[tuple[T, Reply]] = []
        requests: list[Command] = []
        take = self._waiting.pop
        # All are decoded before the first is taken: what is taken would not be abandoned if a later frame is corrupt.
        for message in [item if type(item) is Reply else _decode(item) for item in self._feed(data)]:  # type: ignore[arg-type]
            if type(message) is Reply:
                entry = take(message.opaque, None)
                if entry is not None:
                    answers.append((entry[0], message))
            elif isinstance(message, Command):
                requests.append(message)
        return answers, requests
