from __future__ import annotations

import random

import pytest

from rocketmq_py.wire.http2 import frames
from rocketmq_py.wire.http2.connection import (
    CONNECTION_WINDOW,
    MAX_NOISE,
    MAX_STREAMS,
    STREAM_WINDOW,
    Cancelled,
    Event,
    Http2Connection,
    Http2Error,
    Opened,
    Received,
)
from rocketmq_py.wire.http2.frames import ErrorCode
from rocketmq_py.wire.http2.hpack import encode_headers

END, ACK, END_HEADERS = frames.END_STREAM, frames.ACK, frames.END_HEADERS
HEADERS = [(b":method", b"POST"), (b":path", b"/x")]
BLOCK = encode_headers(HEADERS)
SETTINGS = frames.settings({})


def new_connection() -> Http2Connection:
    connection = Http2Connection()
    connection.output.clear()
    assert connection.receive(frames.PREFACE + SETTINGS) == []
    assert connection.output == [frames.frame(frames.SETTINGS, ACK, 0)]
    connection.output.clear()
    return connection


def opened(stream: int, flags: int = END_HEADERS, block: bytes = BLOCK) -> bytes:
    return frames.frame(frames.HEADERS, flags, stream, block)


def data(stream: int, payload: bytes, flags: int = 0) -> bytes:
    return frames.frame(frames.DATA, flags, stream, payload)


def split(output: list[bytes]) -> list[tuple[int, int, int, bytes]]:
    """Type, flags, stream and payload of each frame."""
    found, raw = [], b"".join(output)
    output.clear()
    while raw:
        head, flags, stream = frames.unpack_head(raw)
        length = head >> 8
        found.append((head & 0xFF, flags, stream, raw[9 : 9 + length]))
        raw = raw[9 + length :]
    return found


def test_the_server_begins_with_its_settings_and_a_larger_window() -> None:
    first, second = split(Http2Connection().output)
    assert first[:3] == (frames.SETTINGS, 0, 0)
    assert dict(frames.iter_settings(first[3])) == {3: MAX_STREAMS, 4: STREAM_WINDOW, 6: 16_384}
    assert second == (frames.WINDOW_UPDATE, 0, 0, (CONNECTION_WINDOW - 65_535).to_bytes(4, "big"))


def test_a_request_is_the_same_however_its_bytes_are_cut() -> None:
    raw = frames.PREFACE + SETTINGS + opened(1) + data(1, b"abc") + data(1, b"d", END)
    expected = [Opened(1, HEADERS, False), Received(1, b"abc", False), Received(1, b"d", True)]
    assert Http2Connection().receive(raw) == expected
    for seed in range(20):
        rng = random.Random(seed)
        connection, found, at = Http2Connection(), [], 0
        while at < len(raw):
            step = rng.randrange(1, 12)
            found += connection.receive(raw[at : at + step])
            at += step
        assert found == expected


def test_a_header_block_may_continue_and_be_padded() -> None:
    connection = new_connection()
    padded = bytes([3]) + BLOCK[:5] + b"\0\0\0"
    events = connection.receive(
        frames.frame(frames.HEADERS, frames.PADDED | END, 1, padded)
        + frames.frame(frames.CONTINUATION, 0, 1, BLOCK[5:7])
        + frames.frame(frames.CONTINUATION, END_HEADERS, 1, BLOCK[7:])
        + frames.frame(frames.HEADERS, frames.HAS_PRIORITY | END_HEADERS, 3, b"\0\0\0\0\1" + BLOCK)
        + data(3, b"\2xyz\0\0", frames.PADDED | END)
    )
    assert events == [Opened(1, HEADERS, True), Opened(3, HEADERS, False), Received(3, b"xyz", True)]


def test_trailers_of_a_client_end_its_request() -> None:
    connection = new_connection()
    assert connection.receive(opened(1) + opened(1, END_HEADERS | END)) == [
        Opened(1, HEADERS, False), Received(1, b"", True),
    ]  # fmt: skip


def test_an_unknown_frame_is_ignored_and_a_ping_answered() -> None:
    connection = new_connection()
    ping = frames.frame(frames.PING, 0, 0, b"12345678")
    assert (
        connection.receive(frames.frame(0x77, 0xFF, 9, b"?") + ping + frames.frame(frames.PING, ACK, 0, b"x" * 8)) == []
    )
    assert split(connection.output) == [(frames.PING, ACK, 0, b"12345678")]


@pytest.mark.parametrize(
    ("code", "raw"),
    [
        (ErrorCode.FRAME_SIZE_ERROR, (16_385 << 8).to_bytes(4, "big") + b"\0" * 5),
        (ErrorCode.PROTOCOL_ERROR, data(0, b"x")),
        (ErrorCode.PROTOCOL_ERROR, data(1, b"x")),
        (ErrorCode.PROTOCOL_ERROR, data(2, b"x")),
        (ErrorCode.PROTOCOL_ERROR, opened(2)),
        (ErrorCode.PROTOCOL_ERROR, opened(0)),
        (ErrorCode.PROTOCOL_ERROR, opened(1) + data(1, b"\5abc", frames.PADDED)),
        (ErrorCode.PROTOCOL_ERROR, opened(1) + data(1, b"", frames.PADDED)),
        (ErrorCode.COMPRESSION_ERROR, opened(1, block=b"\xff\xff")),
        (ErrorCode.FRAME_SIZE_ERROR, opened(1, END_HEADERS | frames.HAS_PRIORITY, b"abc")),
        (ErrorCode.PROTOCOL_ERROR, opened(1, 0) + data(1, b"")),
        (ErrorCode.PROTOCOL_ERROR, opened(1, 0) + opened(3)),
        (ErrorCode.PROTOCOL_ERROR, frames.frame(frames.CONTINUATION, END_HEADERS, 1, BLOCK)),
        (ErrorCode.PROTOCOL_ERROR, opened(1, 0) + frames.frame(frames.CONTINUATION, END_HEADERS, 3, BLOCK)),
        (ErrorCode.ENHANCE_YOUR_CALM, opened(1, 0) + frames.frame(frames.CONTINUATION, 0, 1) * 17),
        (ErrorCode.ENHANCE_YOUR_CALM, opened(1, 0) + frames.frame(frames.CONTINUATION, 0, 1, b"x" * 16_384) * 4),
        (ErrorCode.FRAME_SIZE_ERROR, frames.frame(frames.SETTINGS, 0, 0, b"12345")),
        (ErrorCode.FRAME_SIZE_ERROR, frames.frame(frames.SETTINGS, ACK, 0, b"123456")),
        (ErrorCode.PROTOCOL_ERROR, frames.frame(frames.SETTINGS, 0, 1)),
        (ErrorCode.PROTOCOL_ERROR, frames.settings({2: 2})),
        (ErrorCode.PROTOCOL_ERROR, frames.settings({5: 16_383})),
        (ErrorCode.PROTOCOL_ERROR, frames.settings({5: 1 << 24})),
        (ErrorCode.FLOW_CONTROL_ERROR, frames.settings({4: 1 << 31})),
        (ErrorCode.FLOW_CONTROL_ERROR, opened(1) + frames.window_update(1, 65_535) + frames.settings({4: 2**31 - 1})),
        (ErrorCode.FRAME_SIZE_ERROR, frames.frame(frames.PING, 0, 0, b"1234567")),
        (ErrorCode.PROTOCOL_ERROR, frames.frame(frames.PING, 0, 1, b"12345678")),
        (ErrorCode.FRAME_SIZE_ERROR, opened(1) + frames.frame(frames.RST_STREAM, 0, 1, b"123")),
        (ErrorCode.PROTOCOL_ERROR, frames.rst_stream(1, ErrorCode.CANCEL)),
        (ErrorCode.PROTOCOL_ERROR, frames.rst_stream(0, ErrorCode.CANCEL)),
        (ErrorCode.PROTOCOL_ERROR, frames.frame(frames.PRIORITY, 0, 0, b"12345")),
        (ErrorCode.FRAME_SIZE_ERROR, frames.frame(frames.PRIORITY, 0, 1, b"1234")),
        (ErrorCode.PROTOCOL_ERROR, frames.frame(frames.PUSH_PROMISE, 0, 1, b"1234")),
        (ErrorCode.PROTOCOL_ERROR, frames.frame(frames.GOAWAY, 0, 1, b"12345678")),
        (ErrorCode.FRAME_SIZE_ERROR, frames.frame(frames.WINDOW_UPDATE, 0, 0, b"123")),
        (ErrorCode.PROTOCOL_ERROR, frames.window_update(0, 0)),
        (ErrorCode.PROTOCOL_ERROR, frames.window_update(1, 1)),
        (ErrorCode.FLOW_CONTROL_ERROR, frames.window_update(0, 2**31 - 1)),
        (ErrorCode.ENHANCE_YOUR_CALM, frames.frame(frames.PING, 0, 0, b"12345678") * (MAX_NOISE + 1)),
        (ErrorCode.ENHANCE_YOUR_CALM, SETTINGS * (MAX_NOISE // 20 + 1)),
        (ErrorCode.ENHANCE_YOUR_CALM, opened(1) + data(1, b"") * (MAX_NOISE // 4 + 1)),
        (ErrorCode.ENHANCE_YOUR_CALM, frames.window_update(0, 1) * (MAX_NOISE + 1)),
        (ErrorCode.ENHANCE_YOUR_CALM, frames.frame(0x50, 0, 0) * (MAX_NOISE + 1)),
    ],
)
def test_what_breaks_the_protocol_ends_the_connection(code: ErrorCode, raw: bytes) -> None:
    with pytest.raises(Http2Error) as caught:
        new_connection().receive(raw)
    assert caught.value.code is code


@pytest.mark.parametrize("raw", [
    b"GET / HTTP/1.1\r\n\r\n", frames.PREFACE[:20] + b"XX\r\n", frames.PREFACE + opened(1),
    frames.PREFACE + frames.frame(frames.SETTINGS, ACK, 0),
])  # fmt: skip
def test_a_connection_begins_with_preface_and_settings(raw: bytes) -> None:
    with pytest.raises(Http2Error):
        Http2Connection().receive(raw)


def test_rapid_resets_are_too_much_at_once_but_not_over_time() -> None:
    connection, stream = new_connection(), 1
    connection.calm()
    reset = lambda: opened(stream, END_HEADERS | END) + frames.rst_stream(stream, ErrorCode.CANCEL)  # noqa: E731
    for _ in range(MAX_NOISE // 4):
        assert connection.receive(reset()) == [Opened(stream, HEADERS, True), Cancelled(stream)]
        stream += 2
    connection.calm()
    for _ in range(MAX_NOISE // 4):
        connection.receive(reset())
        stream += 2
    with pytest.raises(Http2Error, match="ENHANCE_YOUR_CALM"):
        connection.receive(reset())


def test_streams_above_the_limit_are_refused() -> None:
    connection = new_connection()
    for number in range(MAX_STREAMS):
        connection.receive(opened(2 * number + 1))
    refused = 2 * MAX_STREAMS + 1
    assert connection.receive(opened(refused)) == []
    assert split(connection.output) == [(frames.RST_STREAM, 0, refused, b"\0\0\0\7")]
    assert connection.open_streams == MAX_STREAMS
    connection.reset(1, ErrorCode.CANCEL)
    assert connection.receive(opened(refused + 2)) == [Opened(refused + 2, HEADERS, False)]


def test_a_header_list_that_is_too_large_is_the_fault_of_its_stream_only() -> None:
    connection = new_connection()
    large = encode_headers([(b"x", b"y" * 9_000)])
    both = frames.frame(frames.HEADERS, 0, 1, large) + frames.frame(frames.CONTINUATION, END_HEADERS, 1, large)
    assert connection.receive(both) == [Opened(1, None, False)]
    assert connection.receive(opened(3)) == [Opened(3, HEADERS, False)]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (data(1, b"x"), ErrorCode.STREAM_CLOSED),
        (opened(1, END_HEADERS | END), ErrorCode.STREAM_CLOSED),
        (frames.window_update(1, 0), ErrorCode.PROTOCOL_ERROR),
        (frames.window_update(1, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
    ],
)
def test_a_mistake_in_a_stream_ends_that_stream(more: bytes, code: ErrorCode) -> None:
    connection = new_connection()
    events = connection.receive(opened(1, END_HEADERS | END) + more)
    assert events == [Opened(1, HEADERS, True), Cancelled(1)]
    assert split(connection.output) == [(frames.RST_STREAM, 0, 1, int(code).to_bytes(4, "big"))]


def test_headers_in_the_middle_of_a_request_end_it() -> None:
    connection = new_connection()
    assert connection.receive(opened(1) + opened(1))[1:] == [Cancelled(1)]


def test_a_client_gets_room_again_for_what_it_has_sent() -> None:
    connection = new_connection()
    connection.receive(opened(1))
    sent = 0
    while sent <= STREAM_WINDOW // 2:
        connection.receive(data(1, b"x" * 16_384))
        sent += 16_384
    assert split(connection.output) == [(frames.WINDOW_UPDATE, 0, 1, sent.to_bytes(4, "big"))]
    total = sent
    while total <= CONNECTION_WINDOW // 2:
        connection.receive(data(1, b"x" * 16_384))
        total += 16_384
    updates = [(stream, payload) for _, _, stream, payload in split(connection.output)]
    assert (0, total.to_bytes(4, "big")) in updates
    for _ in range(CONNECTION_WINDOW // 16_384):
        assert connection.receive(data(1, b"x" * 16_384)) == [Received(1, b"x" * 16_384, False)]
        total += 16_384
    given = [int.from_bytes(payload, "big") for _, _, stream, payload in split(connection.output) if not stream]
    assert len(given) == 1, "room for half of the window is given at once"
    assert total - given[0] <= CONNECTION_WINDOW


@pytest.mark.parametrize("more", [data(1, b"x"), data(1, b"", END), opened(1, END_HEADERS | END)])
def test_nothing_comes_after_trailers(more: bytes) -> None:
    connection = new_connection()
    connection.receive(opened(1) + opened(1, END_HEADERS | END))
    assert connection.receive(more) == [Cancelled(1)]
    assert split(connection.output) == [(frames.RST_STREAM, 0, 1, ErrorCode.STREAM_CLOSED.to_bytes(4, "big"))]


def test_data_beyond_the_window_of_a_stream_end_it_and_beyond_that_of_the_connection_all() -> None:
    connection = new_connection()
    connection.receive(opened(1))
    connection._streams[1].to_receive = 16_383
    assert connection.receive(data(1, b"x" * 16_384)) == [Cancelled(1)]
    connection._to_receive = 16_383
    with pytest.raises(Http2Error, match="FLOW_CONTROL_ERROR"):
        connection.receive(data(1, b"x" * 16_384))


def test_an_answer_is_headers_data_and_trailers() -> None:
    connection = new_connection()
    connection.receive(opened(1, END_HEADERS | END))
    connection.send_headers(1, b"h")
    connection.send_data(1, b"d")
    connection.send_trailers(1, b"t")
    assert split(connection.output) == [
        (frames.HEADERS, END_HEADERS, 1, b"h"), (frames.DATA, 0, 1, b"d"), (frames.HEADERS, END_HEADERS | END, 1, b"t"),
    ]  # fmt: skip
    assert not connection.is_open(1)
    for send in (connection.send_headers, connection.send_data, connection.send_trailers):
        send(1, b"late")
    connection.reset(1, ErrorCode.CANCEL)
    assert connection.output == []


def test_a_client_that_still_sends_is_told_to_stop_when_its_call_is_answered() -> None:
    connection = new_connection()
    connection.receive(opened(1))
    connection.send_headers(1, b"h", is_end=True)
    assert [frame[0] for frame in split(connection.output)] == [frames.HEADERS, frames.RST_STREAM]
    assert (
        connection.receive(data(1, b"late") + frames.window_update(1, 5) + frames.rst_stream(1, ErrorCode.CANCEL)) == []
    )


def received(connection: Http2Connection) -> bytes:
    return b"".join(payload for kind, _, _, payload in split(connection.output) if kind == frames.DATA)


def test_data_wait_for_the_windows_of_stream_and_connection() -> None:
    connection = new_connection()
    connection.receive(opened(1, END_HEADERS | END))
    body = random.Random(1).randbytes(200_000)
    connection.send_data(1, body)
    connection.send_trailers(1, b"t")
    got = received(connection)
    assert got == body[:65_535]
    assert connection.queued == 200_000 - 65_535 + 1
    connection.receive(frames.window_update(1, 100_000))
    assert connection.output == []
    connection.receive(frames.window_update(0, 50_000))
    got += received(connection)
    assert len(got) == 115_535
    connection.receive(frames.window_update(0, 500_000))
    got += received(connection)
    assert len(got) == 165_535
    connection.receive(frames.window_update(1, 500_000))
    tail = split(connection.output)
    assert got + b"".join(frame[3] for frame in tail if frame[0] == frames.DATA) == body
    assert tail[-1] == (frames.HEADERS, END_HEADERS | END, 1, b"t")
    assert all(len(frame[3]) <= 16_384 for frame in tail)
    assert connection.queued == 0
    assert not connection.is_open(1)


WHOLE = [(frames.HEADERS, END_HEADERS, 1, b"h"), (frames.DATA, 0, 1, b"data"), (frames.HEADERS, 5, 1, b"t")]


def test_a_whole_answer_is_one_piece_of_output() -> None:
    connection = new_connection()
    connection.receive(opened(1, END_HEADERS | END) + opened(3))
    for stream in (1, 3, 5):
        connection.send_whole(stream, b"h", b"data", b"t")
    assert len(connection.output) == 3
    reset = (frames.RST_STREAM, 0, 3, b"\0\0\0\0")  # the client has not ended its side
    assert split(connection.output) == [*WHOLE, *[(kind, flags, 3, data) for kind, flags, _, data in WHOLE], reset]
    assert connection.open_streams == 0


def test_a_whole_answer_takes_room_of_the_connection() -> None:
    connection = new_connection()
    connection.receive(opened(1, END_HEADERS | END) + opened(3, END_HEADERS | END))
    connection.receive(frames.settings({5: 100_000}))
    connection.send_whole(1, b"h", b"x" * 65_535, b"t")
    connection.output.clear()
    connection.send_whole(3, b"h", b"data", b"t")
    assert split(connection.output) == [(frames.HEADERS, END_HEADERS, 3, b"h")]
    assert connection.queued == len(b"data") + len(b"t")
    connection.receive(frames.window_update(0, 4))
    assert split(connection.output) == [(frames.DATA, 0, 3, b"data"), (frames.HEADERS, END_HEADERS | END, 3, b"t")]


@pytest.mark.parametrize("limits", [{4: 3}, {4: 4}])
def test_a_whole_answer_waits_for_the_window_of_its_stream(limits: dict[int, int]) -> None:
    connection = new_connection()
    connection.receive(frames.settings(limits) + opened(1, END_HEADERS | END))
    connection.output.clear()
    connection.send_whole(1, b"h", b"data", b"t")
    if limits[4] == 4:
        assert split(connection.output) == WHOLE
        return
    assert split(connection.output) == [WHOLE[0], (frames.DATA, 0, 1, b"dat")]
    connection.receive(frames.window_update(1, 1))
    assert split(connection.output) == [(frames.DATA, 0, 1, b"a"), WHOLE[2]]


def test_a_large_whole_answer_is_cut_into_frames() -> None:
    connection = new_connection()
    connection.receive(opened(1, END_HEADERS | END))
    connection.send_whole(1, b"h", b"x" * 16_385, b"t")
    sizes = [len(payload) for kind, _, _, payload in split(connection.output) if kind == frames.DATA]
    assert sizes == [16_384, 1]


def test_a_larger_initial_window_lets_waiting_streams_go_on_and_a_smaller_one_stops_them() -> None:
    connection = new_connection()
    connection.receive(frames.settings({4: 10}) + opened(1, END_HEADERS | END))
    connection.output.clear()
    connection.send_data(1, b"x" * 30)
    assert received(connection) == b"x" * 10
    connection.receive(frames.settings({4: 5}))
    connection.receive(frames.window_update(1, 5))
    assert received(connection) == b""
    connection.receive(frames.settings({4: 25}))
    assert received(connection) == b"x" * 20


def test_streams_take_turns_when_the_connection_has_no_room() -> None:
    connection = new_connection()
    connection.receive(frames.settings({4: 1_000_000}))
    for stream in (1, 3):
        connection.receive(opened(stream, END_HEADERS | END))
        connection.send_data(stream, b"x" * 100_000)
    connection.output.clear()
    connection.receive(frames.window_update(0, 10))
    connection.receive(frames.window_update(0, 10))
    streams = [stream for kind, _, stream, _ in split(connection.output) if kind == frames.DATA]
    assert sorted(streams) == [1, 3]


def test_a_cancelled_stream_drops_what_waits() -> None:
    connection = new_connection()
    connection.receive(opened(1, END_HEADERS | END))
    connection.send_data(1, b"x" * 100_000)
    assert connection.queued
    assert connection.receive(frames.rst_stream(1, ErrorCode.CANCEL)) == [Cancelled(1)]
    assert connection.queued == 0
    connection.output.clear()
    connection.receive(frames.window_update(0, 100_000))
    assert connection.output == []


def test_frames_are_as_large_as_the_client_allows() -> None:
    connection = new_connection()
    connection.receive(frames.settings({4: 100_000, 5: 30_000}) + frames.window_update(0, 100_000) + opened(1))
    connection.output.clear()
    connection.send_data(1, b"x" * 40_000)
    assert [len(payload) for _, _, _, payload in split(connection.output)] == [30_000, 10_000]


def test_goaway_names_the_last_stream() -> None:
    connection = new_connection()
    connection.receive(opened(5))
    connection.goaway(ErrorCode.PROTOCOL_ERROR, "why")
    assert split(connection.output) == [(frames.GOAWAY, 0, 0, b"\0\0\0\5\0\0\0\1why")]


def test_random_bytes_end_in_an_error_of_the_protocol_only() -> None:
    valid = [
        opened(1),
        data(1, b"abc", END),
        SETTINGS,
        frames.window_update(0, 5),
        frames.rst_stream(1, ErrorCode.CANCEL),
        frames.frame(frames.PING, 0, 0, b"12345678"),
        opened(3, 0),
        frames.frame(frames.CONTINUATION, 4, 3, BLOCK),
    ]
    for seed in range(2_000):
        rng = random.Random(seed)
        raw = bytearray(b"".join(rng.choice(valid) for _ in range(6)))
        for _ in range(rng.randrange(4)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        connection = new_connection()
        events: list[Event] = []
        try:
            for at in range(0, len(raw), 40):
                events += connection.receive(bytes(raw[at : at + 40]))
        except Http2Error:
            continue
        assert all(isinstance(event, Opened | Received | Cancelled) for event in events)
