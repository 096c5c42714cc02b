"""Lines of families with thousands of series, in blocks that are kept as long as what they say stays the same.

To format a line takes a multiple of the time in which one sees that nothing of it has changed, and most of the groups
and topics of a large broker are at rest from one exposition to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

Row = TypeVar("Row")

ROWS = 20
"""Rows of a block: few enough for one step of work in slices."""


class Blocks(Generic[Row]):
    """The blocks of some families, which have one series each for every row.

    An exposition calls :meth:`fill`, or :meth:`begin`, :meth:`add` for each block and :meth:`end`.

    :param make: returns the lines of some rows, a text for each family.
    :ivar series: the number of series of each family.
    """

    def __init__(self, make: Callable[[list[Row]], Sequence[str]]) -> None:
        self._make = make
        self._kept: list[tuple[list[Row], list[bytes]]] = []
        self._count = 0
        self.series = 0

    def fill(self, rows: Iterator[Row]) -> Iterator[None]:
        """Make an exposition of some rows, in short steps."""
        self.begin()
        while block := list(islice(rows, ROWS)):
            self.add(block)
            yield
        self.end()

    def begin(self) -> None:
        """Begin an exposition."""
        self._count = self.series = 0

    def add(self, rows: list[Row]) -> None:
        """Add the next block."""
        number = self._count
        self._count = number + 1
        self.series += len(rows)
        if number == len(self._kept):
            self._kept.append((rows, self._lines(rows)))
        elif self._kept[number][0] != rows:
            self._kept[number] = rows, self._lines(rows)

    def end(self) -> None:
        """Forget the blocks of the last exposition that this one does not have."""
        del self._kept[self._count :]

    def of(self, family: int) -> Iterator[bytes]:
        """Return the blocks of one of the families."""
        return (lines[family] for _, lines in self._kept)

    def _lines(self, rows: list[Row]) -> list[bytes]:
        return [text.encode() for text in self._make(rows)]
