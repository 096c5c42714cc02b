"""Conversions between NumPy and Arrow through buffers, without pandas.

PyArrow imports pandas for the first Python value or NumPy array that it converts. That takes 0.3 s of CPU in a process
that may live for one micro-batch, and adds 30,000 objects to the garbage collection after every task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def fixed(values: NDArray[Any], kind: Any, valid: NDArray[np.bool_] | None = None) -> Any:
    """Return an Arrow array of the fixed-width type ``kind`` over ``values``, without a copy if they are contiguous.

    :param valid: a flag per value, False for null; None if no value is null.
    """
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(np.ascontiguousarray(values))])


def numbers(column: Any) -> Ints:
    """Return the integers, or booleans as 0 and 1, of an Arrow array without nulls."""
    found = column.cast(pa.int64())
    return np.frombuffer(found.buffers()[1] or b"", np.int64)[found.offset : found.offset + len(found)]


def texts(values: Sequence[bytes], kind: Any) -> Any:
    """Return an Arrow array of type ``kind`` (string or binary) with these values.

    :raises pyarrow.ArrowCapacityError: the values have more than 2 GiB in total.
    """
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=ends[1:])
    if ends[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowCapacityError(f"{ends[-1]} bytes in one column")
    ends = ends.astype(np.int32)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))])


def constant(value: bytes, kind: Any) -> Any:
    """Return an Arrow scalar of type ``kind`` (string or binary)."""
    return texts([value], kind)[0]


def repeated(value: str, count: int) -> Any:
    """Return an Arrow array with ``count`` times the same string."""
    return pa.repeat(constant(value.encode(), pa.string()), count)


def merged(batches: Iterable[Any], size: int) -> Iterator[Any]:
    """Combine consecutive record batches into batches of at most ``size`` bytes; drop empty ones.

    A single batch that is larger stays as it is.
    """
    collected: list[Any] = []
    weight = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if collected and weight + batch.nbytes > size:
            yield _one(collected)
            collected, weight = [], 0
        collected.append(batch)
        weight += batch.nbytes
    if collected:
        yield _one(collected)


def _one(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    (together,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return together
