"""Check of an open store: each record of the commit log is read, and its consume queue entry must find it.

The log is checked in parts. For each part the caller loads the bytes into memory in a thread
(:meth:`Scrub.begin`), runs :meth:`Scrub.records` in slices, loads the entries (:meth:`Scrub.entries`) and runs
:meth:`Scrub.queues` in slices; the last two again while :meth:`Scrub.entries` returns something. Nothing here waits for
a disk.

The caller may fill the damaged parts (:meth:`Scrub.take_gaps`) with what a replica has (:meth:`Scrub.fill`).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Self

from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.fs.residency import Loadable, NotInMemory, Part, Residency
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.flusher import Flusher
from rocketmq_py.store.log.log_parts import LogParts
from rocketmq_py.store.log.pieces import Piece, blank_piece, has_room, parse_piece
from rocketmq_py.store.log.scan import SIZE_MAGIC, Found
from rocketmq_py.store.queue.batch_consume_queue import BatchConsumeQueue
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.read.index_scrub import IndexScrub
from rocketmq_py.store.read.record_check import EntryRepair, Suspect, fits
from rocketmq_py.store.read.strays import Place, place_of
from rocketmq_py.store.read.unit_check import wrong_units
from rocketmq_py.store.settings import StoreConfig

_log = logging.getLogger(__name__)

_RECORDS_A_STEP = 32
_MOST_KNOWN = 10_000
_MOST_STRAYS = 64
"""Maximum number of records in a part that are searched in all queues of their topic: more belong to a topic that was
created again."""

FindQueue = Callable[[str, int], ConsumeQueue | None]


class Counts(NamedTuple):
    """What was found since the store was opened; ``passes`` counts the checks of the whole log that have ended."""

    bytes: int = 0
    records: int = 0
    damages: int = 0
    entries_rebuilt: int = 0
    passes: int = 0
    records_healed: int = 0


class Gap(NamedTuple):
    """A damaged part of the log, and offset and size of whole records near it.

    The size is 0 where nothing is known to be whole. If only the queue id or queue offset of one record is damaged,
    ``head`` has the place that its consume queue entry has.
    """

    begin: int
    end: int
    before: tuple[int, int]
    after: tuple[int, int]
    head: Place | None = None


NOTHING = (0, 0)


class Scrub(LogParts):
    """Checks the records from :attr:`position` on, part after part.

    :param whole_end: returns the offset after the last complete record that is written.
    :param find_queue: returns the consume queue of a topic and queue id, with all entries that can be read; None if
        there is none.
    :param queues_of: returns all consume queues of a topic.
    :param repair: rewrites wrong entries, and knows where reads have met damage.
    :param flusher: syncs what :meth:`fill` writes.
    :param index: the check of the index beside that of the log; None for none.
    :param known: begins of damages that were logged.
    """

    def __init__(
        self, log: CommitLog, whole_end: Callable[[], int], find_queue: FindQueue,
        queues_of: Callable[[str], Sequence[ConsumeQueue]], repair: EntryRepair, flusher: Flusher,
        index: IndexScrub | None = None, known: dict[int, None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(log, whole_end, check_crc=True)
        self._flusher = flusher
        self._index = index
        self.index_bytes = 0
        """Number of bytes of the index that were read with the part."""
        self._find_queue = find_queue
        self._queues_of = queues_of
        self._repair = repair
        self._known: dict[int, None] = {} if known is None else known
        """Begins of damages that were logged, oldest first."""
        self._found: defaultdict[tuple[str, int], list[Found]] = defaultdict(list)
        self._strays: list[tuple[Found, Residency]] = []
        """Records that are not where their heads say."""
        self._batches: list[tuple[list[Found], Residency]] = []
        """Records of each batch consume queue."""
        self._wanted: list[Loadable] = []
        """What the search for those needs next."""
        self._whole = NOTHING
        """Offset and size of the record checked last."""
        self._gaps: list[Gap] = []
        self.counts = Counts()

    def begin(self) -> Part | None:
        """Return the bytes of the log to load for the next part; None at the end, where a pass ends.

        The next call after the end begins again with the oldest file.
        """
        part = super().begin()
        if part is None:
            self._end_pass()
        self.index_bytes = 0
        return part

    def _end_pass(self) -> None:
        if self._damaged_from is not None:
            self._report(self._begin)
        if self._index is not None:
            self._index.end_pass(self.position)
        self.position = 0
        self.counts = self.counts._replace(passes=self.counts.passes + 1)

    def records(self) -> Iterator[None]:
        """Check the records of the part, in short steps."""
        self._found.clear()
        self._strays.clear()
        self._batches.clear()
        return super().records()

    def _take(self, found: Found) -> None:
        self._whole = found.physical_offset, found.size
        counts = self.counts
        self.counts = counts._replace(records=counts.records + 1, bytes=counts.bytes + found.size)
        if self._index is not None:
            self._index.take(found)
        self._will_check(found)

    def _will_check(self, found: Found) -> None:
        if dispatch_fields.has_entry(found.sys_flag):
            self._found[found.topic, found.queue_id].append(found)

    def _damage(self, begin: int, end: int, reason: str) -> None:
        self._add_gap(Gap(begin, end, self._whole, self._record_at(end)), reason)

    def _add_gap(self, gap: Gap, reason: str) -> None:
        self._gaps.append(gap)
        if self._index is not None:
            self._index.doubt(gap.before[0] if gap.before[1] else gap.begin, gap.end)
        if gap.begin in self._known:
            return
        self._known[gap.begin] = None
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self.counts = self.counts._replace(damages=self.counts.damages + 1)
        _log.warning("the commit log is damaged from %d to %d: %s", gap.begin, gap.end, reason)

    def _record_at(self, offset: int) -> tuple[int, int]:
        data = self._log.read(offset, SIZE_MAGIC.size)
        return NOTHING if data is None else (offset, SIZE_MAGIC.unpack(data)[0])

    # -- healing

    @property
    def has_suspects(self) -> bool:
        """True if :meth:`take_suspects` has something to return."""
        return bool(self._repair.suspects)

    def take_suspects(self) -> list[Suspect]:
        """Return where reads have met damage since the last call."""
        suspects = list(dict.fromkeys(self._repair.suspects))
        self._repair.suspects.clear()
        return suspects

    def at(self, offset: int) -> Self:
        """Return a check of the log from an offset on, at which a record begins. It logs no damage again."""
        other = type(self)(
            self._log, self._whole_end, self._find_queue, self._queues_of, self._repair, self._flusher,
            known=self._known,
        )  # fmt: skip
        other.position = offset
        return other

    def add_counts(self, other: Self) -> None:
        """Add the damages, rebuilt entries and healed records of another check to the counts of this one."""
        more = other.counts
        self.counts = self.counts._replace(
            damages=self.counts.damages + more.damages,
            entries_rebuilt=self.counts.entries_rebuilt + more.entries_rebuilt,
            records_healed=self.counts.records_healed + more.records_healed,
        )

    def take_gaps(self) -> list[Gap]:
        """Return the damaged parts whose ends were found since the last call."""
        gaps, self._gaps = self._gaps, []
        return gaps

    def own(self, place: tuple[int, int]) -> bytes | None:
        """Return the bytes of a whole record near a gap; None if the log no longer has it."""
        return self._log.read(*place) if place[1] > 0 else None

    def piece(self, at: int, end: int, data: bytes) -> Piece | None:
        """Return what a replica has at an offset in a gap that goes on to ``end``; None if that does not fit."""
        return blank_piece(self._log, at) if not has_room(self._log, at) else parse_piece(self._log, at, end, data)

    def fill(self, pieces: Sequence[Piece]) -> None:
        """Write pieces, at least one, into the log; :meth:`queues` checks the entries of their records next.

        :raises OSError: the disk is full or fails.
        """
        for piece in pieces:
            self._write(piece)
        self._flusher.request(0, partial(self._log.sync, pieces[0].begin, pieces[-1].end))

    def _write(self, piece: Piece) -> None:
        start = piece.begin - piece.begin % self._log.file_size
        if start not in self._log.starts:
            return  # expired meanwhile
        self._log.file(start).write(piece.begin - start, piece.data)
        if piece.found is not None:
            self._repair.forget(piece.found)
            self._will_check(piece.found)
            self.counts = self.counts._replace(records_healed=self.counts.records_healed + 1)

    # -- consume queues

    def entries(self) -> list[Loadable]:
        """Return the parts of queue and index files that :meth:`queues` needs next: they may not be in memory."""
        wanted, self._wanted = self._wanted, []
        if self._index is not None:
            wanted += (parts := self._index.needs(self.position, self._log.end))
            self.index_bytes += sum(part.length for part in parts)
        residency = Residency()
        for (topic, queue_id), found in self._found.items():
            queue = self._find_queue(topic, queue_id)
            if queue is not None:
                for first, end in _runs(found):
                    queue.needs(max(first, queue.min_offset), end - first, residency)
        try:
            residency.check()
        except NotInMemory as missing:
            wanted += missing.parts
        return wanted

    def queues(self) -> Iterator[None]:
        """Check the entries of the part's records in consume queues, and rewrite those that are wrong; in short steps.

        Also check the next part of the index.
        """
        yield from self._check_entries()
        if self._index is not None:
            before = self._index.damages
            yield from self._index.check()
            self.counts = self.counts._replace(damages=self.counts.damages + self._index.damages - before)

    def _check_entries(self) -> Iterator[None]:
        checked = list(self._found.items())
        self._found.clear()
        for (topic, queue_id), found in checked:
            queue = self._find_queue(topic, queue_id)
            if isinstance(queue, BatchConsumeQueue):
                self._batches.append((found, Residency()))
                continue
            for number, record in enumerate(found):
                if self._is_stray(queue, record) and len(self._strays) < _MOST_STRAYS:
                    self._strays.append((record, Residency()))
                if number % _RECORDS_A_STEP == 0:
                    yield
        strays, self._strays = self._strays, []
        for record, residency in strays:
            yield from self._look_for(record, residency)
        batches, self._batches = self._batches, []
        for records, residency in batches:
            yield from self._check_units(records, residency)

    def _is_stray(self, queue: ConsumeQueue | None, found: Found) -> bool:
        """Check the entry of a record, and rewrite it if it is wrong; return True if the offset is another record's."""
        offset = found.queue_offset
        if queue is not None and queue.is_unfinished:
            return False  # its entries are not there yet
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return True
        entry = queue.entry(offset)
        if entry is None or entry[:2] == (found.physical_offset, found.size):
            return False
        record = self._log.read(entry[0], entry[1])
        if record is not None and fits(record, queue, offset):
            return True  # or the topic was created again: this offset was given to a later record, too
        self._repair.rewrite(queue, found)
        self.counts = self.counts._replace(entries_rebuilt=self.counts.entries_rebuilt + 1)
        return False

    def _look_for(self, found: Found, residency: Residency) -> Iterator[None]:
        """Look for the entry that points to a record, in short steps; if there is one, the record's head is damaged."""
        ids = [queue.queue_id for queue in self._queues_of(found.topic)]
        known = [self._find_queue(found.topic, queue_id) for queue_id in ids]
        queues = [queue for queue in known if queue is not None and not queue.is_unfinished]
        try:
            place = yield from place_of(queues, found, residency)
        except NotInMemory as missing:
            self._strays.append((found, residency))
            self._wanted += missing.parts
            return
        if place is not None:
            begin, end = found.physical_offset, found.physical_offset + found.size
            reason = (
                f"the record says queue {found.queue_id} offset {found.queue_offset} of topic {found.topic}, but the "
                f"consume queue has it at queue {place.queue_id} offset {place.offset}; its body is whole"
            )
            self._add_gap(Gap(begin, end, NOTHING, NOTHING, place), reason)
        yield

    def _check_units(self, found: list[Found], residency: Residency) -> Iterator[None]:
        """Check the units of records of a batch consume queue, in short steps; rewrite those that are wrong."""
        queue = self._find_queue(found[0].topic, found[0].queue_id)
        if not isinstance(queue, BatchConsumeQueue):
            return  # its topic was deleted meanwhile
        try:
            wrong = yield from wrong_units(queue, self._repair.units_of(found), residency)
        except NotInMemory as missing:
            self._batches.append((found, residency))
            self._wanted += missing.parts
            return
        for number, unit in wrong:
            self._repair.rewrite_unit(queue, number, unit)
            self.counts = self.counts._replace(entries_rebuilt=self.counts.entries_rebuilt + 1)
            yield


def scrub_of(
    log: CommitLog, whole_end: Callable[[], int], find_queue: FindQueue, queues: QueueTable, repair: EntryRepair,
    flusher: Flusher, index: MessageIndex, config: StoreConfig,
) -> Scrub:  # fmt: skip
    """Return the check of a store with its index; parameters are those of :class:`Scrub` and :class:`IndexScrub`."""
    of_index = IndexScrub(index, queues, config)
    return Scrub(log, whole_end, find_queue, queues.of_topic, repair, flusher, of_index)


def _runs(found: Sequence[Found]) -> Iterator[tuple[int, int]]:
    """Iterate over begin and end of each run of following offsets: a damaged offset must not make one of millions."""
    first = end = found[0].queue_offset
    for record in found:
        if record.queue_offset != end:
            yield first, end
            first = end = record.queue_offset
        end += 1
    yield first, end
