"""Fetch ranges of queues from the files of store directories: :class:`StoreFetching`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from rocketmq_py.accelerator import installed
from rocketmq_py.arrow.offline.directories import Directory, open_directory
from rocketmq_py.arrow.offline.log_index import Key, StoredAt, ascending, queues_of
from rocketmq_py.arrow.offline.log_order import Stored, swept
from rocketmq_py.arrow.offline.records import Entries, checked_chunks, entries_of, gathered, has_code, is_record, runs
from rocketmq_py.arrow.options.offsets import Offsets
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.ranges import QueueRange, report_losses
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange
from rocketmq_py.core.consumer.pull_window import FetchedChunk
from rocketmq_py.core.sql92 import SqlFilter, compile_sql
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.properties import decode_properties
from rocketmq_py.store.tools.store_files import QueueView
from rocketmq_py.wire.java_hash import tags_code
from rocketmq_py.wire.record import record_properties, record_sizes

_ENTRIES = 32 * 1024
"""Number of consume queue entries that are read at once."""


class StoreFetching:
    """Fetches the ranges of one task from store directories; close it when done.

    Implements :class:`~rocketmq_py.arrow.source.origin.Fetching`.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._places = {place.name: place for place in options.stores}
        self._directories: dict[str, Directory] = {}
        self._views: dict[tuple[str, str], dict[int, QueueView]] = {}
        self._scanned: tuple[str, tuple[int, int]] | None = None
        self._records: dict[Key, list[StoredAt]] = {}

    @property
    def takes_all(self) -> bool:
        """True if the read has no filter."""
        return not self._options.tags and self._options.sql is None

    def each(self, ranges: Sequence[LocatedRange], limit: int) -> Generator[tuple[LocatedRange, QueueFetch | LogFetch]]:
        """Yield each range and its fetch, with the filter of the read; queues of one topic in pieces, as the log is.

        :param limit: without effect: files are read one after the other.
        """
        del limit
        for (topic, broker, is_listed), members in groupby(ranges, key=_shared):
            together = list(members)
            if is_listed and len(together) > 1:
                yield from self._swept(self._directory(broker), topic, [one.range for one in together])
            else:
                yield from ((one, self.again(one)) for one in together)

    def _swept(
        self, directory: Directory, topic: str, ranges: Sequence[QueueRange]
    ) -> Iterator[tuple[LocatedRange, QueueFetch]]:
        views = self._topic(directory, topic)
        matches = None if self._options.sql is None else compile_sql(self._options.sql)

        def fetch(wanted: QueueRange, entries: Entries) -> PieceFetch:
            return PieceFetch(
                directory, wanted, matches, views.get(wanted.queue.queue_id), self._options.tags,
                self._options.fail_on_data_loss, entries,
            )  # fmt: skip

        stored = [Stored(one, views.get(one.queue.queue_id)) for one in ranges]
        wants = fetch(ranges[0], entries_of(b"", 0)).wants
        for piece in swept(stored, directory.log.file_size, wants, directory.hold):
            yield LocatedRange(piece.range, Addresses()), fetch(piece.range, piece.entries)

    def again(self, located: LocatedRange, *, filtered: bool = True, retried: bool = True) -> QueueFetch | LogFetch:
        """Return the fetch of a range.

        :param filtered: whether the filter of the read applies.
        :param retried: without effect: a file has the same content the next time.
        """
        del retried
        tags, sql = (self._options.tags, self._options.sql) if filtered else ((), None)
        matches = None if sql is None else compile_sql(sql)
        wanted = located.range
        directory = self._directory(wanted.queue.broker_name)
        if located.span is not None:
            return LogFetch(directory, wanted, matches, self._scan(directory, located.span, wanted))
        view = self._topic(directory, wanted.queue.topic).get(wanted.queue.queue_id)
        return QueueFetch(directory, wanted, matches, view, tags, self._options.fail_on_data_loss)

    def earliest(self, ranges: Sequence[QueueRange]) -> Offsets:
        """Find the earliest offsets of the queues of ranges now: a running broker removes old messages."""
        found: Offsets = {}
        with_fresh = StoreFetching(self._options)
        try:
            for queue in {one.queue for one in ranges}:
                directory = with_fresh._directory(queue.broker_name)
                view = with_fresh._topic(directory, queue.topic).get(queue.queue_id)
                found[queue] = 0 if view is None else view.min
        finally:
            with_fresh.close()
        return found

    def close(self) -> None:
        """Close all files."""
        for directory in self._directories.values():
            directory.close()
        self._directories.clear()
        self._views.clear()

    def _directory(self, name: str) -> Directory:
        if name not in self._directories:
            self._directories[name] = open_directory(self._places[name])
        return self._directories[name]

    def _topic(self, directory: Directory, topic: str) -> dict[int, QueueView]:
        key = directory.name, topic
        if key not in self._views:
            self._views[key] = {view.queue_id: view for view in directory.open_topic(topic)}
        return self._views[key]

    def _scan(
        self, directory: Directory, span: tuple[int, int], wanted: QueueRange
    ) -> Callable[[], Sequence[StoredAt]]:
        """Return a function that scans a part of the log for the records of a range; the last part is remembered."""

        def records() -> Sequence[StoredAt]:
            if self._scanned != (directory.name, span):
                self._records, self._scanned = queues_of(directory.log, *span), (directory.name, span)
            return ascending(self._records.get(wanted.queue[::2], ()), wanted.start, wanted.stop)

        return records


def _shared(one: LocatedRange) -> tuple[str, str, bool]:
    """Return topic and broker of a range, and whether a consume queue tells where its messages are."""
    return one.range.queue.topic, one.range.queue.broker_name, one.span is None


class StoreFetch:
    """What the two ways to fetch a range from a store share."""

    between = 0

    def __init__(self, directory: Directory, wanted: QueueRange, sql: SqlFilter | None) -> None:
        self._directory = directory
        self._wanted = wanted
        self._sql = sql
        self.skipped = 0
        """Number of offsets skipped because their messages were deleted, with ``failOnDataLoss=false``."""

    def is_compacted(self) -> bool:
        """Return False: the commit log has every message that was not removed by age."""
        return False

    def close(self) -> None:
        """Do nothing: the files belong to :class:`StoreFetching`."""

    def _filtered(self, chunk: FetchedChunk) -> FetchedChunk:
        """Return a chunk without the messages that the SQL expression excludes; damaged records stay."""
        if self._sql is None or chunk.is_damaged:
            return chunk
        try:
            records = [chunk.body[at : at + size] for at, size in record_sizes(chunk.body)]
            kept = [one for one in records if self._sql.matches(decode_properties(record_properties(one)))]
        except CorruptRecord:
            return chunk  # the decoder finds out which one it is
        return chunk._replace(body=b"".join(kept))


class QueueFetch(StoreFetch):
    """The records of a range by the entries of the consume queue.

    :param view: the consume queue; None if it is missing now.
    """

    def __init__(
        self, directory: Directory, wanted: QueueRange, sql: SqlFilter | None, view: QueueView | None,
        tags: Sequence[str], fail_on_data_loss: bool,
    ) -> None:  # fmt: skip
        super().__init__(directory, wanted, sql)
        self._view = view
        self._codes = np.array([tags_code(tag) for tag in tags], np.int64) if tags else None
        self._fail_on_data_loss = fail_on_data_loss

    def chunks(self) -> Iterator[list[FetchedChunk]]:
        """Yield the records of the range in the order of offsets.

        :raises DataLossError: messages were removed by age, and ``failOnDataLoss`` is true.
        :raises StoreError: the disk fails.
        """
        offset, stop = self._wanted.start, self._wanted.stop
        while self._view is not None and offset < stop:
            raw = self._view.raw(offset, min(_ENTRIES, stop - offset))
            entries = entries_of(raw, offset)
            yield from self._of(entries)
            offset = offset + len(entries.offsets) if len(entries.offsets) else self._view.next_file(offset)

    def _of(self, entries: Entries) -> Iterator[list[FetchedChunk]]:
        entries = entries.only(is_record(entries))
        self._tell_removed(entries.only(entries.physical < self._directory.log.min_offset))
        entries = entries.only(self.wants(entries))
        chunk = self._of_block(entries)
        if chunk is not None:
            yield [self._filtered(chunk)]
            return
        for run in runs(entries, self._directory.log.file_size):
            begin, end = int(run.physical[0]), int(run.physical[-1] + run.sizes[-1])
            data = self._directory.log_bytes(begin, end)
            if not data:  # the file is gone: the reader counts what is missing
                continue
            found = checked_chunks(data, run, self._wanted.queue.queue_id, installed())
            yield [self._filtered(chunk) for chunk in found]

    def _of_block(self, entries: Entries) -> FetchedChunk | None:
        """Return the records of entries if the block that is held has them, and all are intact and in order."""
        if not len(entries.offsets):
            return None
        block = self._directory.held(int(entries.physical[0]), int(entries.physical[-1] + entries.sizes[-1]))
        return None if block is None else gathered(block, entries, self._wanted.queue.queue_id, installed())

    def wants(self, entries: Entries) -> NDArray[np.bool_]:
        """Return which entries of records are those of records that the log still has and the tags may select."""
        kept = entries.physical >= self._directory.log.min_offset
        return kept if self._codes is None else kept & has_code(entries, self._codes)

    def _tell_removed(self, gone: Entries) -> None:
        if len(gone.offsets):
            first, last = int(gone.offsets[0]), int(gone.offsets[-1])
            loss = f"offsets {first} to {last} of {self._wanted.queue} have been removed by retention"
            report_losses([loss], self._fail_on_data_loss)
            self.skipped += len(gone.offsets)


class PieceFetch(QueueFetch):
    """The records of a range whose entries are known."""

    def __init__(
        self, directory: Directory, wanted: QueueRange, sql: SqlFilter | None, view: QueueView | None,
        tags: Sequence[str], fail_on_data_loss: bool, entries: Entries,
    ) -> None:  # fmt: skip
        super().__init__(directory, wanted, sql, view, tags, fail_on_data_loss)
        self._entries = entries

    def chunks(self) -> Iterator[list[FetchedChunk]]:
        """Yield the records of the range in the order of offsets; see :meth:`QueueFetch.chunks`."""
        yield from self._of(self._entries)


class LogFetch(StoreFetch):
    """The records of a range by a scan of a part of the log.

    :param records: returns the records of the range in that part.
    """

    def __init__(
        self, directory: Directory, wanted: QueueRange, sql: SqlFilter | None,
        records: Callable[[], Sequence[StoredAt]],
    ) -> None:  # fmt: skip
        super().__init__(directory, wanted, sql)
        self._find = records

    def chunks(self) -> Iterator[list[FetchedChunk]]:
        """Yield the records of the range, at once.

        :raises StoreError: the disk fails.
        """
        found = self._find()
        if found:
            read = self._directory.log_bytes
            body = b"".join([read(one.physical, one.physical + one.size) for one in found])
            yield [self._filtered(FetchedChunk(body, self._wanted.start, self._wanted.stop))]
