"""Lists of half messages, as bytes."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import CorruptRecord
from rocketmq_py.protocol.half_messages import (
    decode_half_positions,
    decode_offsets,
    encode_half_positions,
    encode_offsets,
    op_body,
    parse_op_body,
)


def word(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


@pytest.mark.parametrize("offsets", [(), (0,), (-1,), (1, 2**40, 3)])
def test_offsets_have_eight_bytes_each(offsets: tuple[int, ...]) -> None:
    data = b"".join(map(word, offsets))
    assert encode_offsets(offsets) == data
    assert decode_offsets(data) == offsets


@pytest.mark.parametrize("size", [1, 7, 9, 15])
def test_a_broken_list_of_offsets_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecord, match=f"{size} bytes are not a list of offsets: 8 are expected for each"):
        decode_offsets(bytes(size))


@pytest.mark.parametrize(("places", "offsets"), [((), ()), ((100,), (1,)), ((100, 300, 500), (1, 2, 9))])
def test_positions_are_pairs(places: tuple[int, ...], offsets: tuple[int, ...]) -> None:
    data = b"".join(word(place) + word(offset) for place, offset in zip(places, offsets, strict=True))
    assert encode_half_positions(places, offsets) == data
    assert decode_half_positions(data) == (places, offsets)


@pytest.mark.parametrize("size", [8, 24])
def test_half_a_pair_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecord, match=f"{size} bytes are not a list of positions: 16 are expected for each"):
        decode_half_positions(bytes(size))


def test_an_op_message_lists_offsets_with_commas() -> None:
    assert op_body([]) == b""
    assert op_body([3, 12]) == b"3,12,"
    assert parse_op_body(b"3,12,") == [3, 12]
    assert parse_op_body(b"3,,x,-1, 4,12") == [3, 12]
