"""The reader: reads messages of a queue by offset, by time and by key.

Status, next offset and the limits of a batch follow DefaultMessageStore.getMessage.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, compress, islice
from struct import Struct
from typing import NamedTuple, TypeVar

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.store.fs.filesystem import Buffer
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.index.key_search import KeySearch
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.queue.batch_consume_queue import BatchConsumeQueue, BatchUnit
from rocketmq_py.store.queue.consume_queue import (
    BLANK_SIZE as BLANK_ENTRY_SIZE,
    HOT_ENTRIES,
    ConsumeQueue,
    columns,
    is_blank,
)
from rocketmq_py.store.read.record_check import EntryRepair, all_fit, fits, is_record
from rocketmq_py.store.settings import BATCH_QUEUE_UNIT, CONSUME_QUEUE_ENTRY, StoreConfig, delay_levels
from rocketmq_py.store.write.records import Boundary, GetResult, GetStatus, QueryResult
from rocketmq_py.wire.record import MIN_SIZE

MAX_PULL_SIZE = 128 * 1024 * 1024
_MIN_PULL_SIZE = 100
_I32 = Struct(">i")
_LARGEST_RECORD = 64 * 1024 * 1024
"""The largest size that is believed at an offset that a client names. The offset may be inside a body, whose bytes may
claim a record of a whole file; the largest request has 16 MiB by default.
"""
_SIZE_AND_MORE = 48
_HEAD = 4096
"""Number of bytes that are loaded to learn the size of a record; most records have fewer."""
_QUERY_PASSES = 3
_WORTH_LENDING = 16 * 1024
"""Minimum number of bytes for which a view of the log is cheaper than a copy."""
_MAX_SCANNED = 16_000
"""Maximum number of entries that one read scans, for any number of messages: some 10 ms with a filter."""

_LOOKED_AT = 4
"""Number of entries read together for each requested message, if a filter is given. If fewer than one in so many match,
entries are read in turn.
"""

_CHECKED, _CHECKED_BYTES = 512, 1024 * 1024
"""Maximum number of records, and of their bytes, that are loaded from disk for one read with a filter."""

_GAP, _MOST_TOGETHER = 16 * 1024, 16 * 1024 * 1024
"""Records of one read whose distances are at most so many bytes on average, and all together, are asked for and loaded
together: one question to the system takes less time than one for each record.
"""

E = TypeVar("E", tuple[int, int, int], BatchUnit)

Accepts = Callable[[int], bool]
MessageFilter = Callable[[bytes], bool]
"""Takes the bytes of a record and returns whether it matches.

If the filter has an attribute ``most_records``, a read tests at most that many records.
"""


class _Chosen(NamedTuple):
    """Commit log offsets and sizes of the records to read, and the number of entries that they were chosen from."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    seen: int


class Reader:
    """Reads messages and records of one store.

    :param total_memory: bytes of main memory, which determine what records count as in memory; None: this machine's.
    :param accelerator: copies records that are apart in the log; None copies them in Python.
    """

    def __init__(
        self, config: StoreConfig, log: CommitLog, index: MessageIndex, total_memory: int | None = None,
        accelerator: Accelerator | None = None,
    ) -> None:  # fmt: skip
        self._config = config
        self._log = log
        self._index = index
        memory = total_memory if total_memory is not None else machine_memory()
        self.repair = EntryRepair(log, delay_levels(config.message_delay_level))
        self._gather = None if accelerator is None else accelerator.gather
        self._near = memory * config.access_message_in_memory_max_ratio // 100

    # -- by offset

    def get(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        max_count: int,
        max_bytes: int | None,
        accepts: Accepts | None,
        message_filter: MessageFilter | None,
        allow_view: bool = False,
        bulk: bool = False,
        residency: Residency | None = None,
    ) -> GetResult:
        """Read messages of a queue from ``offset`` on; parameters and errors as of :meth:`MessageStore.get`.

        :param queue: the queue; None if it does not exist, which the status of the result says.
        """
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, b"", 0, 0, 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if queue.is_unfinished or not low <= offset < high:
            status, following = _unreadable(queue, offset)
            return GetResult(status, b"", 0, following, low, high)
        limit = MAX_PULL_SIZE if max_bytes is None else min(max(max_bytes, _MIN_PULL_SIZE), MAX_PULL_SIZE)
        if residency is not None and not _is_hot(queue, offset):
            if accepts is None and message_filter is None and not queue.is_batched:
                result = self._get_old(queue, offset, max_count, limit, allow_view, bulk, residency)
                if result is not None:
                    return result
            scanned = self._max_scanned(CONSUME_QUEUE_ENTRY, max_count, message_filter)
            self.check_entries(queue, offset, scanned, residency)
        if isinstance(queue, BatchConsumeQueue):
            return self._get_units(queue, offset, max_count, limit, accepts, message_filter, bulk, residency)
        if message_filter is None:
            result = self._get_all(queue, offset, max_count, limit, accepts, allow_view, bulk, residency)
            if result is not None:
                return result
        return self._get_some(queue, offset, max_count, limit, accepts, message_filter, bulk, residency)

    def _get_all(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_count: int,
        limit: int,
        accepts: Accepts | None,
        allow_view: bool,
        bulk: bool,
        residency: Residency | None,
    ) -> GetResult | None:
        """Fast path: all records near the end of the log and in one file; None otherwise."""
        most, count = self._limits(max_count, limit, bulk)
        raw = queue.read(offset, count)
        if not raw or count < 1:
            return None
        if self._gather is not None:
            result = self._gathered(queue, offset, raw, most, accepts, allow_view, residency)
            if result is not None:
                return result
        chosen = self._chosen(queue, offset, raw, count, most, max_count, accepts)
        return None if chosen is None else self._get_chosen(queue, offset, chosen, allow_view, residency)

    def _get_old(
        self, queue: ConsumeQueue, offset: int, max_count: int, limit: int, allow_view: bool, bulk: bool,
        residency: Residency,
    ) -> GetResult | None:  # fmt: skip
        """Fast path for entries that one call to the system finds in memory and reads; None otherwise.

        :raises NotInMemory: the records are not in memory.
        """
        if self._gather is None:
            return None
        most, count = self._limits(max_count, limit, bulk)
        raw = queue.read_if_resident(offset, count) if count > 0 else None
        return self._gathered(queue, offset, raw, most, None, allow_view, residency) if raw else None

    def _limits(self, max_count: int, limit: int, bulk: bool) -> tuple[int, int]:
        """Return the maximum number of bytes and of messages of a read of messages in memory."""
        config = self._config
        most = min(limit, config.max_transfer_bytes_on_message_in_memory)
        # A bulk read can request any number of entries; read no more than fit into the byte limit.
        return most, min(max_count, most // MIN_SIZE + 1 if bulk else config.max_transfer_count_on_message_in_memory)

    def _get_chosen(
        self, queue: ConsumeQueue, offset: int, chosen: _Chosen, allow_view: bool, residency: Residency | None
    ) -> GetResult | None:
        """Read records near the end of the log and in one file; None if they are not."""
        log = self._log
        starts, sizes, seen = chosen
        total = sum(sizes)
        first, end = starts[0], starts[-1] + sizes[-1]
        base = first - first % log.file_size
        buffer = log.buffers.get(base)
        if buffer is None or end > base + log.file_size or log.end - first > self._near:
            return None
        if first < log.hot_from:
            if seen != len(sizes):
                return None
            if residency is not None:
                self._check(starts, sizes, residency)
            places_in_file = [at - base for at in starts]
            if not all_fit(buffer, places_in_file, sizes, queue, offset):
                return None
        body: bytes | memoryview
        if end - first != total:
            body = _joined(buffer, base, starts, sizes, total)
        else:
            body = _part(buffer, first - base, end - base, allow_view)
        return GetResult(GetStatus.FOUND, body, len(sizes), offset + seen, queue.min_offset, queue.max_offset)

    def _gathered(
        self, queue: ConsumeQueue, offset: int, raw: bytes, most: int, accepts: Accepts | None, allow_view: bool,
        residency: Residency | None,
    ) -> GetResult | None:  # fmt: skip
        """Read the records of raw entries with the accelerator.

        None without it, and unless all records match, are in one file near the end of the log, and fit their entries.

        :param raw: the entries from ``offset`` on. :param most: maximum number of bytes of more than one record.
        """
        log, gather = self._log, self._gather
        first = int.from_bytes(raw[:8], "big", signed=True)
        base = first - first % log.file_size
        buffer = log.buffers.get(base)
        if gather is None or buffer is None or log.end - first > self._near:
            return None
        if accepts is not None and not all(map(accepts, columns(raw)[2])):
            return None
        expected = None
        if first < log.hot_from:
            if residency is not None:
                self._check_leading(raw, most, residency)
            expected = (queue.magic, queue.queue_id, offset)
        found = gather(buffer, base, raw, most, expected)
        if found is None:
            return None
        count, begin, end, copied = found
        body = _part(buffer, begin, end, allow_view) if copied is None else copied
        return GetResult(GetStatus.FOUND, body, count, offset + count, queue.min_offset, queue.max_offset)

    def _check_leading(self, raw: bytes, most: int, residency: Residency) -> None:
        """Check that the records of the leading entries are in main memory: of ``most`` bytes, and at least one.

        If entries are not in order, some of them are perhaps not checked: the accelerator does not read these.

        :raises NotInMemory: they are not.
        """
        last = raw[-CONSUME_QUEUE_ENTRY:]
        end = int.from_bytes(last[:8], "big", signed=True) + int.from_bytes(last[8:12], "big", signed=True)
        if self._log.was_in_memory(int.from_bytes(raw[:8], "big", signed=True), end):
            return
        starts, sizes, _ = columns(raw)
        if sum(sizes) > most:
            fitting = _fitting(sizes, most)
            starts, sizes = starts[:fitting], sizes[:fitting]
        self._check(starts, sizes, residency)

    def _chosen(
        self, queue: ConsumeQueue, offset: int, raw: bytes, count: int, most: int, max_count: int,
        accepts: Accepts | None,
    ) -> _Chosen | None:  # fmt: skip
        """Choose the first ``count`` records from ``offset`` on that match, of at most ``most`` bytes; at least one.

        None if few match or they might have more bytes and therefore entries must be read in turn.

        :param raw: the next ``count`` entries, or all that there are.
        """
        starts, sizes, codes = columns(raw)
        matching = len(codes) if accepts is None else sum(map(accepts, codes))
        if accepts is not None and matching < len(codes):
            if matching * _LOOKED_AT < len(codes):
                return None
            scanned = min(count * _LOOKED_AT, self._max_scanned(CONSUME_QUEUE_ENTRY, max_count, None))
            return _matching(queue.read(offset, scanned), scanned, queue.max_offset - offset, accepts, count, most)
        if sum(sizes) <= most:
            return _Chosen(starts, sizes, len(sizes))
        fitting = _fitting(sizes, most)
        return _Chosen(starts[:fitting], sizes[:fitting], fitting)

    def _get_some(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_count: int,
        limit: int,
        accepts: Accepts | None,
        message_filter: MessageFilter | None,
        bulk: bool,
        residency: Residency | None,
    ) -> GetResult:
        """Read entry by entry, as Java does, but skip entries that do not point to a record of the queue."""
        log_end, status = self._log.end, GetStatus.NO_MATCHED_MESSAGE
        records: list[bytes] = []
        damaged: list[int] = []
        size_so_far = last_seen = removed_before = 0
        following = offset
        scanned = self._max_scanned(CONSUME_QUEUE_ENTRY, max_count, message_filter)
        entries = self._checked(queue.entries(offset, scanned), max_count, limit, accepts, message_filter, residency)
        for physical, size, code in entries:
            if records and self._is_full(len(records), size_so_far, size, max_count, limit, log_end - physical, bulk):
                break
            last_seen = physical
            following += 1
            if 0 <= physical < removed_before or (accepts is not None and not accepts(code)):
                continue
            record = self._log.read(physical, size)
            if record is None and self._is_removed(queue, following - 1, physical, size):
                if size != BLANK_ENTRY_SIZE:  # a blank entry says nothing about the file at its offset 0
                    removed_before = self._log.next_file(physical)
                status = status if records else GetStatus.MESSAGE_WAS_REMOVING
                continue
            if record is None or not fits(record, queue, following - 1):
                record = self.repair.record(queue, following - 1)
            if record is None:
                damaged.append(following - 1)
                continue
            if message_filter is not None and not message_filter(record):
                status = status if records else GetStatus.NO_MATCHED_MESSAGE
                continue
            records.append(record)
            size_so_far += len(record)
            status, removed_before = GetStatus.FOUND, 0
        if following == offset:
            status, following = GetStatus.OFFSET_FOUND_NULL, queue.next_file(offset)
        behind = log_end - last_seen > self._near
        body = b"".join(records)
        return GetResult(
            status, body, len(records), following, queue.min_offset, queue.max_offset, behind, tuple(damaged)
        )

    def _get_units(
        self,
        queue: BatchConsumeQueue,
        offset: int,
        max_count: int,
        limit: int,
        accepts: Accepts | None,
        message_filter: MessageFilter | None,
        bulk: bool,
        residency: Residency | None,
    ) -> GetResult:
        """As :meth:`_get_some`, unit by unit; the messages in a record are counted one by one."""
        log_end, status = self._log.end, GetStatus.NO_MATCHED_MESSAGE
        records: list[bytes] = []
        damaged: list[int] = []
        size_so_far = count_so_far = last_seen = 0
        following = offset
        scanned = self._max_scanned(BATCH_QUEUE_UNIT, max_count, message_filter)
        units = self._checked(queue.units(offset, scanned), max_count, limit, accepts, message_filter, residency)
        for unit in units:
            if unit.base - offset >= scanned:
                break
            distance, most = log_end - unit.physical, max_count
            if count_so_far + unit.messages > max_count:
                most = count_so_far
            if records and self._is_full(count_so_far, size_so_far, unit.size, most, limit, distance, bulk):
                break
            last_seen, following = unit.physical, unit.end
            if accepts is not None and not accepts(unit.tags_code):
                continue
            record = self._log.read(unit.physical, unit.size)
            if record is None:
                status = status if records else GetStatus.MESSAGE_WAS_REMOVING
            elif not is_record(record, queue.queue_id):
                damaged += range(max(unit.base, offset), unit.end)
            elif message_filter is not None and not message_filter(record):
                status = status if records else GetStatus.NO_MATCHED_MESSAGE
            else:
                records.append(record)
                size_so_far += unit.size
                count_so_far += unit.messages
                status = GetStatus.FOUND
        if following == offset:
            status, following = GetStatus.OFFSET_FOUND_NULL, queue.next_file(offset)
        behind = log_end - last_seen > self._near
        body = b"".join(records)
        return GetResult(
            status, body, len(records), following, queue.min_offset, queue.max_offset, behind, tuple(damaged)
        )

    def _is_removed(self, queue: ConsumeQueue, offset: int, physical: int, size: int) -> bool:
        """True if the log file of an entry was removed or the entry is blank; False if the entry is wrong."""
        first = self._log.min_offset
        if physical >= first or size == BLANK_ENTRY_SIZE:
            return size == BLANK_ENTRY_SIZE or (physical < self._log.end and self._log.view(physical, 1) is None)
        before = queue.entry(offset - 1)
        return before is None or before[0] < first

    # -- without waiting for the disk

    def check_entries(self, queue: ConsumeQueue, offset: int, count: int, residency: Residency) -> None:
        """Check that the entries of a queue from ``offset`` on are in main memory.

        :raises NotInMemory: they are not.
        """
        if not _is_hot(queue, offset):
            first = max(offset, queue.min_offset)
            queue.needs(first, offset + count - first, residency)
            residency.check()

    def check_spans(self, spans: Iterable[tuple[ConsumeQueue, int, int]], residency: Residency) -> None:
        """Check that entries of several queues are in main memory.

        :param spans: queue, first offset and end of the entries.
        :raises NotInMemory: some are not.
        """
        for queue, low, high in spans:
            if not _is_hot(queue, low):
                queue.needs(low, high - low, residency)
        residency.check()

    def check_records(self, places: Iterable[tuple[int, int]], residency: Residency) -> None:
        """Check that records are in main memory.

        :param places: offset in the log and size of each record.
        :raises NotInMemory: some are not.
        """
        for physical, size in places:
            self._log.needs(physical, size, residency)
        residency.check()

    def check_messages(self, offsets: Sequence[int], residency: Residency) -> None:
        """Check that the records at offsets of the log are in main memory, those that there are.

        :raises NotInMemory: some are not.
        """
        log = self._log
        hot_from = log.hot_from
        cold = [at for at in offsets if 0 <= at < hot_from]
        if not cold:
            return
        for physical in cold:
            log.needs(physical, min(_HEAD, log.next_file(physical) - physical), residency)
        residency.check()
        for physical in cold:
            head = log.read(physical, 4)
            size = _I32.unpack(head)[0] if head else 0
            if _HEAD < size <= _LARGEST_RECORD and physical + size <= min(log.end, log.next_file(physical)):
                log.needs(physical, size, residency)
        residency.check()

    def check_record_of(self, queue: ConsumeQueue, offset: int, residency: Residency) -> None:
        """Check that the record at an offset of a queue, and its entry, are in main memory.

        :raises NotInMemory: they are not.
        """
        self.check_entries(queue, offset, 1, residency)
        entry = queue.entry(offset)
        if entry is not None:
            self.check_records([entry[:2]], residency)

    def check_store_times(self, places: Sequence[tuple[ConsumeQueue, int]], residency: Residency) -> None:
        """Check that :meth:`store_time` of messages would not wait for the disk.

        :param places: queue and offset of each message.
        :raises NotInMemory: it would.
        """
        for queue, offset in places:
            if queue.min_offset <= offset < queue.max_offset and not _is_hot(queue, offset):
                queue.needs(offset, 1, residency)
        residency.check()
        for queue, offset in places:
            entry = None if queue.is_unfinished else queue.entry(offset)
            if entry is not None:
                self._log.needs_store_time(entry[0], residency)
        residency.check()

    def _check(self, starts: Sequence[int], sizes: Sequence[int], residency: Residency) -> None:
        """Check that records are in main memory; records that are not far apart together with what is between them.

        :raises NotInMemory: they are not.
        """
        log, begin, end = self._log, starts[0], starts[-1] + sizes[-1]
        is_near = end - begin <= min(sum(sizes) + _GAP * len(sizes), _MOST_TOGETHER)
        if is_near and begin == min(starts) and starts[-1] == max(starts):  # entries can be damaged
            log.needs(begin, min(end, log.hot_from) - begin, residency)
        else:
            log.needs_all(starts, sizes, residency)
        residency.check()

    def _checked(
        self,
        entries: Iterator[E],
        max_count: int,
        limit: int,
        accepts: Accepts | None,
        message_filter: MessageFilter | None,
        residency: Residency | None,
    ) -> Iterator[E]:
        """Check that the records of the leading ``entries``, as many as one read can need, are in main memory.

        Returns these entries, and further ones only if they need no check.

        :param max_count: maximum number of messages of the read; ``limit`` is the maximum of bytes.
        :param residency: None to return all entries without a check, and read from disk.
        :raises NotInMemory: some of these records are not in main memory.
        """
        if residency is None:
            return entries
        begin, hot_from, seen = self._log.min_offset, self._log.hot_from, list[E]()
        starts, sizes = list[int](), list[int]()
        most, most_bytes = min(max_count, _CHECKED), min(limit, self._config.max_transfer_bytes_on_message_in_memory)
        if message_filter is not None:  # which may reject any number of records
            most, most_bytes = _CHECKED, _CHECKED_BYTES
        rest: Iterator[E] = iter(())
        for entry in entries:
            seen.append(entry)
            if entry[0] >= hot_from:  # this entry and all later ones are in memory
                rest = entries
                break
            if entry[0] >= begin and (accepts is None or accepts(entry[2])):
                starts.append(entry[0])
                sizes.append(entry[1])
                most, most_bytes = most - 1, most_bytes - entry[1]
            if most <= 0 or most_bytes <= 0:
                break
        self._log.needs_all(starts, sizes, residency)
        residency.check()
        return chain(seen, rest)

    def _max_scanned(self, entry_size: int, max_count: int, message_filter: MessageFilter | None) -> int:
        """Maximum number of entries that a read scans; expensive filters have a lower limit."""
        most = max(min(max(self._config.max_filter_message_size // entry_size, max_count), _MAX_SCANNED), 1)
        return min(most, getattr(message_filter, "most_records", most))

    def _is_full(
        self, count: int, total: int, size: int, max_count: int, limit: int, distance: int, bulk: bool
    ) -> bool:
        """True if the limits do not allow one more record of ``size`` bytes in a result that is not empty.

        :param count: number of messages in the result.
        :param total: bytes of the records in the result.
        :param distance: bytes from the record to the end of the log.
        """
        config = self._config
        if distance <= self._near:
            most, most_bytes = (
                config.max_transfer_count_on_message_in_memory, config.max_transfer_bytes_on_message_in_memory,
            )  # fmt: skip
        else:
            most, most_bytes = (
                config.max_transfer_count_on_message_in_disk, config.max_transfer_bytes_on_message_in_disk,
            )  # fmt: skip
        return count >= (max_count if bulk else min(max_count, most)) or total + size > min(limit, most_bytes)

    def in_memory(self, queue: ConsumeQueue, offset: int) -> bool:
        """True if the message at ``offset`` exists and is near enough to the end of the log to be in memory."""
        entry = queue.entry(offset)
        if entry is None or not self._log.has(entry[0], entry[1]):
            return False
        return self._log.end - entry[0] <= self._near

    # -- single records

    def message_at(self, physical: int, size: int | None = None) -> bytes | None:
        """Record at an offset of the log; None if there is none.

        :param size: size of the record in bytes; None reads it from the record.
        """
        if physical < 0:
            return None
        if size is None:
            head = self._log.read(physical, 4)
            size = _I32.unpack(head)[0] if head else 0
            if size > _LARGEST_RECORD:
                return None
        return self._log.read(physical, size) if size >= _SIZE_AND_MORE else None

    def record_of(self, queue: ConsumeQueue, offset: int) -> bytes | None:
        """Record at an offset of a queue; None if there is none."""
        entry = queue.entry(offset)
        return self._log.read(entry[0], entry[1]) if entry is not None else None

    def store_time(self, queue: ConsumeQueue, offset: int, residency: Residency | None = None) -> int:
        """Store timestamp of the message at an offset of a queue; -1 if there is none, or it is not known yet.

        :param residency: if given, do not wait for the disk.
        :raises NotInMemory: only with ``residency``.
        """
        if queue.is_unfinished:
            return -1
        if residency is not None:
            self.check_entries(queue, offset, 1, residency)
        entry = queue.entry(offset)
        if entry is None:
            return -1
        if residency is not None:
            self._log.needs_store_time(entry[0], residency)
            residency.check()
        return self._log.store_time(entry[0])

    # -- by time

    def offset_by_time(
        self,
        queue: ConsumeQueue,
        timestamp: int,
        boundary: Boundary,
        end: int | None = None,
        residency: Residency | None = None,
    ) -> int:
        """Queue offset for a store timestamp.

        LOWER: the first message stored at ``timestamp`` or later; the end if there is none. UPPER: the last message
        stored at ``timestamp`` or earlier; 0 if there is none. In a batch consume queue the result is the offset of a
        record's first message, and of the last record if none was stored after ``timestamp``, as in Java.

        :param end: end of the search; None for that of the queue.
        :param residency: if given, do not wait for the disk.
        :raises NotInMemory: only with ``residency``.
        """
        high = queue.max_offset if end is None else min(end, queue.max_offset)
        if isinstance(queue, BatchConsumeQueue):
            return self._base_by_time(queue, timestamp, boundary, high, residency)
        if boundary is Boundary.LOWER:
            return self.first_since(queue, timestamp, high, residency)
        first_after = self.first_since(queue, timestamp + 1, high, residency)
        return first_after - 1 if first_after > queue.min_offset else 0

    def _base_by_time(
        self, queue: BatchConsumeQueue, timestamp: int, boundary: Boundary, end: int, residency: Residency | None
    ) -> int:
        first_after = self.first_since(queue, timestamp + 1, end, residency)
        if boundary is Boundary.LOWER and first_after < end:
            return self.first_since(queue, timestamp, end, residency)
        unit = queue.unit(first_after - 1)
        return 0 if unit is None else unit.base

    def first_since(self, queue: ConsumeQueue, timestamp: int, end: int, residency: Residency | None) -> int:
        """Offset of the first message before ``end`` stored at ``timestamp`` or later; ``end`` if there is none.

        :param residency: if given, do not wait for the disk.
        :raises NotInMemory: only with ``residency``.
        """
        low, high = queue.min_offset, end
        while low < high:
            middle = (low + high) // 2
            at = self._message_from(queue, middle, high, residency)
            if at < high and self.store_time(queue, at, residency) < timestamp:
                low = at + 1
            else:
                high = middle
        return low

    def _message_from(self, queue: ConsumeQueue, offset: int, end: int, residency: Residency | None) -> int:
        """First offset from ``offset`` on that has a message, at most ``end``: blank entries have no time."""
        if residency is not None:
            self.check_entries(queue, offset, 1, residency)
        entry = queue.entry(offset)
        return queue.skip_blanks(offset, end) if entry is not None and is_blank(entry) else offset

    # -- by key

    def key_query(self, topic: str, key: str, max_num: int, begin: int, end: int) -> KeyQuery:
        """Return a query by key; parameters are those of :class:`KeyQuery`."""
        return KeyQuery(self, self._log, self._index, topic, key, max_num, begin, end)


class KeyQuery:
    """A query for records with a key that has the hash of ``key``, stored from ``begin`` to ``end``, both inclusive.

    :param begin: milliseconds since the epoch, like ``end``.
    """

    def __init__(
        self, reader: Reader, log: CommitLog, index: MessageIndex,
        topic: str, key: str, max_num: int, begin: int, end: int,
    ) -> None:  # fmt: skip
        self._reader = reader
        self._log = log
        self._index = index
        self._wanted = topic, key, max_num
        self._begin = begin
        self._end = end
        self._passes = 0
        self._search: KeySearch | None = None

    def run(self, residency: Residency | None) -> QueryResult:
        """Return the records.

        :param residency: None to wait for the disk.
        :raises NotInMemory: only with ``residency``. Run the query again after the load: it continues.
        """
        log, records = self._log, list[bytes]()
        while self._passes < _QUERY_PASSES:
            if self._search is None:
                self._search = self._index.search(*self._wanted, self._begin, self._end, residency)
            offsets = sorted(self._search.run(residency))
            if residency is not None:
                self._reader.check_messages(offsets, residency)
            records = [record for record in map(self._reader.message_at, offsets) if record is not None]
            if records or not offsets:
                break
            if residency is not None:
                log.needs_store_time(offsets[0], residency)
                residency.check()
            self._end = log.store_time(offsets[0])
            self._passes, self._search = self._passes + 1, None
            if self._end < self._begin:
                break
        return QueryResult(b"".join(records), len(records), self._index.end_timestamp, self._index.end_physical)


def _is_hot(queue: ConsumeQueue, offset: int) -> bool:
    """True if the entries of a queue from ``offset`` on count as in memory: this process wrote them recently."""
    return offset >= queue.loaded_end and offset >= queue.max_offset - HOT_ENTRIES


def _matching(raw: bytes, scanned: int, there: int, accepts: Accepts, count: int, most: int) -> _Chosen | None:
    """Choose the first ``count`` records that match from raw entries.

    None if fewer match and there are more entries, or if the records might have more than ``most`` bytes.

    :param scanned: number of entries requested. :param there: number of entries in the queue.
    """
    if len(raw) != min(scanned, there) * CONSUME_QUEUE_ENTRY:
        return None
    starts, sizes, codes = columns(raw)
    kept = list(islice(compress(range(len(codes)), map(accepts, codes)), count))
    seen = kept[-1] + 1 if len(kept) == count else len(codes)
    if not kept or (len(kept) < count and seen < there):
        return None
    chosen = tuple([sizes[at] for at in kept])
    if sum(chosen) + max(sizes[:seen]) > most:
        return None
    return _Chosen(tuple([starts[at] for at in kept]), chosen, seen)


def _fitting(sizes: Sequence[int], most: int) -> int:
    """Return how many of the leading records have at most ``most`` bytes together; at least 1."""
    return max(bisect_right(list(accumulate(sizes)), most), 1)


def _part(buffer: Buffer, begin: int, end: int, allow_view: bool) -> bytes | memoryview:
    """Return the bytes of a file from ``begin`` to ``end``: a view of many if that is allowed, otherwise a copy."""
    if allow_view and end - begin >= _WORTH_LENDING:
        return memoryview(buffer)[begin:end]
    return buffer[begin:end]


def _joined(buffer: Buffer, base: int, starts: Sequence[int], sizes: Sequence[int], total: int) -> bytes:
    """Return a copy of the records at ``starts``, one after the other, from the file that begins at ``base``."""
    if total < _WORTH_LENDING:
        return b"".join([buffer[at - base : at - base + size] for at, size in zip(starts, sizes, strict=True)])
    with memoryview(buffer) as view:  # its slices copy nothing, but cost more time each
        return b"".join([view[at - base : at - base + size] for at, size in zip(starts, sizes, strict=True)])


def _unreadable(queue: ConsumeQueue, offset: int) -> tuple[GetStatus, int]:
    """Status and next offset of a read outside the range of a queue, or in one that is being rebuilt."""
    low, high = queue.min_offset, queue.max_offset
    if queue.is_unfinished and offset < high:
        return GetStatus.REBUILDING, offset
    if high == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < low:
        return GetStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    return GetStatus.OFFSET_OVERFLOW_BADLY, high


def machine_memory() -> int:
    """Bytes of main memory; 4 GiB if the platform does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 << 30
