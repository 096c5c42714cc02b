"""Fields of many records, written column by column."""

from __future__ import annotations

from struct import pack, unpack

from hypothesis import given, strategies as st

from rocketmq_py.store.codec.columns import progression, put, put_ascending

NUMBERS = st.integers(0, 1 << 50)


@given(first=NUMBERS, step=st.integers(0, 1 << 22), count=st.integers(1, 70))
def test_progressions_are_packed(first: int, step: int, count: int) -> None:
    assert progression(first, step, count) == pack(f">{count}q", *(first + i * step for i in range(count)))


@given(first=NUMBERS, step=st.integers(0, 1 << 22), count=st.integers(1, 70))
def test_ascending_numbers_need_only_the_bytes_that_change(first: int, step: int, count: int) -> None:
    records = bytearray((b"ab" + pack(">q", first) + b"c") * count)
    put_ascending(records, 2, 11, progression(first, step, count))
    assert unpack(">" + "2sqs" * count, records) == tuple(
        field for i in range(count) for field in (b"ab", first + i * step, b"c")
    )


def test_other_bytes_are_unchanged() -> None:
    records = bytearray(b"abcdefgh" * 3)
    put(records, 3, 8, b"012345", 2)
    assert records == b"abc01fghabc23fghabc45fgh"
