"""A pass over the records of an open log, part by part, that never waits for the disk.

For each part the caller loads the bytes into memory in a thread (:meth:`LogParts.begin`) and runs
:meth:`LogParts.records` in slices. Behind damage the pass continues with the next whole record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from rocketmq_py.store.fs.residency import Part
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.scan import SIZE_MAGIC, Found, LogScan, first_record
from rocketmq_py.wire.record import MAGIC_BLANK, MIN_SIZE

PART_BYTES = 2 * 1024 * 1024
"""Bytes of the log in a part, or more where a record is longer."""
_READ_BEYOND = 1024 * 1024
"""A search for the next whole record reads as far behind a part."""
_RECORDS_A_STEP = 32


class LogParts(ABC):
    """Reads the records from :attr:`position` on; subclasses say what is done with them.

    :param whole_end: returns the offset after the last complete record that is read.
    :param check_crc: whether a record whose body has another checksum counts as damaged.
    """

    def __init__(self, log: CommitLog, whole_end: Callable[[], int], *, check_crc: bool) -> None:
        self._log = log
        self._whole_end = whole_end
        self._check_crc = check_crc
        self._begin = self._end = 0
        self._part_bytes = self._usual_bytes = PART_BYTES
        self._damaged_from: int | None = None
        self._reason = ""
        self.position = 0
        """Offset of the log up to which it is read in this pass."""

    def begin(self) -> Part | None:
        """Return the bytes of the log to load for the next part; None at the end of the log."""
        log = self._log
        self._begin = max(self.position, log.min_offset)
        start = self._begin - self._begin % log.file_size
        self._end = min(self._begin + self._part_bytes, start + log.file_size, self._whole_end())
        if self._end <= self._begin:
            return None
        length = min(self._end + _READ_BEYOND, start + log.file_size) - self._begin
        return Part(log.path(start), self._begin - start, length)

    @property
    def part_bytes(self) -> int:
        """Number of bytes that are read in the part; more are loaded, most of which belong to the next one."""
        return self._end - self._begin

    def records(self) -> Iterator[None]:
        """Read the records of the part, in short steps."""
        log, self.position = self._log, self._begin
        start = self._begin - self._begin % log.file_size
        goes_on = start in log.starts  # False if the file was removed while its bytes were loaded
        while goes_on and self.position < self._end:
            if self._damaged_from is not None and not self._find_next(start):
                return
            scan = LogScan(log, self.position, check_crc=self._check_crc)
            scan.until = self._end
            for number, found in enumerate(scan):
                self.position = found.physical_offset + found.size
                self._take(found)
                if number % _RECORDS_A_STEP == 0:
                    yield
            goes_on = self._ended(scan.end, scan.reason)

    @abstractmethod
    def _take(self, found: Found) -> None:
        """Take a record."""

    @abstractmethod
    def _damage(self, begin: int, end: int, reason: str) -> None:
        """Take a damaged part of the log; a whole record begins at ``end``."""

    def _ended(self, at: int, reason: str | None) -> bool:
        """Take over where and why a scan has ended; return True if the rest of the part is to be searched for records.

        A scan ends with the part, in a record that goes on behind it, with the blank record of its file, or at damage.
        """
        log, self.position = self._log, at
        if at >= self._end:
            return False
        if reason is None:
            following = log.next_file(at)
            size, magic = SIZE_MAGIC.unpack(log.read(at, SIZE_MAGIC.size) or bytes(SIZE_MAGIC.size))
            if magic == MAGIC_BLANK and size == following - at:
                self.position = following
                return False
            can_grow = self._end < min(following, self._whole_end())
            if size >= MIN_SIZE and magic != MAGIC_BLANK and (at > self._begin or can_grow):
                self._part_bytes = self._usual_bytes if at > self._begin else 2 * self._part_bytes
                return False
            reason = "nothing is written there" if not size else f"a record of {size} bytes cannot be here"
        self._damaged_from, self._reason = at, reason
        self.position = at + 1
        return True

    def _find_next(self, start: int) -> bool:
        """Move on to the next whole record of the part and report the damage before it; return False if there is none.

        :param start: offset at which the file begins.
        """
        found = first_record(self._log, start, self.position - start, self._end - start)
        self.position = self._end if found is None else found
        if found is not None:
            self._report(found)
        return found is not None

    def _report(self, end: int) -> None:
        begin, self._damaged_from = self._damaged_from, None
        assert begin is not None
        self._damage(begin, end, self._reason)

    @property
    def is_in_damage(self) -> bool:
        """True if the end of a damaged part is not found yet."""
        return self._damaged_from is not None
