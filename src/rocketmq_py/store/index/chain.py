"""A search in one index file: follows the links between the entries of a slot, from the newest to the oldest.

It begins on the event loop. From the first entry on that is not in memory, a thread continues it, and likewise after
many entries: a key that very many messages have makes a chain of any length. The thread pauses between short slices of
such a chain. Otherwise the event loop would wait for Python's lock again and again, for 5 ms each time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import Struct
from time import sleep
from typing import NamedTuple

from rocketmq_py.store.fs.filesystem import File, FileSystem

ENTRY_SIZE = 20
_ENTRY = Struct(">iqii")
_BLOCK = 64 * 1024
"""Number of bytes that the thread reads at once; entries of one time are near each other."""
_MOST_ON_LOOP = 1_000
"""Maximum number of entries that are read on the event loop; more are read in a thread."""
_SLICE = 1_000
"""Maximum number of entries that the thread reads between two pauses; it takes about half a millisecond."""
_PAUSE = 0.000_5
"""Seconds of a pause."""


class Wanted(NamedTuple):
    """What a search looks for.

    :ivar begin: begin of the time window; ``begin`` and ``end`` are inclusive, in milliseconds since the epoch.
    """

    key_hash: int
    limit: int
    begin: int
    end: int


class Place(NamedTuple):
    """Where the entries of an index file are.

    :ivar size: of the file.
    :ivar entries_at: position of entry 0.
    """

    path: Path
    size: int
    entries_at: int


class Chain:
    """The entries of a slot that a search has not read yet, and what it has found.

    :param begin_timestamp: of the file, in milliseconds; times of entries are in whole seconds since then.
    :param first: the number of the first entry.
    :param count: the number of the next entry of the file: entries before it do not change.
    """

    def __init__(self, place: Place, begin_timestamp: int, wanted: Wanted, first: int, count: int) -> None:
        self.path, self._size, self._entries_at = place
        self._begin_timestamp = begin_timestamp
        self._key_hash, self._limit, self._begin, self._end = wanted
        self._number = first if first < count else 0
        self.found: list[int] = []
        """Physical offsets of the entries with the hash and within the time window, newest first."""

    @property
    def is_done(self) -> bool:
        """True if there are no more entries to read."""
        return self._number <= 0 or len(self.found) >= self._limit

    def follow(self, read: Callable[[int], bytes]) -> None:
        """Read entries to the end of the chain.

        :param read: returns the entry at a position of the file.
        """
        while not self.is_done:
            at = self._entries_at + self._number * ENTRY_SIZE
            self._take(read(at), at, 1)

    def follow_resident(self, read: Callable[[int], bytes], file: File, hot_from: int) -> None:
        """As :meth:`follow`, as long as entries are in memory; at most some thousand.

        :param hot_from: number of the first entry that counts as in memory.
        """
        page = -1
        for _ in range(_MOST_ON_LOOP):
            if self._number <= 0 or len(self.found) >= self._limit:
                return
            at = self._entries_at + self._number * ENTRY_SIZE
            if self._number < hot_from and at >> 12 != page:
                if not file.is_resident(at, ENTRY_SIZE):
                    return
                page = at >> 12 if (at + ENTRY_SIZE - 1) >> 12 == at >> 12 else -1
            self._take(read(at), at, 1)

    def _take(self, data: bytes, start: int, most: int) -> int:
        """Take the next entries as long as they are in ``data``; return how many these are.

        :param data: a part of the file that has the next entry.
        :param start: its position in the file.
        :param most: maximum number of entries.
        """
        number, found, limit, key_hash = self._number, self.found, self._limit, self._key_hash
        begin, end, begin_timestamp = self._begin, self._end, self._begin_timestamp
        base, count = self._entries_at - start, 0
        while count < most and number > 0 and len(found) < limit and (at := base + number * ENTRY_SIZE) >= 0:
            value, physical, seconds, previous = _ENTRY.unpack_from(data, at)
            time = begin_timestamp + seconds * 1000
            if value == key_hash and begin <= time <= end:
                found.append(physical)
            # Entries point to older ones only; anything else is damage and could cause an endless loop.
            number = 0 if seconds < 0 or time < begin or previous >= number else previous
            count += 1
        self._number = number
        return count

    def load(self, fs: FileSystem) -> None:
        """Read the rest of the chain. Called in a thread; the file may have been removed.

        :raises OSError: the disk fails.
        """
        try:
            file = fs.open(self.path, self._size, create=False)
        except FileNotFoundError:
            self._number = 0
            return
        try:
            self._follow_blocks(_Blocks(fs, file))
        finally:
            file.close()

    def _follow_blocks(self, blocks: _Blocks) -> None:
        left = _SLICE
        while not self.is_done:
            left -= self._take(*blocks.with_entry(self._entries_at + self._number * ENTRY_SIZE), left)
            if not left:
                sleep(_PAUSE)
                left = _SLICE


class _Blocks:
    """Reads entries of a file through the file system, so that other threads run while the disk reads."""

    def __init__(self, fs: FileSystem, file: File) -> None:
        self._fs = fs
        self._file = file
        self._start, self._data = 0, b""

    def with_entry(self, at: int) -> tuple[bytes, int]:
        """Return a block that has the entry at a position, and the block's own position."""
        if not 0 <= at - self._start <= len(self._data) - ENTRY_SIZE:
            # Older entries, which are read next, are before this one.
            self._start = max(0, at + ENTRY_SIZE - _BLOCK)
            length = at + ENTRY_SIZE - self._start
            self._fs.load(self._file.path, self._start, length)
            self._data = self._file.read(self._start, length)
        return self._data, self._start
