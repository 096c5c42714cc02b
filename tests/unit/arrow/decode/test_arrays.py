"""Columns made through buffers are those PyArrow makes by itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rocketmq_py.arrow.decode.arrays import constant, fixed, merged, numbers, repeated, texts

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.one_of(st.none(), INT64), max_size=20))
def test_fixed_width_columns_equal_those_of_pyarrow(values: list[int | None]) -> None:
    there = np.array([value is not None for value in values], np.bool_)
    plain = np.array([value or 0 for value in values], np.int64)
    column = fixed(plain, pa.int64(), there)
    column.validate(full=True)
    assert column.equals(pa.array(values, pa.int64()))
    assert fixed(plain, pa.int64()).equals(pa.array(plain))


def test_strided_values_are_packed() -> None:
    assert fixed(np.arange(10, dtype=np.int32)[1::2], pa.int32()).to_pylist() == [1, 3, 5, 7, 9]


@given(st.lists(INT64, max_size=20), st.integers(0, 5))
def test_numbers_are_read_from_sliced_columns(values: list[int], skipped: int) -> None:
    assert numbers(pa.array(values, pa.int64())[skipped:]).tolist() == values[skipped:]


def test_booleans_are_read_as_numbers() -> None:
    assert numbers(pa.array(["a", None, "b"]).is_null()).tolist() == [0, 1, 0]


@given(st.lists(st.text(max_size=5), max_size=20))
def test_string_columns_equal_those_of_pyarrow(values: list[str]) -> None:
    encoded = [value.encode() for value in values]
    assert texts(encoded, pa.string()).equals(pa.array(values, pa.string()))
    assert texts(encoded, pa.binary()).equals(pa.array(encoded, pa.binary()))


def test_more_bytes_than_offsets_can_address_are_refused() -> None:
    class Long(bytes):
        def __len__(self) -> int:
            return 2**30

    with pytest.raises(pa.ArrowCapacityError, match="2147483648 bytes"):
        texts([Long(), Long()], pa.binary())


def test_constant_columns_equal_those_of_pyarrow() -> None:
    assert constant(b"x", pa.binary()).equals(pa.scalar(b"x", pa.binary()))
    assert repeated("ü", 2).equals(pa.array(["ü", "ü"]))
    assert repeated("", 0).equals(pa.array([], pa.string()))


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 12))
def test_small_batches_are_merged_with_the_same_rows(sizes: list[int], most: int) -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("t", pa.map_(pa.string(), pa.string()))])
    given_rows = [[{"n": i, "t": [("k", str(i))]} for i in range(size)] for size in sizes]
    batches = [pa.RecordBatch.from_pylist(rows, schema) for rows in given_rows]
    together = list(merged(batches, most * 8))
    for batch in together:
        batch.validate(full=True)
        assert batch.schema.equals(schema)
    assert [row for batch in together for row in batch.to_pylist()] == [row for rows in given_rows for row in rows]
    assert all(one.nbytes + other.nbytes > most * 8 for one, other in pairwise(together))


def test_a_single_batch_is_not_copied() -> None:
    batch = pa.RecordBatch.from_pylist([{"n": 1}])
    assert [one is batch for one in merged([batch, batch], 1)] == [True, True]


def test_batches_that_exceed_the_size_by_a_byte_stay_apart() -> None:
    batches = [pa.RecordBatch.from_pylist([{"n": n}]) for n in range(4)]
    size = 2 * batches[0].nbytes
    assert [batch.num_rows for batch in merged(batches, size)] == [2, 2]
    assert [batch.num_rows for batch in merged(batches, size - 1)] == [1, 1, 1, 1]
