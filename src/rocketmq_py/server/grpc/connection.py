"""One connection that speaks HTTP/2: its streams are calls of gRPC.

As for remoting, a read is the unit of work: all calls of a read are handled, what they stored is made durable once, and
all answers are written at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.server.buffers import Buffers
from rocketmq_py.server.fault_log import FaultLog
from rocketmq_py.server.grpc.call import Call, Methods
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.sliced_work import ReadTurns
from rocketmq_py.server.slow_turns import SlowTurns
from rocketmq_py.wire.grpc import (
    CONTENT_TYPE,
    OK_TRAILERS,
    RESPONSE_HEADERS,
    CompressedMessage,
    GrpcStatus,
    MessageReader,
    MessageTooLarge,
    framed,
    http_error,
    only_message,
    parse_timeout,
    trailers,
    trailers_only,
)
from rocketmq_py.wire.http2.connection import Event, Http2Connection, Http2Error, Opened, Received
from rocketmq_py.wire.http2.frames import ErrorCode

log = logging.getLogger(__name__)

SLICE_SECONDS = 0.02
"""Time limit for the events of one read; the others are handled in the next turn of the event loop."""

_LARGE = 1024 * 1024
"""Incomplete messages of more bytes than this count towards the limit of all connections."""


class Owner(Protocol):
    """The parts of a server that a connection uses."""

    buffers: Buffers
    fault_log: FaultLog
    max_frame: int
    write_limit: int
    slow_turns: SlowTurns
    turns: ReadTurns

    def connected(self, connection: GrpcConnection) -> None: ...

    def disconnected(self, connection: GrpcConnection) -> None: ...


class _Running:
    """A call and the reader of its messages.

    :ivar reader: None until data arrive that are not the only message of the call.
    :ivar is_begun: the response headers are sent.
    """

    __slots__ = ("call", "is_begun", "reader")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.reader: MessageReader | None = None
        self.is_begun = False

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete message."""
        return 0 if self.reader is None else self.reader.buffered


class GrpcConnection(asyncio.Protocol):
    """Handles the calls of one connection.

    :param methods: what clients can call.
    :param transport: the connection, whose first bytes are passed to :meth:`data_received`.
    """

    def __init__(self, owner: Owner, methods: Methods, transport: asyncio.Transport, peer_of: Peer) -> None:
        self._owner = owner
        self._methods = methods
        self._transport = transport
        self._h2 = Http2Connection()
        self._calls: dict[int, _Running] = {}
        self._events: deque[Event] = deque()
        self._incomplete = 0
        self._answers: list[tuple[int, bytes]] = []
        self._is_handling = False
        self._is_flush_scheduled = False
        self._paused = False
        self.quiet_sweeps = 0
        self.peer = Peer.of(peer_of, self._drop, self.close)
        self._over_tls = transport.get_extra_info("ssl_object") is not None
        owner.connected(self)

    # -- asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        if self.quiet_sweeps:
            self.quiet_sweeps = 0
            self._h2.calm()
        try:
            events = self._h2.receive(data)
        except Http2Error as e:
            self._fail(e)
            return
        if self._events:
            self._events += events
            self._flush()
        elif events and not self._owner.turns.admits():
            self._events = deque(events)
            self._flush()
            self._postpone()
        else:
            self._handle(events)

    def pause_writing(self) -> None:
        self._paused = True
        if not self._transport.is_closing():
            self._transport.pause_reading()
            self._owner.buffers.grown(self)

    def resume_writing(self) -> None:
        self._paused = False
        self._owner.buffers.discard(self)
        if self._events:
            self._owner.turns.wait(self._handle_rest)
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            log.debug("connection of %s broke: %s", self.peer.address, exc)
        self._events.clear()
        for running in tuple(self._calls.values()):
            running.call.cancelled()
        self._calls.clear()
        self.peer.lost()
        self._owner.buffers.discard(self)
        self._owner.disconnected(self)

    # -- events

    def _handle(self, events: Sequence[Event] | deque[Event]) -> None:
        """Handle events for a limited time; the others in the next turn."""
        begin = monotonic()
        end = begin + SLICE_SECONDS
        self._is_handling = True
        left = iter(events)
        for event in left:
            try:
                self._event(event)
            except Exception:  # a call that fails must not close its connection
                log.exception("a call of %s failed", self.peer.address)
                self._end(event.stream_id, GrpcStatus.INTERNAL, "the server failed; its log says why")
            if monotonic() > end:
                break
        self._store()
        self._is_handling = False
        self._events = deque(left)
        self._flush()
        if self._events:
            self._postpone()
        seconds = monotonic() - begin
        if seconds > SLICE_SECONDS:
            self._owner.slow_turns.note(f"calls of {self.peer.address}", seconds)

    def _postpone(self) -> None:
        """Handle events in a later turn of the event loop; the connections take turns."""
        if self._transport.is_closing():
            return
        self._transport.pause_reading()
        if not self._paused:
            self._owner.turns.wait(self._handle_rest)

    def _handle_rest(self) -> None:
        if self._paused or self._transport.is_closing():
            return
        self._handle(self._events)
        self._resume_reading()

    def _resume_reading(self) -> None:
        if not self._events and not self._paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def _event(self, event: Event) -> None:
        if type(event) is Opened:
            self._open(event)
            return
        running = self._calls.get(event.stream_id)
        if running is None:
            return
        if type(event) is Received:
            self._receive(event, running)
        else:
            self._forget(event.stream_id)
            running.call.cancelled()

    def _open(self, event: Opened) -> None:
        stream_id = event.stream_id
        if event.headers is None:
            self._refuse(stream_id, GrpcStatus.RESOURCE_EXHAUSTED, "the metadata of the call are too large")
            return
        metadata = dict(event.headers)
        path = metadata.get(b":path")
        if metadata.get(b":method") != b"POST" or path is None:
            self._h2.send_headers(stream_id, http_error(405 if path else 400), is_end=True)
            return
        if not metadata.get(b"content-type", b"").startswith(CONTENT_TYPE):
            self._h2.send_headers(stream_id, http_error(415), is_end=True)
            return
        try:
            timeout = parse_timeout(metadata[b"grpc-timeout"]) if b"grpc-timeout" in metadata else None
        except CorruptFrame as e:
            self._refuse(stream_id, GrpcStatus.INTERNAL, str(e))
            return
        method = self._methods.find(path)
        if method is None:
            self._refuse(stream_id, GrpcStatus.UNIMPLEMENTED, f"{path[:200].decode('latin-1')} is not known here")
        elif timeout is not None and timeout <= 0:
            self._refuse(stream_id, GrpcStatus.DEADLINE_EXCEEDED, "the deadline was over when the call came")
        elif event.is_end:
            self._refuse(stream_id, GrpcStatus.INTERNAL, "a call without a message")
        else:
            call = Call(self, stream_id, metadata, None if timeout is None else monotonic() + timeout)
            self._calls[stream_id] = _Running(call)
            method(call)

    def _receive(self, event: Received, running: _Running) -> None:
        call = running.call
        if event.is_end and running.reader is None and call.on_message is not None:  # most calls have one message
            message = only_message(event.data)
            if message is not None and len(message) <= self._owner.max_frame:
                call.on_message(message)
                if call.is_open:
                    self._receive_end(event, running)
                return
        self._receive_some(event, running)

    def _receive_some(self, event: Received, running: _Running) -> None:
        call = running.call
        reader = running.reader
        if reader is None:
            reader = running.reader = MessageReader(self._owner.max_frame)
        before = reader.buffered
        try:
            messages = reader.feed(event.data)
        except MessageTooLarge as e:
            self._end(event.stream_id, GrpcStatus.RESOURCE_EXHAUSTED, str(e))
            return
        except CompressedMessage as e:
            self._end(event.stream_id, GrpcStatus.UNIMPLEMENTED, str(e))
            return
        self._incomplete += reader.buffered - before
        if self._incomplete > _LARGE:
            self._check_buffered()
        for message in messages:
            if call.on_message is not None:
                call.on_message(message)
        if event.is_end and call.is_open:
            self._receive_end(event, running)

    def _receive_end(self, event: Received, running: _Running) -> None:
        call = running.call
        if running.buffered:
            self._end(event.stream_id, GrpcStatus.INTERNAL, "the call ends within a message")
        elif call.on_end is not None:
            call.on_end()
        elif call.on_message is not None:
            self._end(event.stream_id, GrpcStatus.INTERNAL, "a call without a message")

    def _refuse(self, stream_id: int, status: GrpcStatus, text: str) -> None:
        self._h2.send_headers(stream_id, trailers_only(status, text), is_end=True)

    def _store(self) -> None:
        """Make durable what the calls of a read have stored, and send their answers."""
        why = self._methods.finish_read()
        answers, self._answers = self._answers, []
        for stream_id, message in answers:
            if why is None:
                self._h2.send_whole(stream_id, RESPONSE_HEADERS, message, OK_TRAILERS)
            else:
                self._refuse(stream_id, GrpcStatus.UNAVAILABLE, why)

    # -- for calls

    def send_message(self, stream_id: int, message: bytes) -> None:
        """Send one message of an answer."""
        running = self._calls.get(stream_id)
        if running is None:
            return
        if not running.is_begun:
            running.is_begun = True
            self._h2.send_headers(stream_id, RESPONSE_HEADERS)
        self._h2.send_data(stream_id, framed(message))
        self._flush_soon()

    def send_answer(self, stream_id: int, messages: Sequence[bytes]) -> None:
        """Send all messages of an answer, when what its call stored is durable."""
        self._forget(stream_id)
        framed_messages = framed(messages[0]) if len(messages) == 1 else b"".join(map(framed, messages))
        self._answers.append((stream_id, framed_messages))
        if not self._is_handling:
            self._flush_soon()

    def end_call(self, stream_id: int, status: GrpcStatus, text: str) -> None:
        """End a call."""
        running = self._forget(stream_id)
        if running is None:
            return
        if running.is_begun:
            self._h2.send_trailers(stream_id, trailers(status, text) if status or text else OK_TRAILERS)
        else:
            self._refuse(stream_id, status, text)
        self._flush_soon()

    def _end(self, stream_id: int, status: GrpcStatus, text: str) -> None:
        running = self._calls.get(stream_id)
        if running is not None:
            running.call.end(status, text)

    def _forget(self, stream_id: int) -> _Running | None:
        running = self._calls.pop(stream_id, None)
        if running is not None:
            self._incomplete -= running.buffered
        return running

    # -- writing

    def _flush_soon(self) -> None:
        if not self._is_handling and not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_later)

    def _flush_later(self) -> None:
        self._is_flush_scheduled = False
        if self._answers:
            self._store()
        self._flush()

    def _flush(self) -> None:
        output, self._h2.output = self._h2.output, []
        if output and not self._transport.is_closing():
            if self._over_tls or len(output) == 1:
                self._transport.write(b"".join(output))
            else:
                self._transport.writelines(output)
        if self._paused or self._h2.queued > _LARGE:
            self._check_buffered()

    @property
    def buffered(self) -> int:
        """Bytes that are buffered for this connection: answers, and requests that are incomplete."""
        return self._transport.get_write_buffer_size() + self._h2.queued + self._h2.buffered + self._incomplete

    def _check_buffered(self) -> None:
        if self.buffered > self._owner.write_limit:
            self.cut_off(f"{self.buffered} bytes are buffered for it: it does not read, or does not complete its calls")
        else:
            self._owner.buffers.grown(self)

    # -- closing

    def cut_off(self, why: str) -> None:
        """Close the connection at once because it buffers too many bytes; log ``why``."""
        if not self._transport.is_closing():
            log.warning("closing the connection of %s: %s", self.peer.address, why)
            self.abort()

    def close(self, why: str | None = None) -> None:
        """Tell the client that the connection ends, and close it when all answers are sent."""
        if why is not None:
            log.debug("closing the connection of %s: %s", self.peer.address, why)
        if self._paused:
            self.abort()
            return
        self._h2.goaway(ErrorCode.NO_ERROR)
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _fail(self, fault: Http2Error) -> None:
        self._owner.fault_log.closing(self.peer, str(fault))
        self._h2.goaway(fault.code, str(fault))
        self._flush()
        self._transport.close()

    def _drop(self, frame: bytes) -> None:
        """Drop a frame of remoting: the ``write`` of the peer, which clients of gRPC do not understand."""
        del frame
