from __future__ import annotations

import struct

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.wire.frame import MAX_FRAME, Frame, FrameDecoder, encode_frame
from tests.golden import files

FRAMES = st.lists(
    st.builds(Frame, st.sampled_from([0, 1, 7]), st.binary(max_size=60), st.binary(max_size=60)), max_size=6
)


def encode(frames: list[Frame]) -> bytes:
    return b"".join(encode_frame(f.header, f.body, f.serialize_type) for f in frames)


@pytest.mark.parametrize("name", files.RESPONSES)
def test_a_java_frame_is_cut_where_java_cut_it(name: str) -> None:
    data = files.response(name)
    assert [(frame.header, frame.body) for frame in FrameDecoder().feed(data)] == [files.header_and_body(data)]


@pytest.mark.parametrize("name", files.REQUESTS)
def test_a_java_frame_encodes_to_the_same_bytes(name: str) -> None:
    data = files.request(name)
    assert encode(FrameDecoder().feed(data)) == data


def test_frames_are_decoded_from_single_bytes() -> None:
    data = b"".join(files.request(name) for name in files.REQUESTS)
    decoder = FrameDecoder()
    frames = [frame for i in range(len(data)) for frame in decoder.feed(data[i : i + 1])]
    assert encode(frames) == data
    assert decoder.buffered == 0


@given(FRAMES, st.data())
def test_any_cut_gives_the_same_frames(frames: list[Frame], data: st.DataObject) -> None:
    stream = encode(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    decoder = FrameDecoder()
    got: list[Frame] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += decoder.feed(stream[start:end])
    assert got == frames


@given(st.binary(max_size=200))
def test_random_bytes_are_a_corrupt_frame_or_an_incomplete_one(garbage: bytes) -> None:
    decoder = FrameDecoder(max_frame=150)
    try:
        decoder.feed(garbage)
    except CorruptFrame:
        return
    assert decoder.buffered <= len(garbage)


def test_the_limit_holds_before_the_frame_arrives() -> None:
    decoder = FrameDecoder()
    with pytest.raises(CorruptFrame, match=f"{MAX_FRAME + 1} bytes is announced, the limit is {MAX_FRAME}"):
        decoder.feed(struct.pack(">II", MAX_FRAME + 1, 10))
    assert decoder.buffered == 0


def test_a_frame_of_exactly_the_limit_passes() -> None:
    data = encode_frame(b"h", b"b" * 95)
    assert len(FrameDecoder(max_frame=100).feed(data)) == 1
    with pytest.raises(CorruptFrame):
        FrameDecoder(max_frame=99).feed(data)


@pytest.mark.parametrize(
    ("length", "header_length"), [(10, 7), (3, 0), (0, 0), (4, 1), (0xFFFFFFFF, 0), (100, 0xFFFFFF)]
)
def test_wrong_lengths_are_a_corrupt_frame(length: int, header_length: int) -> None:
    with pytest.raises(CorruptFrame):
        FrameDecoder().feed(struct.pack(">II", length, header_length) + bytes(200))


def test_an_empty_frame_is_decoded() -> None:
    assert FrameDecoder().feed(encode_frame(b"")) == [Frame(0, b"", b"")]
