"""Messages found by scanning the commit log: for queues whose consume queue is gone or, after a crash, ends too early.

A scan divides the log into parts of 8 MiB and keeps which offsets of which queue are in each; the tasks of a read scan
the parts again, each part once for all its queues.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from rocketmq_py.arrow.offline.directories import Directory
from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.scan import Found, LogScan, next_after
from rocketmq_py.store.queue.dispatch import is_plausible

_log = logging.getLogger(__name__)

_PART = 8 * 1024 * 1024

Key = tuple[str, int]
"""Topic and queue id."""


class Part(NamedTuple):
    """What a part of the log, from ``begin`` to ``end``, has of one queue.

    :ivar first: its first queue offset; ``stop`` is the one after its last.
    :ivar newest: store timestamp of its last message, ms since 1970.
    """

    begin: int
    end: int
    first: int
    stop: int
    newest: int


class StoredAt(NamedTuple):
    """A record with queue offset ``offset``; the next one of its queue has ``stop`` or more."""

    offset: int
    stop: int
    physical: int
    size: int
    stored: int


def scanned(log: CommitLog, begin: int, end: int | None = None) -> Iterator[Found]:
    """Yield the records of the log that consume queues have, from ``begin`` to before ``end``; damage is passed over.

    :param begin: offset at which a record begins.
    """
    while True:
        scan = LogScan(log, begin, check_crc=False)
        for found in scan:
            if end is not None and found.physical_offset >= end:
                return
            if dispatch_fields.has_entry(found.sys_flag):
                yield found
        following = next_after(log, scan)
        if following is None or (end is not None and following >= end):
            return
        if scan.reason is not None:
            _log.warning("the commit log is damaged from %d to %d: %s", scan.end, following, scan.reason)
        begin = following


def placed(found: Found) -> StoredAt:
    """Return where a record is, in its queue and in the log."""
    count = 1
    if dispatch_fields.is_inner_batch(found.sys_flag):
        count = dispatch_fields.inner_count(found.sys_flag, dispatch_fields.parse(found.properties))
    offset = found.queue_offset
    return StoredAt(offset, offset + max(count, 1), found.physical_offset, found.size, found.store_timestamp)


class LogIndex:
    """The queues that a scan of the log finds.

    :param begin: offset in the log at which the scan begins.
    :param topics: the topics to note; None notes all.
    """

    def __init__(self, directory: Directory, begin: int, topics: Collection[str] | None) -> None:
        self.parts: dict[Key, list[Part]] = {}
        part_begin = part_end = begin
        current: dict[Key, Part] = {}
        file_size = directory.log.file_size
        for found in scanned(directory.log, begin):
            physical = found.physical_offset
            if physical - part_begin >= _PART or physical // file_size != part_begin // file_size:
                self._close(current, part_begin, part_end)
                part_begin, current = physical, {}
            part_end = physical + found.size
            if topics is None or found.topic in topics:
                self._note((found.topic, found.queue_id), placed(found), current)
        self._close(current, part_begin, part_end)
        self.end = part_end
        """Offset in the log after the last record."""

    def _note(self, key: Key, one: StoredAt, current: dict[Key, Part]) -> None:
        known = current.get(key)
        before = known.stop if known is not None else self._stop(key)
        if one.offset == 0 and before:  # the topic was deleted and created again
            self.parts.pop(key, None)
            known, before = None, 0
        if one.offset >= before and is_plausible(one.offset, before or None):
            first = one.offset if known is None else known.first
            current[key] = Part(0, 0, first, one.stop, one.stored)

    def _close(self, current: dict[Key, Part], begin: int, end: int) -> None:
        for key, found in current.items():
            self.parts.setdefault(key, []).append(found._replace(begin=begin, end=end))

    def _stop(self, key: Key) -> int:
        parts = self.parts.get(key)
        return parts[-1].stop if parts else 0


def queues_of(log: CommitLog, begin: int, end: int) -> dict[Key, list[StoredAt]]:
    """Return the records of every queue in a part of the log, in the order of the log."""
    queues: dict[Key, list[StoredAt]] = {}
    for found in scanned(log, begin, end):
        one, known = placed(found), queues.setdefault((found.topic, found.queue_id), [])
        if one.offset == 0:  # the topic was deleted and created again
            known.clear()
        known.append(one)
    return queues


def ascending(records: Iterable[StoredAt], start: int, stop: int) -> list[StoredAt]:
    """Return those of a queue's records that are in a range of offsets; a damaged one can have any offset."""
    found: list[StoredAt] = []
    for one in records:
        if one.stop > start and one.offset < stop and (not found or one.offset >= found[-1].stop):
            found.append(one)
    return found
