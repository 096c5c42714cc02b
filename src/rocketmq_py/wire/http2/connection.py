"""The server's side of one HTTP/2 connection (RFC 9113), without IO: bytes in, events and bytes out.

It has every rule of the RFC that matters to a server without push and priorities: flow control in both directions,
header blocks in several frames, padding, the states of streams, and limits for each thing that a client can send
without end.
"""

from __future__ import annotations

from collections import deque

import msgspec

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.wire.http2 import frames
from rocketmq_py.wire.http2.frames import ErrorCode
from rocketmq_py.wire.http2.hpack import HeaderListTooLarge, Headers, block_decoder

MAX_STREAMS = 1_024
"""Streams of a connection that may be open at the same time."""
MAX_HEADER_LIST = 16 * 1024
STREAM_WINDOW = 1024 * 1024
CONNECTION_WINDOW = 16 * 1024 * 1024
"""Bytes that a client may send before it is told that there is room for more; larger by far than what is on its way."""
_HALF_STREAM_WINDOW, _HALF_CONNECTION_WINDOW = STREAM_WINDOW // 2, CONNECTION_WINDOW // 2

_MAX_HEADER_BLOCK = 64 * 1024
_MAX_CONTINUATIONS = 16
MAX_NOISE = 2_000
"""Limit of frames that cost work but bring no request, between two calls of :meth:`Http2Connection.calm`."""
_NOISE = {frames.SETTINGS: 20, frames.PING: 1, frames.RST_STREAM: 4, frames.PRIORITY: 1}
_NOISE_OF_SMALL_UPDATE = 1
_SMALL_UPDATE = 1024


class Http2Error(CorruptFrame):
    """A client breaks the protocol; the connection has to be closed.

    :ivar code: for the GOAWAY frame.
    """

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(f"HTTP/2 {code.name}: {why}")
        self.code = code


class Opened(msgspec.Struct, gc=False):
    """A request began. ``headers`` is None if its header list is too large. ``is_end``: no data follow."""

    stream_id: int
    headers: Headers | None
    is_end: bool


class Received(msgspec.Struct, gc=False):
    """Data of a request arrived; ``is_end``: no more follow."""

    stream_id: int
    data: bytes
    is_end: bool


class Cancelled(msgspec.Struct, gc=False):
    """The client ended a stream; nothing can be sent in it any more."""

    stream_id: int


Event = Opened | Received | Cancelled


class _Stream(msgspec.Struct, gc=False):
    """A stream that is not closed by both sides.

    :ivar window: bytes that may be sent now.
    :ivar to_receive: bytes that the client may send now.
    :ivar waiting: data and the trailers (True) that wait for a larger window.
    """

    window: int
    to_receive: int = STREAM_WINDOW
    is_ended: bool = False
    waiting: deque[tuple[bytes, bool]] | None = None


class Http2Connection:
    """The state of one connection.

    :meth:`receive` takes what was read and returns what happened; ``output`` collects the frames to write.
    """

    def __init__(self) -> None:
        self.output: list[bytes] = [
            frames.settings({
                frames.SETTING_MAX_STREAMS: MAX_STREAMS, frames.SETTING_WINDOW: STREAM_WINDOW,
                frames.SETTING_HEADER_LIST: MAX_HEADER_LIST,
            }),
            frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW),
        ]  # fmt: skip
        self.queued = 0
        """Bytes that wait for the client's flow control."""
        self._rest = b""
        self._expects_preface = True
        self._expects_settings = True
        self._hpack = block_decoder(MAX_HEADER_LIST)
        self._streams: dict[int, _Stream] = {}
        self._last = 0
        self._window = frames.DEFAULT_WINDOW
        self._to_receive = CONNECTION_WINDOW
        self._stream_window = frames.DEFAULT_WINDOW
        self._frame_size = frames.MAX_FRAME_SIZE
        self._block: bytearray | None = None
        self._block_of = (0, 0)
        self._continuations = 0
        self._noise = 0
        self._blocked: dict[int, None] = {}
        self._events: list[Event] = []
        self._handlers = (
            self._on_data, self._on_headers, self._on_priority, self._on_reset, self._on_settings, self._on_push,
            self._on_ping, self._on_goaway, self._on_window_update, self._on_continuation,
        )  # fmt: skip

    # -- receiving

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete frame or header block."""
        return len(self._rest) + (0 if self._block is None else len(self._block))

    @property
    def open_streams(self) -> int:
        """The number of streams that are not closed by both sides."""
        return len(self._streams)

    def calm(self) -> None:
        """Forget the frames that brought no request; called every few seconds."""
        self._noise = 0

    def receive(self, data: bytes) -> list[Event]:
        """Handle received bytes, and return what happened in the streams.

        :raises Http2Error: the connection has to be closed, after a GOAWAY with the error's code. What the bytes before
            the fault brought is lost, as it would be if the connection had broken.
        """
        if self._rest:
            data = self._rest + data
        pos = 0
        if self._expects_preface:
            pos = self._preface(data)
            if self._expects_preface:
                self._rest = data
                return []
        end = len(data)
        events: list[Event] = []
        self._events = events
        while end - pos >= frames.HEAD_SIZE:
            head, flags, stream_id = frames.unpack_head(data, pos)
            length, kind = head >> 8, head & 0xFF
            if length > frames.MAX_FRAME_SIZE:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            begin = pos + frames.HEAD_SIZE
            if end - begin < length:
                break
            pos = begin + length
            if kind > frames.HEADERS or self._block is not None or self._expects_settings:
                self._frame(kind, flags, stream_id & 0x7FFFFFFF, data[begin:pos])
            elif kind == frames.DATA:
                self._on_data(flags, stream_id & 0x7FFFFFFF, data[begin:pos])
            else:
                self._on_headers(flags, stream_id & 0x7FFFFFFF, data[begin:pos])
        self._rest = data[pos:] if pos < end else b""
        return events

    def _preface(self, data: bytes) -> int:
        size = len(frames.PREFACE)
        if not frames.PREFACE.startswith(data[:size]):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"it begins with {data[:size]!r}, no HTTP/2")
        if len(data) < size:
            return 0
        self._expects_preface = False
        return size

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is not None and kind != frames.CONTINUATION:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted")
        if self._expects_settings:
            if kind != frames.SETTINGS or flags & frames.ACK:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the first frame is no SETTINGS")
            self._expects_settings = False
        if kind < len(self._handlers):
            if kind in _NOISE:
                self._note_noise(_NOISE[kind])
            self._handlers[kind](flags, stream_id, payload)
        else:
            self._note_noise(1)

    def _note_noise(self, count: int) -> None:
        self._noise += count
        if self._noise > MAX_NOISE:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that bring no request")

    # -- requests

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if flags & frames.PADDED:
            payload = _unpadded(payload)
        if flags & frames.HAS_PRIORITY:
            if len(payload) < 5:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a HEADERS frame without its priority")
            payload = payload[5:]
        if not stream_id & 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a request in stream {stream_id}, which is no client's")
        if flags & frames.END_HEADERS:
            self._headers(flags, stream_id, payload)
        else:
            self._block, self._block_of, self._continuations = bytearray(payload), (flags, stream_id), 0

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is None or stream_id != self._block_of[1]:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a CONTINUATION that continues nothing")
        self._continuations += 1
        self._block += payload
        if self._continuations > _MAX_CONTINUATIONS or len(self._block) > _MAX_HEADER_BLOCK:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "a header block that does not end")
        if flags & frames.END_HEADERS:
            block, self._block = bytes(self._block), None
            self._headers(self._block_of[0], stream_id, block)

    def _headers(self, flags: int, stream_id: int, block: bytes) -> None:
        headers: Headers | None
        try:
            headers = self._hpack.decode(block)
        except HeaderListTooLarge:
            headers = None
        except CorruptFrame as e:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, str(e)) from None
        is_end = bool(flags & frames.END_STREAM)
        if stream_id <= self._last:
            self._trailers(stream_id, is_end=is_end)
            return
        self._last = stream_id
        if len(self._streams) >= MAX_STREAMS:
            self._note_noise(1)
            self.output.append(frames.rst_stream(stream_id, ErrorCode.REFUSED_STREAM))
            return
        self._streams[stream_id] = _Stream(self._stream_window, is_ended=is_end)
        self._events.append(Opened(stream_id, headers, is_end))

    def _trailers(self, stream_id: int, *, is_end: bool) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            self._note_noise(1)  # of a request that was answered or cancelled meanwhile
        elif stream.is_ended:
            self._abort(stream_id, ErrorCode.STREAM_CLOSED)
        elif not is_end:
            self._abort(stream_id, ErrorCode.PROTOCOL_ERROR)
        else:
            stream.is_ended = True
            self._events.append(Received(stream_id, b"", True))

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        if stream_id > self._last or not stream_id & 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"data in stream {stream_id}, which is not open")
        self._to_receive -= size
        if self._to_receive < 0:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window allows")
        if self._to_receive < _HALF_CONNECTION_WINDOW:
            self.output.append(frames.window_update(0, CONNECTION_WINDOW - self._to_receive))
            self._to_receive = CONNECTION_WINDOW
        data = _unpadded(payload) if flags & frames.PADDED else payload
        is_end = bool(flags & frames.END_STREAM)
        if not data and not is_end:
            self._note_noise(4)
        stream = self._streams.get(stream_id)
        if stream is None:
            self._note_noise(1)
            return
        if stream.is_ended:
            self._abort(stream_id, ErrorCode.STREAM_CLOSED)
            return
        stream.to_receive -= size
        if stream.to_receive < 0:
            self._abort(stream_id, ErrorCode.FLOW_CONTROL_ERROR)
            return
        if is_end:
            stream.is_ended = True
        elif stream.to_receive < _HALF_STREAM_WINDOW:
            self.output.append(frames.window_update(stream_id, STREAM_WINDOW - stream.to_receive))
            stream.to_receive = STREAM_WINDOW
        self._events.append(Received(stream_id, data, is_end))

    def _on_reset(self, flags: int, stream_id: int, payload: bytes) -> None:
        del flags
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a RST_STREAM of another size than 4")
        if stream_id == 0 or stream_id > self._last:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a reset of stream {stream_id}, which is not open")
        if self._forget(stream_id):
            self._events.append(Cancelled(stream_id))

    def _abort(self, stream_id: int, code: ErrorCode) -> None:
        """End a stream in which the client made a mistake; the others go on."""
        self._note_noise(4)
        self.output.append(frames.rst_stream(stream_id, code))
        if self._forget(stream_id):
            self._events.append(Cancelled(stream_id))

    # -- the connection

    def _on_priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        del flags
        if stream_id == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a PRIORITY without a stream")
        if len(payload) != 5:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a PRIORITY of another size than 5")

    def _on_push(self, flags: int, stream_id: int, payload: bytes) -> None:
        del flags, stream_id, payload
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a PUSH_PROMISE of a client")

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "SETTINGS in a stream")
        if len(payload) % 6 or (flags & frames.ACK and payload):
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of a wrong size")
        if flags & frames.ACK:
            return
        for name, value in frames.iter_settings(payload):
            if name == frames.SETTING_WINDOW:
                self._change_window(value)
            elif name == frames.SETTING_FRAME_SIZE:
                if not frames.MAX_FRAME_SIZE <= value < 1 << 24:
                    raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a frame size of {value}")
                self._frame_size = value
            elif name == frames.SETTING_ENABLE_PUSH and value > 1:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1")
        self.output.append(frames.frame(frames.SETTINGS, frames.ACK, 0))

    def _change_window(self, size: int) -> None:
        if size > frames.MAX_WINDOW:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
        change, self._stream_window = size - self._stream_window, size
        for stream in self._streams.values():
            stream.window += change
            if stream.window > frames.MAX_WINDOW:
                raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
        self._send_blocked()

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a PING in a stream")
        if len(payload) != 8:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a PING of another size than 8")
        if not flags & frames.ACK:
            self.output.append(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _on_goaway(self, flags: int, stream_id: int, payload: bytes) -> None:
        del flags, payload  # the client closes the connection when its calls are done
        if stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a GOAWAY in a stream")
        self._note_noise(1)

    def _on_window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        del flags
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a WINDOW_UPDATE of another size than 4")
        size = frames.unpack_u32(payload)[0] & 0x7FFFFFFF
        if size < _SMALL_UPDATE and not self._blocked:
            self._note_noise(_NOISE_OF_SMALL_UPDATE)
        if stream_id == 0:
            self._window += size
            if size == 0 or self._window > frames.MAX_WINDOW:
                raise Http2Error(_window_fault(size), "a window update that makes no sense")
            self._send_blocked()
            return
        if stream_id > self._last:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a window for stream {stream_id}, which is not open")
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.window += size
        if size == 0 or stream.window > frames.MAX_WINDOW:
            self._abort(stream_id, _window_fault(size))
        elif stream_id in self._blocked:
            self._send_waiting(stream_id, stream)

    # -- sending

    def is_open(self, stream_id: int) -> bool:
        """True if something can be sent in a stream."""
        return stream_id in self._streams

    def send_whole(self, stream_id: int, head: bytes, data: bytes, tail: bytes) -> None:
        """Send a header block, data and the header block that ends the stream."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        size = len(data)
        if stream.waiting is not None or size > stream.window or size > self._window or size > self._frame_size:
            self.send_headers(stream_id, head)
            self.send_data(stream_id, data)
            self.send_trailers(stream_id, tail)
            return
        self._window -= size
        self.output.append(frames.whole_answer(stream_id, head, data, tail))
        self._finish(stream_id, stream)

    def send_headers(self, stream_id: int, block: bytes, *, is_end: bool = False) -> None:
        """Send a header block (of less than a frame) before all data; with ``is_end`` the stream ends without data."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            flags = frames.END_HEADERS | (frames.END_STREAM if is_end else 0)
            self.output.append(frames.frame(frames.HEADERS, flags, stream_id, block))
            if is_end:
                self._finish(stream_id, stream)

    def send_data(self, stream_id: int, data: bytes) -> None:
        """Send data, or keep them until the client has room for them."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._send(stream_id, stream, data, False)

    def send_trailers(self, stream_id: int, block: bytes) -> None:
        """Send the header block (of less than a frame) that ends a stream, after all its data."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._send(stream_id, stream, block, True)

    def reset(self, stream_id: int, code: ErrorCode) -> None:
        """End a stream at once; data that wait are dropped."""
        if self._forget(stream_id):
            self.output.append(frames.rst_stream(stream_id, code))

    def goaway(self, code: ErrorCode, why: str = "") -> None:
        """Tell the client that the connection ends, and which requests were handled."""
        self.output.append(frames.goaway(self._last, code, why))

    def _send(self, stream_id: int, stream: _Stream, data: bytes, is_trailers: bool) -> None:
        if stream.waiting is None:
            if is_trailers:
                self._end_with(stream_id, stream, data)
                return
            size = len(data)
            if size <= stream.window and size <= self._window and size <= self._frame_size:
                stream.window -= size
                self._window -= size
                self.output.append(frames.frame(frames.DATA, 0, stream_id, data))
                return
            stream.waiting = deque()
        stream.waiting.append((data, is_trailers))
        self.queued += len(data)
        self._blocked[stream_id] = None
        self._send_waiting(stream_id, stream)

    def _end_with(self, stream_id: int, stream: _Stream, block: bytes) -> None:
        flags = frames.END_HEADERS | frames.END_STREAM
        self.output.append(frames.frame(frames.HEADERS, flags, stream_id, block))
        self._finish(stream_id, stream)

    def _finish(self, stream_id: int, stream: _Stream) -> None:
        """Forget a stream that was answered; a client that still sends is told to stop, without an error."""
        if self._noise:
            self._noise = max(0, self._noise - 4)
        if not stream.is_ended:
            self.output.append(frames.rst_stream(stream_id, ErrorCode.NO_ERROR))
        self._forget(stream_id)

    def _forget(self, stream_id: int) -> bool:
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            return False
        if stream.waiting is not None:
            self._blocked.pop(stream_id, None)
            for data, _ in stream.waiting:
                self.queued -= len(data)
        return True

    def _send_blocked(self) -> None:
        for stream_id in tuple(self._blocked):
            if self._window <= 0:
                return
            self._send_waiting(stream_id, self._streams[stream_id])

    def _send_waiting(self, stream_id: int, stream: _Stream) -> None:
        """Send as much of what waits as the windows allow."""
        waiting = stream.waiting
        assert waiting is not None
        while waiting:
            data, is_trailers = waiting.popleft()
            self.queued -= len(data)
            if is_trailers:
                self._end_with(stream_id, stream, data)
                return
            sent = self._send_some(stream_id, stream, data)
            if sent < len(data):
                waiting.appendleft((data[sent:], False))
                self.queued += len(data) - sent
                self._blocked[stream_id] = self._blocked.pop(stream_id)  # behind the others: streams take turns
                return
        stream.waiting = None
        del self._blocked[stream_id]

    def _send_some(self, stream_id: int, stream: _Stream, data: bytes) -> int:
        room = min(len(data), stream.window, self._window)
        sent = 0
        while sent < room:
            piece = data[sent : min(sent + self._frame_size, room)]
            self.output.append(frames.frame(frames.DATA, 0, stream_id, piece))
            sent += len(piece)
        if sent:
            stream.window -= sent
            self._window -= sent
        return sent


def _window_fault(size: int) -> ErrorCode:
    return ErrorCode.FLOW_CONTROL_ERROR if size else ErrorCode.PROTOCOL_ERROR


def _unpadded(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "more padding than the frame has bytes")
    return payload[1 : len(payload) - payload[0]]
