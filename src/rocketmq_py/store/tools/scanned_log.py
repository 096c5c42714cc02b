"""Scan of a whole commit log for its repair: what is whole, what is damaged, and what a replica has of that."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from rocketmq_py.protocol.sys_flag import TRANSACTION_ROLLBACK
from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.pieces import Piece
from rocketmq_py.store.log.scan import Found, LogScan, next_record
from rocketmq_py.store.tools.heal import Part, Replica, parts
from rocketmq_py.store.tools.offline import OfflineStore

Key = tuple[str, int]
Progress = Callable[[int, int], None]
_BLOCK = 1024 * 1024


class Gap(NamedTuple):
    """A part of the commit log without whole records, and what is wrong there."""

    begin: int
    end: int
    what: str


class Lost(NamedTuple):
    """Messages of a queue that are lost for good: offsets ``first`` to ``last``."""

    topic: str
    queue_id: int
    first: int
    last: int


class ScannedLog:
    """The commit log of a store.

    :ivar seen: queue offsets of the whole records, by queue.
    :ivar end: offset after the last whole record.
    """

    def __init__(self, store: OfflineStore, progress: Progress | None = None) -> None:
        self._store = store
        self._log = store.log
        self._progress = progress
        self._whole: list[tuple[int, int]] = []
        """Offset and size of the first and the last record of each undamaged part."""
        self.records = 0
        self.end = 0
        self.seen: dict[Key, list[int]] = {}

    def gaps(self) -> Iterator[Gap]:
        """Scan the whole log; yield what is damaged between whole records, and behind the last one."""
        log = self._log
        at: int | None = log.min_offset if log.starts else None
        while at is not None:
            scan = LogScan(log, at)
            self._run(scan)
            self.end, at = scan.end, next_record(log, scan.end)
            what = scan.reason or "nothing is written there"
            until = at if at is not None else written_end(log, scan.end) if scan.reason else scan.end
            yield from by_file(scan.end, until, what, log.starts, log.file_size)

    def _run(self, scan: LogScan) -> None:
        log, first, last = self._log, None, None
        for last in scan:
            first = first or last
            self._take(last)
            if self._progress is not None:
                self._progress(last.physical_offset + last.size - log.min_offset, log.end - log.min_offset)
        self._whole += [(one.physical_offset, one.size) for one in (first, last) if one is not None]

    def _take(self, found: Found) -> None:
        self.records += 1
        if found.sys_flag & TRANSACTION_ROLLBACK not in (0, 0x8):  # others have no queue offset
            return
        count = 1
        if dispatch_fields.is_inner_batch(found.sys_flag):
            count = dispatch_fields.inner_count(found.sys_flag, dispatch_fields.parse(found.properties))
        offsets = self.seen.setdefault((found.topic, found.queue_id), [])
        offsets.extend(range(found.queue_offset, found.queue_offset + count))

    # -- from a replica

    def heal(self, gaps: Iterable[Gap], replica: Replica, lost: Iterable[Lost]) -> list[Part]:
        """Return the parts of the log that a replica has and this log lacks: in the gaps, and after its end.

        The records of these parts are counted as if this log had them. A gap is filled only if the replica also has
        the whole record before or after it: otherwise it may be the log of another broker.

        :param lost: messages that are not in this log.
        :raises StoreError: the replica has another log.
        """
        starts = self._starts(lost)
        walks: list[tuple[int, int | None]] = [(gap.begin, gap.end) for gap in gaps if gap.end <= self.end]
        healed: list[Part] = []
        for begin, end in [*walks, (self.end, None)]:
            neighbours = self._neighbours(begin)
            if not replica.same(neighbours):
                continue
            first = begin
            if end is not None and neighbours[0][0] < begin and replica.differs(*neighbours[0]):
                first = neighbours[0][0]  # the damage begins in its properties
            healed += parts(self._taken(replica.pieces(first, end, starts), begin))
        self.end = max(self.end, *(part.end for part in healed), 0)
        return healed

    def _taken(self, pieces: Iterable[Piece], begin: int) -> Iterator[Piece]:
        for piece in pieces:
            if piece.found is not None and piece.begin >= begin:  # others were whole
                self._take(piece.found)
            yield piece

    def _neighbours(self, begin: int) -> list[tuple[int, int]]:
        """The whole records before and behind an offset."""
        at = bisect_left(self._whole, (begin, 0))
        return self._whole[max(0, at - 1) : at + 1]

    def _starts(self, lost: Iterable[Lost]) -> list[int]:
        """Where lost messages began, as far as consume queues know; where an entry is wrong, the replica has none."""
        found = []
        for one in lost:
            view = self._store.queues.get((one.topic, one.queue_id))
            entries = view.read(one.first, one.last - one.first + 1) if view is not None else []
            found += [physical for physical, _, _ in entries]
        return sorted(found)

    def expects(self, found: Found) -> bool:
        """Return whether the consume queue can have this record at its offset."""
        view = self._store.queues.get((found.topic, found.queue_id))
        entry = next(iter(view.read(found.queue_offset, 1)), None) if view is not None else None
        return entry is None or entry[0] != found.physical_offset or entry[1] == found.size


def written_end(log: CommitLog, begin: int) -> int:
    """Offset after the last byte behind ``begin`` that is not zero."""
    for start in reversed([start for start in log.starts if start + log.file_size > begin]):
        buffer = log.buffer(start)
        assert buffer is not None
        end, first = log.file_size, max(0, begin - start)
        while end > first:
            block = buffer[max(first, end - _BLOCK) : end].rstrip(b"\0")
            if block:
                return start + max(first, end - _BLOCK) + len(block)
            end -= _BLOCK
    return begin


def by_file(begin: int, end: int, what: str, starts: Iterable[int], size: int) -> Iterator[Gap]:
    """The parts of a gap in each file that is there."""
    for start in starts:
        first, last = max(begin, start), min(end, start + size)
        if first < last:
            yield Gap(first, last, what)


def left(gaps: Iterable[Gap], healed: Iterable[Part]) -> Iterator[Gap]:
    """The parts of gaps that are not healed."""
    healed = sorted(healed)
    for gap in gaps:
        begin = gap.begin
        for part in healed:
            if part.end > begin and part.begin < gap.end:
                if part.begin > begin:
                    yield gap._replace(begin=begin, end=part.begin)
                begin = part.end
        if begin < gap.end:
            yield gap._replace(begin=begin)


def missing(key: Key, offsets: list[int], end: int) -> Iterator[Lost]:
    """The offsets between those of a queue's records, and behind them up to its end."""
    following = min(offsets)
    for offset in [*sorted(set(offsets)), end]:
        if offset > following:
            yield Lost(*key, following, offset - 1)
        following = max(following, offset + 1)
