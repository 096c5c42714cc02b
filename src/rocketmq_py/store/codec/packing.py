"""Packing many entries of one layout at once.

One call of ``struct`` for many entries is much faster than one call for each, but it needs a layout for each number of
entries. This module keeps layouts for powers of two only.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

_LARGEST = 9
"""At most two to this power entries are packed in one call."""


class Entries:
    """Packer of concatenated entries of one layout.

    :param unit: the struct codes of one entry, without repetitions (``qiq``); packed big-endian.
    """

    def __init__(self, unit: str) -> None:
        self._width = len(unit)
        self._one = Struct(">" + unit).pack
        self._layouts = [Struct(">" + unit * (1 << power)) for power in range(_LARGEST + 1)]

    def pack(self, flat: Sequence[int]) -> bytes:
        """Pack entries given as a flat sequence of fields."""
        if len(flat) == self._width:
            return self._one(*flat)
        count = len(flat) // self._width
        power = count.bit_length() - 1
        if 0 < count == 1 << power and power <= _LARGEST:
            return self._layouts[power].pack(*flat)
        parts, at = [], 0
        while count:
            power = min(count.bit_length() - 1, _LARGEST)
            end = at + (self._width << power)
            parts.append(self._layouts[power].pack(*flat[at:end]))
            at, count = end, count - (1 << power)
        return b"".join(parts)
