"""Packing many entries of one layout at once.

``struct`` packs a thousand fields in one call almost as fast as one, but a layout has to be prepared for each number of
entries. Here layouts are kept for the powers of two only, so that few are needed whatever the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

_LARGEST = 9
"""Entries packed in one call are at most two to this power."""


class Entries:
    """Entries of one layout, back to back.

    :param unit: the struct codes of one entry, without repetitions (``qiq``); packed big-endian.
    """

    def __init__(self, unit: str) -> None:
        self._width = len(unit)
        self._layouts = [Struct(">" + unit * (1 << power)) for power in range(_LARGEST + 1)]

    def pack(self, flat: Sequence[int]) -> bytes:
        """The bytes of entries given as their fields one after the other."""
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
