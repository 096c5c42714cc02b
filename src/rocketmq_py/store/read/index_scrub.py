"""Check of the index of an open store: the keys of each record must have entries, and the entries must be linked.

The index files are read beside the log, block by block, as their entries are nearly in the order of the log; only keys
and entries of a few megabytes of the log are in memory. Nothing here waits for a disk: the caller loads the parts of
:meth:`IndexScrub.needs` in a thread and then runs :meth:`IndexScrub.check` in slices, again and again.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rocketmq_py.store.fs.residency import Part
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.index.index_file import IndexFile
from rocketmq_py.store.log.scan import Found
from rocketmq_py.store.queue.dispatch import RecordDispatch
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.settings import StoreConfig

_log = logging.getLogger(__name__)

_BLOCK = 6_000
"""Number of entries that are read at once, and four times as many slots."""
_A_STEP = 250
_BUCKET = 21
"""Keys and entries are compared by parts of the log of 2 MiB: the number of bits of an offset in such a part."""
_MOST_DOUBTFUL = 10_000
_HASH_BITS = 32
_HASH_MASK = (1 << _HASH_BITS) - 1


def _place(physical: int, key_hash: int) -> int:
    """Return physical offset of a record and hash of a key as one number."""
    return physical << _HASH_BITS | key_hash & _HASH_MASK


class _Block(NamedTuple):
    """Entries or slots of a file that are checked next."""

    begin: int
    length: int
    has_slots: bool


class _FileCheck:
    """The check of one index file: each entry must point to the entry before it in its slot, each slot to its last."""

    def __init__(self, file: IndexFile) -> None:
        self.file = file
        self._next_entry, self._next_slot = 1, 0
        self.wrong = 0
        """Number of entries and slots that point elsewhere."""
        self._newest = memoryview(bytearray(4 * file.slot_count)).cast("i")

    def plan(self, until: int, *, is_complete: bool) -> _Block | None:
        """Return what is read next; None if nothing is for now.

        :param until: number of the entry to stop at.
        :param is_complete: whether no entries follow, so that the slots can be checked.
        """
        if self._next_entry < until:
            return _Block(self._next_entry, min(_BLOCK, until - self._next_entry), has_slots=False)
        if is_complete and self._next_slot < self.file.slot_count:
            return _Block(self._next_slot, min(4 * _BLOCK, self.file.slot_count - self._next_slot), has_slots=True)
        return None

    def entries(self, block: _Block) -> Iterator[tuple[int, int]]:
        """Iterate over physical offset and hash of the entries of a block, and check where they point to."""
        newest, slots = self._newest, len(self._newest)
        entries = self.file.entries(block.begin, block.begin + block.length)
        for number, (value, physical, _, previous) in enumerate(entries, block.begin):
            slot = value % slots
            self.wrong += previous != newest[slot]
            newest[slot] = number
            yield physical, value
        self._next_entry = block.begin + block.length

    def check_slots(self, block: _Block) -> None:
        """Check the slots of a block; those that point to entries added meanwhile are right."""
        self._next_slot = end = block.begin + block.length
        found, wanted = self.file.slots(block.begin, end), array("i", self._newest[block.begin : end].tobytes())
        if found != wanted:
            pairs = zip(found, wanted, strict=True)
            self.wrong += sum(a != b and not self._next_entry <= a < self.file.count for a, b in pairs)


class IndexScrub:
    """Compares the index with the records that :meth:`take` gets in the order of the log."""

    def __init__(self, index: MessageIndex, queues: QueueTable, config: StoreConfig) -> None:
        self._index = index
        self._keys = index.anew()
        self._dispatch = RecordDispatch(config, queues, self._keys, lambda: None)
        self._disorder = 2 * config.max_message_size
        """Entries of so many bytes of the log may be in any order: the keys of a batch are added together."""
        self._known: set[str] = set()
        self._log_end = 0
        self.damages = 0
        """Number of damages that were logged."""
        self._begin_pass()

    def _begin_pass(self) -> None:
        self._is_active = self._index.is_enabled and not self._index.is_unfinished
        self._current: _FileCheck | None = None
        self._last: Path | None = None
        self._block: _Block | None = None
        self._reached = -1
        """Entries of records before it, but for the last megabytes, are read."""
        self._position = 0
        """Offset of the log before which all records were taken."""
        self._first: int | None = None
        """Physical offset of the first entry: earlier messages cannot be found by key."""
        self._wanted: defaultdict[int, set[int]] = defaultdict(set)
        self._filed: defaultdict[int, set[int]] = defaultdict(set)
        self._end: int | None = None
        """At the end of the log: the offset before which all keys have entries."""
        self._counts: dict[Path, int] = {}
        """The index files at the end of the log, with the numbers of their next entries."""
        self._missing = array("q")
        """Physical offsets of keys without entries."""
        self._wrong: dict[str, int] = {}
        self._doubtful: list[tuple[int, int]] = []
        """Parts of the log whose records may not have the keys that they were stored with."""

    # -- records

    def doubt(self, begin: int, end: int) -> None:
        """Note a part of the log whose keys say nothing about the index in this pass.

        It is damaged, or is the record before damage: properties have no checksum.
        """
        if len(self._doubtful) < _MOST_DOUBTFUL:
            self._doubtful.append((begin, end))
        else:
            first, last = self._doubtful[-1]
            self._doubtful[-1] = min(first, begin), max(last, end)

    def _is_doubtful(self, physical: int) -> bool:
        place = bisect_right(self._doubtful, (physical, self._log_end)) - 1
        return place >= 0 and physical < self._doubtful[place][1]

    def take(self, found: Found) -> None:
        """Take a record of the log, whose keys must have entries."""
        if self._is_active:
            self._dispatch.index(found)

    def end_pass(self, log_end: int) -> None:
        """Note that the log is read to its end: the pass goes on until :meth:`needs` returns nothing."""
        waiting = self._index.waiting_from
        self._end = log_end if waiting is None else waiting
        self._counts = {file.path: file.count for file in self._index.files}

    # -- files

    def needs(self, position: int, log_end: int) -> list[Part]:
        """Return the part of an index file to load next, for the records before an offset of the log.

        :param log_end: where the log ends: entries cannot be of records behind that.

        An empty list says that all entries needed so far are read.
        """
        self._position, self._log_end = max(self._position, position), log_end
        self._block = self._plan()
        if self._block is None or self._current is None:
            return []
        file, (begin, length, has_slots) = self._current.file, self._block
        return [file.slots_part(begin, length) if has_slots else file.entries_part(begin, length)]

    def _plan(self) -> _Block | None:
        """Return what is to be read next; goes on to the next file if one is read to its end."""
        while self._goes_on:
            current = self._current
            if current is None or current.file.is_detached:
                self._current = current = self._following()
            if current is None:
                return None
            is_complete = self._end is not None or current.file is not self._index.files[-1]
            until = current.file.count if self._end is None else self._counts.get(current.file.path, 0)
            block = current.plan(until, is_complete=is_complete)
            if block is not None or not is_complete:
                return block
            if current.wrong:
                self._wrong[str(current.file.path)] = current.wrong
            self._current = None
        return None

    @property
    def _goes_on(self) -> bool:
        """True if entries must be read for the records that were taken; at the end of the log all are read."""
        if self._end is None:
            return self._is_active and 0 < self._position > self._reached - self._disorder
        return self._is_active

    def _following(self) -> _FileCheck | None:
        """Begin with the file behind the last one; None if there is none."""
        for file in self._index.files:
            if (self._last is None or file.path > self._last) and (self._end is None or file.path in self._counts):
                self._last = file.path
                return _FileCheck(file)
        return None

    # -- checking

    def check(self) -> Iterator[None]:
        """Check what was loaded, and the keys whose entries must have been read, in short steps."""
        while hashes := self._keys.take_hashes(_A_STEP):
            for physical, value in hashes:
                self._wanted[physical >> _BUCKET].add(_place(physical, value))
            yield
        block, self._block, current = self._block, None, self._current
        if block is not None and current is not None and not current.file.is_detached:
            if block.has_slots:
                current.check_slots(block)
            else:
                yield from self._read_entries(current, block)
        yield from self._compare(self._settled)
        if self._end is not None and self._plan() is None:
            yield from self._compare(self._end, has_ended=True)
            self._report()
            self._begin_pass()

    @property
    def _settled(self) -> int:
        """Offset of the log before which all records were taken, and all their entries are read."""
        return min(self._position, self._reached - self._disorder)

    def _read_entries(self, current: _FileCheck, block: _Block) -> Iterator[None]:
        physicals = array("q")
        for number, (physical, value) in enumerate(current.entries(block)):
            if 0 <= physical < self._log_end:
                physicals.append(physical)
                self._filed[physical >> _BUCKET].add(_place(physical, value))
            if number % _A_STEP == 0:
                yield
        if not physicals:
            return
        # Not the last one: a damaged entry can have any offset.
        middle = sorted(physicals)[len(physicals) // 2]
        if self._first is None:
            self._first = min(physicals[0], middle)
        self._reached = max(self._reached, middle)

    def _compare(self, settled: int, *, has_ended: bool = False) -> Iterator[None]:
        """Look for keys without entries, of records before an offset of the log.

        :param has_ended: whether nothing else will be compared, so that the last part may be shorter.
        """
        first = settled if self._first is None else self._first
        for bucket in sorted(one for one in self._wanted if has_ended or (one + 1) << _BUCKET <= settled):
            filed, wanted = self._filed.pop(bucket, set()), self._wanted.pop(bucket)
            for number, place in enumerate(wanted):
                if place not in filed and first <= place >> _HASH_BITS < settled:
                    self._missing.append(place >> _HASH_BITS)
                if number % _A_STEP == 0:
                    yield
        for bucket in [one for one in self._filed if (one + 1) << _BUCKET <= settled]:
            del self._filed[bucket]
        yield

    def _report(self) -> None:
        for path, count in self._wrong.items():
            self._tell(f"{path} is damaged: {count} of its slots and entries point elsewhere")
        self._doubtful.sort()
        missing = [physical for physical in self._missing if not self._is_doubtful(physical)]
        if missing:
            self._tell(
                f"{self._index.directory} is damaged: {len(missing)} keys of messages from {min(missing)} "
                f"to {max(missing)} of the commit log have no entry"
            )

    def _tell(self, text: str) -> None:
        if text in self._known:
            return
        self._known.add(text)
        self.damages += 1
        _log.warning(
            "%s, so that messages cannot be found by key; stop the broker and remove %s: the next start rebuilds it",
            text, self._index.directory,
        )  # fmt: skip
