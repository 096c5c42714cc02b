"""Checks that the bytes to which a consume queue entry points are its record, and the repair of wrong entries.

Bodies are not checked here: consumers compare them with their checksums.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Sequence
from struct import Struct, error as StructError
from typing import NamedTuple

from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.fs.filesystem import Buffer
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.scan import Found, LogScan
from rocketmq_py.store.queue.batch_consume_queue import BatchConsumeQueue, BatchUnit
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.read.unit_check import unit_of
from rocketmq_py.wire.record import MAGIC_V1, MAGIC_V2, MIN_SIZE

_log = logging.getLogger(__name__)

_HEAD = Struct(">ii4xi4xq")
"""Size, magic, queue id and queue offset of a record."""
_MOST_SCANNED = 4 * 1024 * 1024
"""Bytes of the log that are searched for the record of one entry: some 10 ms."""
_MOST_BACK = 256
"""Maximum number of entries before a wrong one that are searched for a correct one: a damaged page has 204."""
_MOST_SUSPECTS = 100
_MOST_KNOWN = 10_000
"""Maximum number of damaged records that are remembered, so that they are neither searched nor logged again."""


def fits(record: bytes, queue: ConsumeQueue, offset: int) -> bool:
    """Return whether the first fields of ``record`` are those of the record at ``offset`` of a queue."""
    if len(record) < MIN_SIZE:
        return False
    size, magic, queue_id, queue_offset = _HEAD.unpack_from(record)
    return bool(size == len(record) and magic == queue.magic and queue_id == queue.queue_id and queue_offset == offset)


def is_record(record: bytes, queue_id: int) -> bool:
    """Return whether the first fields of ``record`` are those of a record with this queue id, of any topic."""
    if len(record) < MIN_SIZE:
        return False
    size, magic, found_id, _ = _HEAD.unpack_from(record)
    return bool(size == len(record) and magic in (MAGIC_V1, MAGIC_V2) and found_id == queue_id)


def all_fit(buffer: Buffer, places: Sequence[int], sizes: tuple[int, ...], queue: ConsumeQueue, offset: int) -> bool:
    """Return whether the records of a queue from ``offset`` on are at these places and have these sizes.

    :param buffer: the mapped log file.
    :param places: positions in the file.
    """
    count, unpack = len(sizes), _HEAD.unpack_from
    try:
        found, magics, ids, offsets = zip(*[unpack(buffer, at) for at in places], strict=True)
    except StructError:
        return False
    return (
        found == sizes
        and offsets == tuple(range(offset, offset + count))
        and magics.count(queue.magic) == count
        and ids.count(queue.queue_id) == count
    )


class Suspect(NamedTuple):
    """Where a read has met damage: a record begins at ``start`` of the log, and the damage behind it at ``damage``."""

    start: int
    damage: int


class EntryRepair:
    """Finds the records whose consume queue entries are wrong, and rewrites the entries.

    :param delays: milliseconds of the delay levels, level 1 first, for tags codes in the delay topic.
    """

    def __init__(self, log: CommitLog, delays: list[int]) -> None:
        self._log = log
        self._delays = delays
        self._known: OrderedDict[tuple[str, int, int], None] = OrderedDict()
        self.suspects: deque[Suspect] = deque(maxlen=_MOST_SUSPECTS)
        """Where reads have met damage, the latest last."""

    def record(self, queue: ConsumeQueue, offset: int) -> bytes | None:
        """Find the record of an offset whose entry is wrong; rewrite the entry and return the record.

        None if the record cannot be found because the log is damaged; that is logged once for each record.
        """
        key = (queue.topic, queue.queue_id, offset)
        if key in self._known:
            return None
        found = self._search(queue, offset)
        record = self._log.read(found.physical_offset, found.size) if found is not None else None
        if found is None or record is None:
            self._remember(key)
            _log.warning(
                "offset %d of queue %d of topic %s is damaged in the commit log and is not served",
                offset, queue.queue_id, queue.topic,
            )  # fmt: skip
            return None
        self.rewrite(queue, found)
        return record

    def forget(self, found: Found) -> None:
        """Let reads look for a record that was damaged."""
        self._known.pop((found.topic, found.queue_id, found.queue_offset), None)

    def rewrite(self, queue: ConsumeQueue, found: Found) -> None:
        """Rewrite the wrong entry of a record and log it."""
        properties = dispatch_fields.parse(found.properties)
        code = dispatch_fields.stored_tags_code(found.topic, properties, found.store_timestamp, self._delays)
        queue.replace_entry(found.queue_offset, found.physical_offset, found.size, code)
        _log.warning(
            "the consume queue entry of offset %d of queue %d of topic %s was wrong: rebuilt from the commit log",
            found.queue_offset, queue.queue_id, queue.topic,
        )  # fmt: skip

    def units_of(self, found: Sequence[Found]) -> list[BatchUnit]:
        """Return the units that records have in their batch consume queue."""
        return [unit_of(record, self._delays) for record in found]

    def rewrite_unit(self, queue: BatchConsumeQueue, number: int, unit: BatchUnit) -> None:
        """Rewrite the wrong unit of a record and log it."""
        queue.replace_unit(number, unit)
        _log.warning(
            "the batch consume queue unit of offset %d of queue %d of topic %s was wrong: rebuilt from the commit log",
            unit.base, queue.queue_id, queue.topic,
        )  # fmt: skip

    def _remember(self, key: tuple[str, int, int]) -> None:
        self._known[key] = None
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def _search(self, queue: ConsumeQueue, offset: int) -> Found | None:
        """Search the log for the record of an offset, from the record before it on; None if damage is in between."""
        start = self._end_before(queue, offset)
        if start is None:
            return None
        scan = LogScan(self._log, start)
        scan.until = min(self._log.end, start + _MOST_SCANNED)
        for found in scan:
            if found.queue_id == queue.queue_id and found.topic == queue.topic and found.queue_offset >= offset:
                if found.queue_offset == offset:
                    return found
                break
        else:
            if scan.end < scan.until:
                self.suspects.append(Suspect(start, scan.end))
                return None
        self._suspect_head(queue, offset)
        return None

    def _suspect_head(self, queue: ConsumeQueue, offset: int) -> None:
        """Note the record to which an entry points as damaged, if only its queue id and queue offset can be wrong."""
        at, size, _ = queue.entry(offset) or (0, 0, 0)
        record = self._log.read(at, size)
        if record is not None and len(record) >= MIN_SIZE and _HEAD.unpack_from(record)[:2] == (size, queue.magic):
            self.suspects.append(Suspect(at, at))

    def _end_before(self, queue: ConsumeQueue, offset: int) -> int | None:
        """Return the log offset after the last record before ``offset`` that has a correct entry.

        None if none of the last ``_MOST_BACK`` entries is correct.
        """
        if offset == queue.min_offset:
            return self._log.min_offset
        for before in range(offset - 1, max(queue.min_offset, offset - _MOST_BACK) - 1, -1):
            entry = queue.entry(before)
            record = self._log.read(entry[0], entry[1]) if entry is not None else None
            if entry is not None and record is not None and fits(record, queue, before):
                return entry[0] + entry[1]
        return None
