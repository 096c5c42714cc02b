"""Several queues of a topic in the order of the log, so that a part of it that has records of all is read once.

A plan is cut where the log is (:func:`log_parts`), and a task goes through its part block by block (:func:`swept`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rocketmq_py.arrow.offline.records import Entries, entries_of, is_record
from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.store.tools.store_files import QueueView

_SAMPLES, _OF_A_GROUP = 512, 8
"""Entries that are looked at to find out how a plan is spread over the log, and for each group at least; 20 us each."""
_AT_ONCE = 32 * 1024
"""Consume queue entries that are in memory, of all queues together."""
_LEAST_ENTRIES = 256
_SMALL = 8192
"""A range with no more entries is read at once to find a place in it."""
_LEAST_BLOCK, _MOST_BLOCK = 2 * 1024 * 1024, 16 * 1024 * 1024
_OF_A_QUEUE = 64 * 1024
"""Bytes of each queue that a block should have: a piece of a queue costs as much as some hundred records."""
_WIDEST = 1 << 30
_DENSE = 4
"""A block of which at least a fourth is wanted is read as a whole."""


class Stored(NamedTuple):
    """A range of a queue and its consume queue; None if that is missing."""

    range: QueueRange
    view: QueueView | None


class Piece(NamedTuple):
    """Consecutive offsets of a queue whose records are in one block of the log, with their entries."""

    range: QueueRange
    entries: Entries


def log_parts(ranges: Sequence[Stored], number: int) -> list[list[QueueRange]]:
    """Cut ranges into ``number`` groups, each with about as many messages, whose records are next to each other.

    Each range is cut at the same places of the log; groups without messages are left out.
    """
    bounds = _bounds(ranges, number)
    groups: list[list[QueueRange]] = [[] for _ in range(len(bounds) + 1)]
    for one, view in ranges:
        cuts = [one.start, *_cuts(one, view, bounds), one.stop]
        for group, (start, stop) in zip(groups, pairwise(cuts), strict=True):
            if start < stop:
                group.append(one._replace(start=start, stop=stop))
    return [group for group in groups if group]


def _bounds(ranges: Sequence[Stored], number: int) -> list[int]:
    """Return ascending offsets of the log between which there are about as many messages."""
    samples = max(_SAMPLES, _OF_A_GROUP * number)
    places: list[int] = []
    weights: list[float] = []
    for one, view in ranges:
        count = min(one.size, max(1, samples // len(ranges)))
        places += [_physical(view, one.start + at * one.size // count) for at in range(count)]
        weights += [one.size / count] * count
    order = np.argsort(np.array(places, np.int64), kind="stable")
    before = np.cumsum(np.array(weights)[order])
    at = np.searchsorted(before, before[-1] * np.arange(1, number) / number)
    return [int(place) for place in np.array(places, np.int64)[order][at]]


def _cuts(one: QueueRange, view: QueueView | None, bounds: Sequence[int]) -> list[int]:
    """Return for each bound the first offset of a range whose record is there or behind it."""
    if view is not None and one.size <= _SMALL:
        entries = entries_of(view.raw(one.start, one.size), one.start)
        if len(entries.offsets) == one.size:
            found = np.searchsorted(np.maximum.accumulate(entries.physical), bounds)
            return [one.start + int(at) for at in found]
    offsets = range(one.start, one.stop)
    cuts = [one.start + bisect_left(offsets, bound, key=lambda offset: _physical(view, offset)) for bound in bounds]
    return [max(cuts[: at + 1]) for at in range(len(cuts))]


def _physical(view: QueueView | None, offset: int) -> int:
    found = [] if view is None else view.read(offset, 1)
    return min(max(found[0][0], 0), (1 << 63) - 1) if found else 0


class _Cursor:
    """The entries of a range, from the first one that no piece has yet.

    :param at_once: number of entries to read at once.
    """

    def __init__(self, stored: Stored, at_once: int) -> None:
        self._range, self._view = stored
        self._at_once = at_once
        self._begin = self._read = self._range.start
        self._entries = entries_of(b"", 0)
        self.is_over = False

    def physical(self) -> int | None:
        """Return where the next record is in the log; None if no entry is left."""
        self._fill()
        return int(self._entries.physical[0]) if len(self._entries.offsets) else None

    def _fill(self) -> None:
        while self._view is not None and not len(self._entries.offsets) and self._read < self._range.stop:
            count = min(self._at_once, self._range.stop - self._read)
            self._entries = entries_of(self._view.raw(self._read, count), self._read)
            found = len(self._entries.offsets)
            self._read = self._read + found if found else min(self._view.next_file(self._read), self._range.stop)

    def take(self, limit: int) -> Piece | None:
        """Return the entries up to the first one of a record at ``limit`` or behind it; None if there are none."""
        taken: list[Entries] = []
        while self.physical() is not None:
            behind = np.flatnonzero(self._entries.physical >= limit)
            count = int(behind[0]) if len(behind) else len(self._entries.offsets)
            if count:
                taken.append(self._entries.only(slice(0, count)))
            self._entries = self._entries.only(slice(count, None))
            if len(behind):
                break
        self.is_over = self.physical() is None
        if not taken and not self.is_over:
            return None
        stop = self._range.stop if self.is_over else int(taken[-1].offsets[-1]) + 1
        begin, self._begin = self._begin, stop
        return Piece(self._range._replace(start=begin, stop=stop), _together(taken))


def _together(parts: Sequence[Entries]) -> Entries:
    if not parts:
        return entries_of(b"", 0)
    return parts[0] if len(parts) == 1 else Entries(*map(np.concatenate, zip(*parts, strict=True)))


def swept(
    ranges: Sequence[Stored], file_size: int, wanted: Callable[[Entries], NDArray[np.bool_]],
    hold: Callable[[int, int], None],
) -> Iterator[Piece]:  # fmt: skip
    """Yield the ranges in pieces, in the order of the log; the pieces of a queue are in the order of its offsets.

    :param file_size: bytes of a file of the log.
    :param wanted: returns which entries are those of records that are read.
    :param hold: called before the pieces of a block with its begin and end, if it is read as a whole.
    """
    cursors = [_Cursor(one, max(_LEAST_ENTRIES, _AT_ONCE // len(ranges))) for one in ranges]
    aim = min(max(_OF_A_QUEUE * len(ranges), _LEAST_BLOCK), _MOST_BLOCK)
    width = aim
    while cursors:
        begin = min((at for cursor in cursors if (at := cursor.physical()) is not None), default=0)
        limit = min(begin + width, begin - begin % file_size + file_size)
        pieces = [piece for cursor in cursors if (piece := cursor.take(limit)) is not None]
        size = _held(pieces, wanted, hold)
        yield from pieces
        width = min(max(width * aim // max(size, 1), width // 2, _LEAST_BLOCK), width * 2, _WIDEST)
        cursors = [cursor for cursor in cursors if not cursor.is_over]


def _held(
    pieces: Iterable[Piece], wanted: Callable[[Entries], NDArray[np.bool_]], hold: Callable[[int, int], None]
) -> int:
    """Call ``hold`` if the records of a block are near to each other; return their bytes."""
    entries = _together([piece.entries for piece in pieces])
    found = entries.only(is_record(entries))
    found = found.only(wanted(found))
    if not len(found.offsets):
        return 0
    size = int(found.sizes.sum())
    begin, end = int(found.physical.min()), int((found.physical + found.sizes).max())
    if size * _DENSE >= end - begin and end - begin <= 2 * _MOST_BLOCK:
        hold(begin, end)
    return size
