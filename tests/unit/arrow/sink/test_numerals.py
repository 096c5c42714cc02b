"""Numbers as texts, many at once."""

from __future__ import annotations

import numpy as np
import pytest

from rocketmq_py.arrow.sink.numerals import decimals, hexadecimals


@pytest.mark.parametrize("first", [0, 7, 9_990, 99_999_990, 999_999_990, 10**9, 123_456_789_000])
def test_decimals_have_the_width_of_the_largest(first: int) -> None:
    numbers = np.arange(first, first + 20)
    width = max(9, len(str(first + 19)))
    assert [bytes(row).decode() for row in decimals(numbers, 9)] == [f"{n:0{width}d}" for n in range(first, first + 20)]


@pytest.mark.parametrize("width", [1, 3, 4, 5, 8])
def test_decimals_may_have_any_width(width: int) -> None:
    assert [bytes(row).decode() for row in decimals(np.arange(8, 10), width)] == [f"{n:0{width}d}" for n in (8, 9)]


def test_no_numbers_give_no_digits() -> None:
    assert decimals(np.arange(0), 9).shape == (0, 9)
    assert hexadecimals(np.arange(0)).shape == (0, 4)


def test_numbers_are_formatted_as_hexadecimals() -> None:
    assert hexadecimals(np.arange(1 << 16)).tobytes().decode() == "".join(f"{n:04X}" for n in range(1 << 16))
