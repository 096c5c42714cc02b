from __future__ import annotations

import struct

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.wire.frame import JSON, MAX_FRAME, ROCKETMQ, Frame, FrameDecoder, RunDecoder, encode_frame
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


def test_a_frame_is_built_byte_by_byte() -> None:
    assert (MAX_FRAME, JSON, ROCKETMQ) == (16_777_216, 0, 1)
    assert encode_frame(b"head", b"body", ROCKETMQ).hex() == "0000000c" + "01000004" + b"headbody".hex()
    assert encode_frame(b"h").hex() == "00000005" + "00000001" + "68"


def test_an_incomplete_frame_is_looked_at_again_when_it_is_complete() -> None:
    cuts: list[int] = []

    class Counting(FrameDecoder):
        def _cut(self, data: bytes, items: list[Frame]) -> int:
            cuts.append(len(data))
            return super()._cut(data, items)

    decoder, data = Counting(), encode_frame(b"h" * 100, b"b" * 100)
    for start in range(0, len(data), 4):
        assert decoder.feed(data[start : start + 4]) == [Frame(0, b"h" * 100, b"b" * 100)] * (start == 204)
        assert decoder.buffered == (start + 4) % 208
    assert cuts == [4, 8, 208]


class Accelerator:
    """Cuts off what it is told: items, position, bytes that the frame there needs, its fault."""

    def __init__(self, *cuts: tuple[list[object], int, int, tuple[int, int] | None]) -> None:
        self.cuts = list(cuts)
        self.asked: list[tuple[bytes, int]] = []

    def cut_read(self, data: bytes, max_frame: int, make: object, overtaken: object, telling: object):  # type: ignore[no-untyped-def]
        assert make is Frame
        assert overtaken == (37,)
        self.asked.append((data, max_frame))
        return self.cuts.pop(0)


def test_an_accelerator_cuts_runs_and_frames() -> None:
    run = object()
    accelerator = Accelerator(([run], 4, 6, None), ([run, run], 6, 8, None))
    decoder = RunDecoder(1000, accelerator, (37,))  # type: ignore[arg-type]
    assert decoder.feed(b"abcdef") == [run]
    assert decoder.buffered == 2
    assert decoder.feed(b"gh") == [], "six bytes are needed"
    assert decoder.feed(b"ij") == [run, run]
    assert decoder.buffered == 0
    assert accelerator.asked == [(b"abcdef", 1000), (b"efghij", 1000)]


@pytest.mark.parametrize(("fault", "words"), [
    ((1001, 5), "a frame of 1001 bytes is announced, the limit is 1000: not a RocketMQ peer, or a message larger than"),
    ((1000, 999), "header length 999 does not fit into a frame of 1000 bytes"),
])  # fmt: skip
def test_a_fault_that_an_accelerator_finds_is_named(fault: tuple[int, int], words: str) -> None:
    decoder = RunDecoder(1000, Accelerator(([], 0, 8, fault)), (37,))  # type: ignore[arg-type]
    with pytest.raises(CorruptFrame, match=words):
        decoder.feed(b"data")
