from __future__ import annotations

import pytest

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.wire.grpc import (
    MAX_STATUS_TEXT,
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
from rocketmq_py.wire.http2.hpack import HpackDecoder


def test_messages_are_found_however_the_data_are_cut() -> None:
    raw = framed(b"") + framed(b"a" * 300) + framed(b"b")
    assert raw[5:10] == b"\0\0\0\x01\x2c"
    for size in (1, 2, 4, 5, 6, 7, 100, 301, 400):
        reader, found = MessageReader(300), []
        for at in range(0, len(raw), size):
            found += reader.feed(raw[at : at + size])
        assert found == [b"", b"a" * 300, b"b"]
        assert reader.buffered == 0


def test_the_only_message_of_data_is_found_without_a_reader() -> None:
    assert only_message(framed(b"")) == b""
    assert only_message(framed(b"abc")) == b"abc"
    for data in (b"", b"\0\0\0\0", framed(b"abc")[:-1], framed(b"abc") + b"\0", b"\x01" + framed(b"abc")[1:]):
        assert only_message(data) is None


def test_an_incomplete_message_is_counted() -> None:
    reader = MessageReader(300)
    assert reader.feed(framed(b"x" * 100)[:50]) == []
    assert reader.buffered == 50
    assert reader.feed(framed(b"x" * 100)[50:] + b"\0\0") == [b"x" * 100]
    assert reader.buffered == 2


def test_a_large_message_is_refused_before_it_arrives_and_a_compressed_one_too() -> None:
    with pytest.raises(MessageTooLarge, match="301 bytes, 300"):
        MessageReader(300).feed(b"\0\0\0\x01\x2d")
    with pytest.raises(CompressedMessage):
        MessageReader(300).feed(b"\1\0\0\0\1x")


@pytest.mark.parametrize(("text", "seconds"), [
    (b"2H", 7200), (b"3M", 180), (b"99999999S", 99_999_999), (b"1500m", 1.5), (b"20u", 2e-5), (b"7n", 7e-9), (b"0S", 0),
])  # fmt: skip
def test_timeouts_have_a_number_and_a_unit(text: bytes, seconds: float) -> None:
    assert parse_timeout(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", [b"", b"S", b"5", b"5x", b"-5S", b"123456789S", b" 5S", b"5.5S"])
def test_other_timeouts_are_refused(text: bytes) -> None:
    with pytest.raises(CorruptFrame):
        parse_timeout(text)


def decoded(block: bytes) -> dict[bytes, bytes]:
    return dict(HpackDecoder(10_000).decode(block))


def test_the_headers_of_answers() -> None:
    content = {b":status": b"200", b"content-type": b"application/grpc"}
    assert decoded(RESPONSE_HEADERS) == content
    assert decoded(OK_TRAILERS) == {b"grpc-status": b"0"}
    assert decoded(trailers(GrpcStatus.UNAVAILABLE, "a b%\n\u00e9")) == {
        b"grpc-status": b"14", b"grpc-message": b"a b%25%0A%C3%A9",
    }  # fmt: skip
    assert decoded(trailers_only(GrpcStatus.UNIMPLEMENTED, "no")) == content | {
        b"grpc-status": b"12",
        b"grpc-message": b"no",
    }
    assert decoded(http_error(415)) == {b":status": b"415"}
    assert len(decoded(trailers(GrpcStatus.INTERNAL, "x" * 5_000))[b"grpc-message"]) == MAX_STATUS_TEXT
