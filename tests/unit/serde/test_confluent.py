"""The bytes in front of Avro and Protobuf bodies."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from rocketmq_py.serde import BodyMismatch
from rocketmq_py.serde.confluent import decode_indexes, encode_indexes, framed, unframed
from tests.examples import examples


def test_the_id_of_a_schema() -> None:
    assert framed(258, b"abc") == b"\0\0\0\x01\x02abc"
    assert unframed(b"\0\0\0\x01\x02abc") == (258, b"abc")
    assert unframed(b"\0\xff\xff\xff\xff") == (2**32 - 1, b"")


@pytest.mark.parametrize(
    ("body", "begin"),
    [(b"", "nothing"), (b"\0\0\0\1", "00000001"), (b"\1\0\0\0\1abc", "0100000001"), (b'{"a": 1}', "7b2261223a")],
)
def test_a_body_without_it(body: bytes, begin: str) -> None:
    with pytest.raises(BodyMismatch, match=f"does not begin with a zero byte and a schema id, but with {begin}$"):
        unframed(body)


@pytest.mark.parametrize(
    ("indexes", "raw"),
    [
        ([0], b"\0"),
        ([63], b"\x02\x7e"),
        ([64], b"\x02\x80\x01"),
        ([8128], b"\x02\x80\x7f"),
        ([1], b"\x02\x02"),
        ([1, 0], b"\x04\x02\x00"),
        ([0, 0], b"\x04\0\0"),
        ([300], b"\x02\xd8\x04"),
    ],
)
def test_the_place_of_a_message_type(indexes: list[int], raw: bytes) -> None:
    assert encode_indexes(indexes) == raw
    assert decode_indexes(raw + b"rest") == (indexes, b"rest")


@given(st.lists(st.integers(0, 1 << 31), min_size=1, max_size=64))
@settings(max_examples=examples(50))
def test_every_place_comes_back(indexes: list[int]) -> None:
    assert decode_indexes(encode_indexes(indexes) + b"rest") == (indexes, b"rest")


def test_the_first_type_in_its_long_form() -> None:
    assert decode_indexes(b"\x02\0rest") == ([0], b"rest")


def test_the_deepest_place() -> None:
    assert decode_indexes(b"\x80\x01" + bytes(64) + b"rest") == ([0] * 64, b"rest")


def test_a_number_has_at_most_ten_bytes() -> None:
    assert decode_indexes(b"\x82" + b"\x80" * 8 + b"\0\x02rest") == ([1], b"rest")
    with pytest.raises(BodyMismatch, match="ends in its message indexes"):
        decode_indexes(b"\x82" + b"\x80" * 9 + b"\0\x02rest")


@pytest.mark.parametrize("raw", [b"", b"\x04\x02", b"\x80", b"\x80" * 20, b"\x01", b"\x82\x01" + bytes(65), b"\x02"])
def test_places_that_cannot_be(raw: bytes) -> None:
    with pytest.raises(BodyMismatch):
        decode_indexes(raw)
