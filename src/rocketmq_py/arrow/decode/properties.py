"""Decode the properties of many records into Arrow arrays: single properties by name, or all of them as maps.

The stored form is ``name \\x01 value \\x02 ...``. Input that Java's parser treats specially raises Irregular: an entry
without name or value, a separator inside a value, text that is not UTF-8, and, for maps, a name twice in one record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rocketmq_py.arrow.decode.arrays import fixed, numbers
from rocketmq_py.arrow.decode.layout import Bytes, Irregular, Layout, windows
from rocketmq_py.arrow.decode.slices import gather

_NAME_END, _ENTRY_END = 1, 2


class Pairs:
    """The properties (name-value pairs) of all records, in one sequence.

    An Arrow array has four elements for each pair: name, separator, value, separator. So one offsets array serves both
    names and values.
    """

    __slots__ = ("_by_length", "_data", "_elements", "_name_length", "_name_start", "_values", "first")

    def __init__(self, layout: Layout) -> None:
        """Locate names and values.

        :raises Irregular: an entry has no name or value, separators do not alternate, or text is not UTF-8.
        """
        blocks = gather(layout.data, layout.properties_start, layout.properties_length, pa.binary())
        _, offsets, content = blocks.buffers()
        ends = np.frombuffer(offsets, np.int32)[: len(layout) + 1]
        self._data = np.frombuffer(content, np.uint8)[: ends[-1]] if content else np.empty(0, np.uint8)
        name_end, entry_end = _separators(self._data, ends)
        bounds = np.zeros(4 * len(name_end) + 1, np.int32)
        bounds[1::4], bounds[2::4] = name_end, name_end + 1
        bounds[3::4], bounds[4::4] = entry_end, entry_end + 1
        self._name_start = bounds[0:-1:4]
        self._name_length = name_end - self._name_start
        if not self._name_length.all() or (entry_end == name_end + 1).any():
            raise Irregular("a property without name or value")
        self._elements = _strings(bounds, self._data)
        self.first = np.searchsorted(self._name_start, ends).astype(np.int32)
        """For each record the number of pairs in the records before it, followed by the number of all pairs."""
        self._values: Any = None
        self._by_length: dict[int, tuple[NDArray[np.intp], NDArray[Any]]] = {}

    @property
    def names(self) -> Any:
        return self._element(0)

    @property
    def values(self) -> Any:
        if self._values is None:
            self._values = self._element(2)
        return self._values

    def _element(self, which: int) -> Any:
        return self._elements.take(fixed(np.arange(which, len(self._elements), 4, dtype=np.int32), pa.int32()))

    def column(self, name: str) -> Any:
        """Return the value of property ``name`` for each record; null for records without it."""
        pairs, names = self._names_of_length(len(name.encode()))
        hits = pairs[names == _as_number(name.encode())]
        index = np.full(len(self.first) - 1, -1, np.int64)
        index[self._record_of(hits)] = hits  # if a record has the name twice, the last value counts, as in Java's map
        return self._elements.take(fixed(index * 4 + 2, pa.int64(), index >= 0))

    def _names_of_length(self, length: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the indexes of pairs whose name has ``length`` bytes, and these names. Cached by length."""
        if length not in self._by_length:
            pairs = np.flatnonzero(self._name_length == length)
            names = (
                windows(self._data, length)[self._name_start[pairs]] if len(pairs) else np.empty((0, length), np.uint8)
            )
            self._by_length[length] = pairs, names.view(_number_type(length)).ravel()
        return self._by_length[length]

    def _record_of(self, pairs: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return, for each index of a pair, the index of its record."""
        width = int(self.first[1])
        if width and len(self._name_start) == width * (len(self.first) - 1) and (np.diff(self.first) == width).all():
            return pairs // width
        return np.searchsorted(self.first, pairs, side="right") - 1

    def maps(self, kind: Any) -> Any:
        """Return all properties of each record as an Arrow array of map type ``kind``.

        :raises Irregular: a record has a property name twice.
        """
        names = self.names
        self._refuse_repeats(names)
        return pa.MapArray.from_arrays(fixed(self.first, pa.int32()), names, self.values, type=kind)

    def _refuse_repeats(self, names: Any) -> None:
        """Raise Irregular if a record has a property name twice, which an Arrow map must not."""
        codes = names.dictionary_encode()
        kinds = len(codes.dictionary)
        row = np.repeat(np.arange(len(self.first) - 1, dtype=np.int64), np.diff(self.first))
        cells = row * kinds + numbers(codes.indices)
        repeated = len(np.unique(cells)) < len(cells) if kinds > 64 else (np.bincount(cells) > 1).any()
        if repeated:
            raise Irregular("a property name twice in one record")


def _number_type(length: int) -> str:
    """Return the NumPy type in which names of ``length`` bytes are compared.

    That is an integer if one has this size, since comparing integers is ten times as fast as comparing text.
    """
    return f"u{length}" if length in (1, 2, 4, 8) else f"S{length}"


def _as_number(name: bytes) -> Any:
    return np.frombuffer(name, _number_type(len(name)))[0]


def _separators(data: Bytes, ends: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the positions of the separators that end names, and of those that end entries.

    :param ends: byte positions in ``data`` where each record's properties start, followed by the end of the last.
    :raises Irregular: the separators do not alternate, or a record's properties do not end with one.
    """
    at = np.flatnonzero(data <= _ENTRY_END).astype(np.int32)
    found = data[at]
    name_end, entry_end = at[0::2], at[1::2]
    if len(at) & 1 or (found[0::2] != _NAME_END).any() or (found[1::2] != _ENTRY_END).any():
        raise Irregular("separators of properties do not alternate, or a byte is 0")
    last = ends[1:][np.diff(ends) > 0] - 1
    if (data[last] != _ENTRY_END).any():
        raise Irregular("properties without a final separator")
    return name_end, entry_end


def _strings(bounds: NDArray[np.int32], data: Bytes) -> Any:
    array = pa.Array.from_buffers(pa.string(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    if len(data) and data.max() > 127:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as e:
            raise Irregular(f"properties are not UTF-8: {e}") from e
    return array
