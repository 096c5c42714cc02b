from __future__ import annotations

import struct

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.errors import CorruptRecord
from rocketmq_py.properties import decode_properties
from rocketmq_py.wire.batch import MAX_PROPERTIES, decode_batch, encode_batch
from tests.golden import files

BATCHES = st.lists(
    st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=40), st.binary(max_size=40)), max_size=5
)


@given(BATCHES)
def test_encoding_and_decoding_are_inverse(batch: list[tuple[int, bytes, bytes]]) -> None:
    assert list(decode_batch(encode_batch(batch))) == batch


def test_a_batch_is_written_byte_by_byte() -> None:
    assert MAX_PROPERTIES == 32_767, "a short of Java"
    assert encode_batch([(7, b"ab", b"c")]).hex() == "00000019" + "00" * 8 + "00000007" + "00000002" + "6162" + "000163"
    assert encode_batch([]) == b""


def test_a_batch_encoded_by_java_is_decoded() -> None:
    data = files.unbase64(files.fact("batch")["bytes"])
    batch = list(decode_batch(data))
    assert [(flag, body) for flag, body, _ in batch] == [(0, b"one"), (0, b"two")]
    assert [decode_properties(properties) for _, _, properties in batch] == [
        {"KEYS": "k-1", "WAIT": "true", "TAGS": "A"}, {"WAIT": "true"}]  # fmt: skip
    assert encode_batch(batch) == data


def test_a_batch_sent_by_java_is_decoded() -> None:
    data = files.header_and_body(files.request("send_batch"))[1]
    batch = list(decode_batch(data))
    assert [decode_properties(properties)["KEYS"] for _, _, properties in batch] == ["b-0", "b-1", "b-2"]
    assert encode_batch(batch) == data


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_batch_cut_off_anywhere(cut: int) -> None:
    data = encode_batch([(0, b"body", b"properties"), (0, b"another body", b"more")])
    if cut == len(encode_batch([(0, b"body", b"properties")])):
        return
    with pytest.raises(CorruptRecord):
        list(decode_batch(data[:cut]))


@pytest.mark.parametrize("body_length", [-(2**31), -20, -1, 5, 2**31 - 1])
def test_a_batch_with_a_hostile_body_length(body_length: int) -> None:
    data = bytearray(encode_batch([(0, b"body", b"properties")]))
    struct.pack_into(">i", data, 16, body_length)
    with pytest.raises(CorruptRecord):
        list(decode_batch(bytes(data)))


@given(st.binary(min_size=1, max_size=100))
def test_garbage(data: bytes) -> None:
    try:
        list(decode_batch(data))
    except CorruptRecord:
        return
