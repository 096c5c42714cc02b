"""Store directories as the origin of a read: :class:`StoreOrigin` finds queues and offsets in their files."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence

from rocketmq_py.arrow.offline.directories import Directory, open_directory
from rocketmq_py.arrow.offline.log_index import Key, LogIndex, Part, ascending, queues_of
from rocketmq_py.arrow.offline.log_order import Stored, log_parts
from rocketmq_py.arrow.offline.records import checked_chunks, entries_of
from rocketmq_py.arrow.options.offsets import Bounds, Offsets
from rocketmq_py.arrow.options.selection import Assigned, Matching, Selection
from rocketmq_py.arrow.options.stores import StoreDirectory
from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange, QueueRoutes
from rocketmq_py.errors import ConfigError, NoRouteError
from rocketmq_py.model import MessageQueue
from rocketmq_py.store.tools.store_files import QueueView

_log = logging.getLogger(__name__)

_HEAD = 88
"""Bytes of a record that tell whether it is that of an entry, and when it was stored."""
_SAMPLE = 8


class StoredQueue:
    """One queue in a store: its consume queue if there is one, then what a scan of the log found behind it.

    :param view: the consume queue; None if it is gone.
    :param parts: parts of the log with its messages.
    """

    def __init__(self, directory: Directory, key: Key, view: QueueView | None, parts: Sequence[Part]) -> None:
        self._directory = directory
        self._key = key
        self.view = view
        self.entries_end = 0 if view is None else _whole_end(directory, view)
        """Offset after the last message that the consume queue has."""
        self.parts = [part for part in parts if part.stop > self.entries_end]
        begin = self.parts[0].first if self.parts else 0
        self.earliest = begin if view is None or view.min >= self.entries_end else view.min
        self.latest = max(self.entries_end, self.parts[-1].stop if self.parts else 0)

    def since(self, time: int) -> int:
        """Return the offset of the first message stored at ``time`` (ms) or later; :attr:`latest` if there is none."""
        if self.view is not None:
            offsets = range(self.earliest, self.entries_end)
            found = bisect_left(offsets, time, key=self._stored_at)
            if found < len(offsets):
                return offsets[found]
        for part in self.parts:
            if part.newest >= time:
                every = queues_of(self._directory.log, part.begin, part.end).get(self._key, ())
                records = ascending(every, part.first, part.stop)
                return next((one.offset for one in records if one.stored >= time), part.stop)
        return self.latest

    def _stored_at(self, offset: int) -> int:
        """Return the store timestamp of the first message at or behind ``offset`` that has a whole record."""
        assert self.view is not None
        while offset < self.entries_end:
            found = self.view.read(offset, 1)
            if found and self._directory.log.has(found[0][0], _HEAD):
                return self._directory.log.stored_at(found[0][0])
            offset += 1
        return 1 << 62

    def message_bytes(self, offset: int) -> float | None:
        """Return the average bytes of a few messages from ``offset`` on; None if its consume queue is gone."""
        if self.view is None or not (found := self.view.read(offset, _SAMPLE)):
            return None
        return sum(size for _, size, _ in found) / len(found)

    def located(self, wanted: QueueRange) -> list[LocatedRange]:
        """Return where the messages of a range are: in the consume queue, or in parts of the log."""
        found, start = [], wanted.start
        if start < self.entries_end or not self.parts:
            stop = min(wanted.stop, self.entries_end) if self.parts else wanted.stop
            found.append(LocatedRange(wanted._replace(stop=stop), Addresses()))
            start = stop
        for part in self.parts:
            if start < wanted.stop and part.stop > start:
                stop = min(part.stop, wanted.stop)
                one = wanted._replace(start=start, stop=stop)
                found.append(LocatedRange(one, Addresses(), (part.begin, part.end)))
                start = stop
        return found


def _why_scanned(gone: Sequence[str], unfinished: Collection[Key]) -> str:
    if unfinished:
        topic, number = min(unfinished)
        return f"the rebuild of queue {topic}-{number} has not ended"
    return f"topic {gone[0]} has no consume queue" if gone else "the store was not closed cleanly"


class StoreOrigin:
    """The queues and offsets in store directories; implements :class:`~rocketmq_py.arrow.source.origin.Origin`.

    :raises ConfigError: a directory has no store.
    """

    def __init__(self, places: Iterable[StoreDirectory]) -> None:
        self._directories: list[Directory] = []
        self._queues: dict[MessageQueue, StoredQueue] = {}
        try:
            for place in places:
                self._directories.append(open_directory(place))
        except BaseException:
            self.close()
            raise

    def selected(self, selection: Selection) -> QueueRoutes:
        """Find the queues that a read selects.

        :raises NoRouteError: a selected topic or queue is in none of the stores.
        """
        topics = selection.topics(self._topics)
        for directory in self._directories:
            self._open(directory, topics)
        found = {queue: Addresses() for queue in sorted(self._queues) if selection.wants(queue)}
        known = {queue.topic for queue in found}
        for topic in topics:
            if topic not in known and not isinstance(selection, Matching):
                raise NoRouteError(f"topic {topic!r} {self._why_missing()}")
        if isinstance(selection, Assigned) and (absent := selection.queues - found.keys()):
            raise NoRouteError(f"{min(absent)} is not in the stores; {selection}")
        return QueueRoutes(found)

    def _why_missing(self) -> str:
        held = [directory.shown for directory in self._directories if directory.is_held]
        if held:
            return (
                f"has no consume queue on disk: a broker runs on {held[0]}, and one of this project writes new entries"
                " within a minute; read from the broker, or stop it"
            )
        return "is in no record of the stores"

    def _topics(self) -> list[str]:
        """Return the names of all topics; those of records if no consume queue of a store is left."""
        found: set[str] = set()
        for directory in self._directories:
            topics = directory.topics()
            if not topics and not directory.is_held:
                topics = sorted({topic for topic, _ in LogIndex(directory, directory.log.min_offset, None).parts})
            found.update(topics)
        return sorted(found)

    def _open(self, directory: Directory, topics: Sequence[str]) -> None:
        """Open the queues of topics in one store, and scan its log for those that are missing in consume queues."""
        unfinished = {key for key in directory.unfinished() if key[0] in topics}
        if unfinished and directory.is_held:
            topic, number = min(unfinished)
            raise ConfigError(
                f"the broker that runs on {directory.shown} rebuilds queue {topic}-{number}, whose files lack"
                " messages meanwhile: read from the broker, or wait for its end"
            )
        views = {
            topic: {
                view.queue_id: view for view in directory.open_topic(topic) if (topic, view.queue_id) not in unfinished
            }
            for topic in topics
        }
        gone = [topic for topic in topics if not views[topic]]
        parts: Mapping[Key, Sequence[Part]] = {}
        if directory.is_held:
            _log.info("a broker runs on %s: read is what its consume queues have on disk", directory.shown)
        elif directory.log.starts and (gone or directory.is_torn):
            begin = directory.log.min_offset if gone or unfinished else directory.indexed_to()
            _log.warning(
                "the commit log of %s is scanned from %d: %s", directory.shown, begin,
                _why_scanned(gone, unfinished),
            )  # fmt: skip
            index = LogIndex(directory, begin, frozenset(topics))
            _log.warning("the commit log of %s ends at %d", directory.shown, index.end)
            parts = index.parts
        keys = {(topic, number) for topic in topics for number in views[topic]} | set(parts)
        for topic, number in sorted(keys):
            view = views[topic].get(number)
            stored = StoredQueue(directory, (topic, number), view, parts.get((topic, number), ()))
            self._queues[MessageQueue(topic, directory.name, number)] = stored

    def bounds(self, queues: QueueRoutes) -> dict[MessageQueue, Bounds]:
        """Return the earliest and the latest offset of each queue."""
        return {queue: Bounds(self._queues[queue].earliest, self._queues[queue].latest) for queue in queues.addresses}

    def earliest(self, queues: QueueRoutes) -> Offsets:
        """Return the earliest offset of each queue."""
        return {queue: self._queues[queue].earliest for queue in queues.addresses}

    def committed(self, group: str, queues: QueueRoutes) -> Offsets:
        """Refuse: a read of a store has no group.

        :raises ConfigError: always.
        """
        del queues
        raise ConfigError(f"the offsets of group {group} are asked of brokers: a read of a store has no group")

    def since(self, queues: QueueRoutes, times: Mapping[MessageQueue, int]) -> Offsets:
        """Find the first message of each queue that was stored at or after a time, in ms since 1970."""
        return {queue: self._queues[queue].since(times[queue]) for queue in queues.addresses}

    def message_bytes(self, ranges: Sequence[QueueRange], queues: QueueRoutes, group: str) -> dict[str, float]:
        """Return the average bytes of a message by topic, from consume queue entries in the middle of ranges."""
        del queues, group
        sizes = {one.queue.topic: self._queues[one.queue].message_bytes((one.start + one.stop) // 2) for one in ranges}
        return {topic: size for topic, size in sizes.items() if size}

    def located(self, ranges: Sequence[QueueRange], queues: QueueRoutes) -> list[LocatedRange]:
        """Return where the messages of ranges are: those in consume queues first, then by parts of the log."""
        del queues
        found = [part for one in ranges for part in self._queues[one.queue].located(one)]
        plain = [one for one in found if one.span is None]
        spanned = [(one.range.queue.broker_name, one.span, one) for one in found if one.span is not None]
        return plain + [one for *_, one in sorted(spanned, key=lambda each: each[:2])]

    def log_parts(self, ranges: Sequence[QueueRange], number: int) -> list[list[QueueRange]]:
        """Cut ranges of one topic and broker into about ``number`` groups whose records are next to each other."""
        return log_parts([Stored(one, self._queues[one.queue].view) for one in ranges], number)

    def close(self) -> None:
        """Close all files."""
        for directory in self._directories:
            directory.close()


def _whole_end(directory: Directory, view: QueueView) -> int:
    """Return the offset after the last entry of a queue whose record is whole in the log.

    A crash, or a copy of a store in use, may have entries of records that are not in the log.
    """
    if view.end <= view.min or _is_whole(directory, view, view.end - 1):
        return view.end
    offsets = range(view.min, view.end)
    end = offsets.start + bisect_left(offsets, True, key=lambda offset: not _is_whole(directory, view, offset))
    _log.warning(
        "%s of %s ends at offset %d: the entries up to %d are of records that the commit log does not have",
        view, directory.shown, end, view.end - 1,
    )  # fmt: skip
    return end


def _is_whole(directory: Directory, view: QueueView, offset: int) -> bool:
    """Return True if the record of an entry is where the entry says, or if the entry is one for a lost message."""
    entries = entries_of(view.raw(offset, 1), offset)
    if not len(entries.offsets):
        return False
    physical, size = int(entries.physical[0]), int(entries.sizes[0])
    if not directory.log.has(physical, size) or size < _HEAD:
        return physical == 0
    (chunk,) = checked_chunks(directory.log_bytes(physical, physical + size), entries, view.queue_id, None)
    return not chunk.is_damaged
