"""The message store of one broker: commit log, consume queues, index, checkpoint and flush thread as one object.

All methods must be called from one thread; only syncs and removals of files run in another, the flush thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from rocketmq_py.accelerator import Accelerator, SendRun
from rocketmq_py.errors import ClosedError, StoreCorrupt, StoreLocked, StoreNotWritable
from rocketmq_py.store.cleaner import Cleaner
from rocketmq_py.store.codec.dispatch_fields import tags_code
from rocketmq_py.store.fs.abort_file import AbortFile
from rocketmq_py.store.fs.filesystem import FileSystem, Lock
from rocketmq_py.store.fs.layout import StoreLayout
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.store.fs.residency import Loadable, Residency
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.index.index_rebuild import rebuild_of
from rocketmq_py.store.log.checkpoint import Checkpoint
from rocketmq_py.store.log.commit_log import CommitLog, check_place
from rocketmq_py.store.log.scan import Found, LogScan
from rocketmq_py.store.queue.confirm_offset import ConfirmOffset
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.queue.dispatch import RecordDispatch
from rocketmq_py.store.queue.lent_queues import LentQueues, arrivals_in
from rocketmq_py.store.queue.queue_ends import QueueEndsFile
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.queue.runs import AppendedRun, Arrival, KindTarget
from rocketmq_py.store.queue.unfinished_queue import UnfinishedQueue
from rocketmq_py.store.read.checks import StoreChecks
from rocketmq_py.store.read.read_ahead import Loader, ReadAhead
from rocketmq_py.store.read.reader import Accepts, KeyQuery, MessageFilter, Reader
from rocketmq_py.store.read.scrub import Scrub, scrub_of
from rocketmq_py.store.read.tag_search import TagSearch
from rocketmq_py.store.rebuild import Rebuild
from rocketmq_py.store.recovery import Recovery
from rocketmq_py.store.replication import Replica
from rocketmq_py.store.retention import RetentionLimits
from rocketmq_py.store.schedule import FlushSchedule, Readable
from rocketmq_py.store.settings import SYNC_FLUSH, StoreConfig
from rocketmq_py.store.workers import Workers
from rocketmq_py.store.write.records import (
    Appended,
    AppendedBatch,
    Boundary,
    GetResult,
    NewBatch,
    NewRecord,
    QueryResult,
    UniformBatch,
)  # fmt: skip
from rocketmq_py.store.write.writer import EncodeRecord, Writer

_log = logging.getLogger(__name__)


def wall_clock() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class MessageStore:
    """Messages on disk, in the files of Apache RocketMQ.

    Reads commit pending appends first, so that they see them.

    :param root: the store directory (``storePathRootDir``).
    :param store_host: this broker's address as in records, packed: 8 bytes for IPv4, 20 for IPv6.
    :param fs: file operations.
    :param clock: returns milliseconds since the epoch.
    :param is_batched: returns whether a topic has batch consume queues; called from :meth:`open` on.
    :param is_slave: whether messages come only from a master, through :attr:`replica`.
    :param on_arrival: called with the messages that have become readable, once per :meth:`commit_pending`.
    :param on_written: called after each write to the commit log, before messages become readable.
    :param accelerator: compiled functions for some of the work; None for Python functions only.
    :param workers: runs blocking work; in threads by default.
    """

    def __init__(  # noqa: PLR0913 - what a store is made of
        self,
        root: Path,
        config: StoreConfig | None = None,
        *,
        store_host: bytes,
        fs: FileSystem | None = None,
        clock: Callable[[], int] = wall_clock,
        is_batched: Callable[[str], bool] = lambda _: False,
        is_slave: bool = False,
        on_arrival: Callable[[list[Arrival]], None] | None = None,
        on_written: Callable[[], None] | None = None,
        accelerator: Accelerator | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.config = config or StoreConfig()
        self.layout = StoreLayout(Path(root), self.config.commit_log_directory)
        self._on_arrival = on_arrival
        self._on_written = on_written
        self._fs = fs or OsFileSystem(accelerator)
        self.workers = workers or Workers()
        """Runs blocking work on files of the store, and other blocking work of the broker."""
        self.loader = Loader(self.load, self.new_residency, self.workers.executor("rocketmq-read-tables"))
        """Loads messages for coroutines."""
        self._clock = clock
        self._is_batched = is_batched
        self._store_host = store_host
        self._lock: Lock | None = None
        self._is_open = self._is_marked = self._is_refusing = False
        self._disk_full: str | None = None
        self._flushes_at_once = self.config.flush_disk_type == SYNC_FLUSH
        self._unconfirmed: ConfirmOffset | None = None
        self._is_slave = is_slave
        self._accelerator = accelerator
        self.lent = LentQueues.of(accelerator, self.config, is_slave=is_slave)
        """Lends consume queues to the accelerator; None if they are not lent."""
        self._replica: Replica | None = None

    # -- opening and closing

    def open(self, is_topic: Callable[[str], bool] = lambda _: True) -> None:
        """Lock the directory, load the files and recover.

        :param is_topic: returns whether a topic exists.
        :raises StoreLocked: another process uses the store.
        :raises StoreCorrupt: files contradict the configuration or cannot be read.
        """
        try:
            self._lock = self._fs.lock(self.layout.lock)
        except BlockingIOError as e:
            raise StoreLocked(f"{self.layout.root} is in use by another broker: stop it or choose another store") from e
        abort = self._abort = AbortFile(self._fs, self.layout.abort)
        clean = not abort.tells_crash
        try:
            check_place(self._fs, self.layout)
            # Files change from here on: after a crash during recovery the next start must not trust them.
            unmarked = self._mark_open()
            torn = self._is_slave or abort.is_of_slave
            self._load(clean=clean, torn_anywhere=torn, unwritten=unmarked, is_topic=is_topic)
        except BaseException:
            if clean:
                abort.restore()
            self._lock.release()
            raise

    def _mark_open(self) -> OSError | None:
        """Write the abort file, which exists while the store is open; return the error, such as of a full disk."""
        try:
            self._abort.write(is_slave=self._is_slave)
        except OSError as e:
            self._is_marked = False
            return e
        self._is_marked = True
        return None

    def _load(
        self, *, clean: bool, torn_anywhere: bool, unwritten: OSError | None, is_topic: Callable[[str], bool]
    ) -> None:
        fs, config, layout = self._fs, self.config, self.layout
        self._checkpoint = Checkpoint(fs, layout.checkpoint)
        log = self._commit_log = CommitLog(fs, layout.commit_log, config.mapped_file_size_commit_log)
        self._files_thread = self.workers.executor("rocketmq-queue-files")
        self._queues = QueueTable(fs, layout, config, self._is_batched, log.stored_at, self._files_thread, self.lent)
        self._index = MessageIndex(fs, layout, config, self._clock, self._accelerator)
        self._ends = QueueEndsFile(fs, layout.queue_ends)
        self._queues.before_removal = self._ends.write_deletions
        recovery = Recovery(fs, config, log, self._queues, self._index, self._checkpoint, self._ends, is_topic)
        try:
            end = recovery.run(clean=clean, torn_anywhere=torn_anywhere, is_slave=self._is_slave)
        except OSError as e:
            raise StoreCorrupt(f"{layout.root} cannot be recovered: {e}") from e
        self._reader = Reader(config, self._commit_log, self._index, accelerator=self._accelerator)
        self.checks = StoreChecks(self._queue, self._reader, self._commit_log)
        """Checks of what reads need, for those that must not wait for the disk."""
        self._writer = Writer(config, log, self._queues, self._index, self._store_host, self._clock, self._accelerator)
        self._writer.resume(end, recovery.last_timestamp)
        log.written_from = end
        log.allocate_ahead(self.workers.executor("rocketmq-log-space"))
        self._index.load_slots(self.workers.executor("rocketmq-index-read"))
        self._flusher = self.workers.flusher(log.sync, log.min_offset if not clean else end)
        if self._flushes_at_once and not config.read_un_committed:
            self._unconfirmed = ConfirmOffset(end, recovery.last_timestamp)
            self._index.confirmed = end
        self._schedule = FlushSchedule(
            config, fs, log, self._queues, self._index, self._checkpoint, self._ends, self._flusher, self._clock()
        )
        ahead = self.read_ahead("clean-read")
        self._cleaner = Cleaner(fs, layout, log, self._queues, self._index, self._flusher, self._checkpoint, ahead)
        indexing = rebuild_of(self._index, self._checkpoint, self._flusher, self.workers)
        dispatch = partial(RecordDispatch, config, self._queues, indexing.whole if indexing else self._index)
        self.rebuild = Rebuild(
            log, self._queues, dispatch, recovery.unfinished, self._readable_end, indexing, is_slave=self._is_slave
        )
        """Rebuilds the consume queues whose rebuild the start has put off."""
        self.rebuild.on_finished = self._rebuilt
        if self._is_slave:
            received = RecordDispatch(config, self._queues, self._index, self._commit_replica, self._ends.delete)
            self._replica = Replica(log, self._writer, received, self.commit_pending)
            self._allow()
        self._is_open = True
        if failure := unwritten or recovery.failure:
            self._refuse(failure)
        _log.info("store %s is open, the commit log has %d to %d", layout.root, self._commit_log.min_offset, end)

    def close(self) -> None:
        """Flush everything, remove the abort file and unlock the directory. Idempotent.

        If something cannot be written, that is logged, and the abort file stays: the next start recovers. It stays in
        the middle of a rebuild of queues, too: a Java broker then rebuilds them.
        """
        if not self._is_open:
            return
        unwritten = self._commit_pending()
        self._is_open = False
        self._writer.refuse("it is closing")
        if self._replica is not None:
            self._replica.truncate()
        failure = self._flush_everything() or unwritten
        try:
            if failure is None:
                self._abort.close(in_rebuild=self.rebuild.give_up())
        except OSError as e:
            failure = e
        if failure is not None:
            # The abort file stays, so that the next start rebuilds queues and index from the log.
            _log.error("store %s was not closed cleanly: %s", self.layout.root, failure)
        self.loader.close()
        self._cleaner.close()
        self._queues.close()
        self._index.close()
        self._commit_log.close()
        if self._lock is not None:
            self._lock.release()

    def _flush_everything(self) -> OSError | None:
        """Flush everything and end the flush thread; return the error, None if there was none."""
        failure = None
        self._confirm_everything()
        try:
            self.rebuild.close()
            self._queues.finish_removals()
            self._schedule.everything(self._readable())
        except OSError as e:
            failure = e
        self._flusher.stop()
        return self._flusher.failure or failure

    def flush(self) -> bool:
        """Flush the log, such as before a shutdown, and block until that is done; True if all of it is on disk."""
        unwritten = self._commit_pending()
        self._flusher.complete(self._commit_log.end)
        return unwritten is None and self._flusher.failure is None

    def _confirm_everything(self) -> None:
        """Flush messages that are not confirmed yet, and block until they are readable."""
        if self._unconfirmed:
            self._flusher.complete(self._commit_log.end)
            self._confirm()

    # -- writing

    @property
    def replica(self) -> Replica:
        """Writer of the bytes that a slave receives from its master.

        :raises StoreNotWritable: this is not the store of a slave.
        """
        if self._replica is None:
            raise StoreNotWritable(f"the store {self.layout.root} is not that of a slave: it has no master")
        return self._replica

    def _commit_replica(self) -> None:
        """Make all dispatched records of a replica readable, blocking until the disk has them."""
        assert self._replica is not None
        self._replica.hand_over()
        self.commit_pending()
        self._confirm_everything()

    def now(self) -> int:
        """Store timestamp of the next append, milliseconds since the epoch."""
        return self._writer.now()

    def append(self, record: NewRecord) -> Appended:
        """Append a message; it becomes readable with the next :meth:`commit_pending`.

        :raises MessageIllegal: the message is too large.
        :raises StoreNotWritable: the store refuses writes.
        """
        return self._writer.append(record)

    def append_encoded(self, topic: str, queue_id: int, tags_code: int, encode: EncodeRecord) -> Appended | None:
        """As :meth:`append`, for a record that the accelerator encodes, see :meth:`Writer.append_encoded`."""
        return self._writer.append_encoded(topic, queue_id, tags_code, encode)

    def append_run(
        self, run: SendRun, begin: int, kinds: Sequence[KindTarget | None], born_host: bytes, suffix: bytes
    ) -> AppendedRun | None:
        """Append sends of a run together, from index ``begin`` on, see :meth:`Writer.append_run`."""
        return self._writer.append_run(run, begin, kinds, born_host, suffix)

    def append_many(self, records: Sequence[NewRecord]) -> list[Appended]:
        """Append messages so that they are adjacent in one file of the log. Errors as of :meth:`append`."""
        return self._writer.append_many(records)

    def append_batch(self, batch: NewBatch) -> AppendedBatch:
        """Append the messages in the body of a batch; errors of :meth:`append`, and CorruptRecord for other bodies."""
        return self._writer.append_batch(batch)

    def append_uniform(self, batch: UniformBatch) -> AppendedBatch:
        """Append a batch whose messages are already split into columns (:class:`UniformMessages`)."""
        return self._writer.append_uniform(batch)

    def append_inner_batch(self, record: NewRecord, count: int) -> Appended:
        """As :meth:`append`, for a batch of ``count`` messages stored as one record, in topics with batch queues."""
        return self._writer.append_inner_batch(record, count)

    def commit_pending(self) -> None:
        """Write pending appends to the log and make them readable; under SYNC_FLUSH as soon as they are on disk.

        If queues or index cannot be written, this raises no error, because the log has the messages; the next append is
        refused.

        :raises StoreNotWritable: the log cannot be written. Appends stay pending and become readable if a later call
            succeeds; until then no producer may get a success response.
        """
        failure = self._commit_pending()
        if failure is not None:
            raise StoreNotWritable(f"the commit log cannot be written: {failure}") from failure

    def _commit_pending(self) -> OSError | None:
        """As :meth:`commit_pending`, but return the error instead of raising it, so that reads can go on."""
        writer = self._writer
        if writer.end_turn():
            if self._unconfirmed is not None and self._unconfirmed.parts:
                self._confirm()
            return None
        touched = writer.touched
        try:
            writer.flush()
        except OSError as e:
            self._refuse(e)
            return e
        writer.touched = []
        if self._flushes_at_once:
            self._flusher.request(self._commit_log.end)
        if self._on_written is not None:
            self._on_written()
        if self._unconfirmed is not None:
            self._hold_back(self._unconfirmed, touched)
            return None
        arrivals = arrivals_in(touched, writer.last_timestamp) if self._on_arrival is not None else []
        arrivals += self._queues.commit_lent(writer.last_timestamp, tells=bool(arrivals))
        try:
            self._queues.commit_pending(touched)
            self._index.commit_pending()
        except OSError as e:
            self._refuse(e)
        if self._on_arrival is not None and arrivals:
            self._on_arrival(arrivals)
        return None

    def _hold_back(self, unconfirmed: ConfirmOffset, touched: list[ConsumeQueue]) -> None:
        """Keep messages that were just written unreadable until they are flushed.

        :param touched: the queues of these messages.
        """
        end = self._whole_end()
        unconfirmed.add(end, self._writer.last_timestamp, touched)
        try:
            flushed = self._flusher.wait(end)
        except RuntimeError:  # no event loop runs: the next read or commit_pending checks again
            flushed = None
        if flushed is not None:
            flushed.add_done_callback(self._flush_ended)
        self._confirm()

    def _flush_ended(self, flushed: asyncio.Future[None]) -> None:
        if not flushed.cancelled() and flushed.exception() is None:
            self._confirm()

    def _confirm(self) -> None:
        """Make the messages readable whose records have been flushed."""
        unconfirmed = self._unconfirmed
        parts = unconfirmed.take(self._flusher.flushed_offset) if unconfirmed is not None else []
        for end, timestamp, entries in parts:
            arrivals = [Arrival(q.topic, q.queue_id, q.max_offset, n, timestamp, flat) for q, flat, n in entries]
            self._index.confirmed = end
            try:
                self._queues.publish(entries)
                self._index.commit_pending()
            except OSError as e:
                self._refuse(e)
            if self._on_arrival is not None and arrivals:
                self._on_arrival(arrivals)

    def _readable(self) -> Readable:
        """End of the readable messages, and the store timestamp of the newest."""
        if self._unconfirmed is not None:
            return Readable(self._unconfirmed.end, self._unconfirmed.timestamp)
        return Readable(self._whole_end(), self._writer.last_timestamp)

    def _readable_end(self) -> int:
        self._commit_pending()
        return self._readable().end

    def _rebuilt(self, queue: UnfinishedQueue) -> None:
        if self._unconfirmed is not None:
            self._unconfirmed.replace(queue, queue.whole)
        self._cleaner.trim_again()

    def _whole_end(self) -> int:
        """Offset after the last complete record of the log."""
        return self._commit_log.end if self._replica is None else self._replica.whole_end

    # -- reading

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue with all that was appended to it readable; None if it does not exist.

        Appends to other queues stay pending: each pop of a socket's read reads one queue and appends to another.

        :raises ClosedError: the store is closed.
        """
        if not self._is_open:
            raise ClosedError(f"the store {self.layout.root} is closed")
        queue = self._queues.by_key.get((topic, queue_id))
        if queue is not None and queue.pending:
            self._commit_pending()
        elif self._unconfirmed:
            self._confirm()
        return queue

    def get(  # noqa: PLR0913 - what a pull says
        self, topic: str, queue_id: int, offset: int, max_count: int, *, accepts: Accepts | None = None,
        max_bytes: int | None = None, message_filter: MessageFilter | None = None, allow_view: bool = False,
        bulk: bool = False, residency: Residency | None = None,
    ) -> GetResult:  # fmt: skip
        """Read messages of a queue from ``offset`` on, by Java's rules and limits.

        :param accepts: takes the tags code of a message and returns whether the message may match.
        :param message_filter: takes the bytes of a record and returns whether it matches.
        :param allow_view: allows a view of the log as body instead of a copy; it keeps that part of the log mapped.
        :param bulk: limit the number of messages by ``max_count`` only, not by the settings; the limits on bytes apply.
        :param residency: if given, do not wait for the disk; pass the same object when the read is repeated.
        :raises NotInMemory: only with ``residency``: pass the error's parts to :meth:`load`, and repeat the read.
        """
        queue = self._queue(topic, queue_id)
        return self._reader.get(
            queue, offset, max_count, max_bytes, accepts, message_filter, allow_view, bulk, residency
        )

    def load(self, parts: Sequence[Loadable]) -> None:
        """Bring parts of files into main memory. Any thread may call it; blocks for as long as the disk takes.

        :raises OSError: the disk fails.
        """
        for part in parts:
            part.load(self._fs)

    def new_residency(self) -> Residency | None:
        """Return an object for reads that do not wait for the disk; None if the platform cannot tell what is in memory.

        With None, reads wait for the disk.
        """
        return Residency() if self._fs.tells_residency else None

    def read_ahead(self, name: str) -> ReadAhead:
        """Return what loads bytes for periodic work; close it before the store.

        :param name: of its thread.
        """
        return ReadAhead(self.load, self.new_residency, self.workers.executor(f"rocketmq-{name}"))

    def new_scrub(self) -> Scrub:
        """Return what checks the records of the open store, their consume queue entries and the index."""

        def find_queue(topic: str, queue_id: int) -> ConsumeQueue | None:
            return self._queue(topic, queue_id) if self._is_open else None

        def whole_end() -> int:
            if self._is_open:
                self._commit_pending()
            return self._whole_end()

        log, queues, repair = self._commit_log, self._queues, self._reader.repair
        return scrub_of(log, whole_end, find_queue, queues, repair, self._flusher, self._index, self.config)

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """True if the queue has or had messages."""
        return self._queue(topic, queue_id) is not None

    def queue_ids(self, topic: str, wanted: Iterable[int]) -> set[int]:
        """Return those ids in ``wanted`` whose queue of the topic has, or once had, messages."""
        self._commit_pending()
        return self._queues.ids_of(topic, wanted)

    def queues(self) -> list[tuple[str, int]]:
        """Topic and id of every queue that has or had messages."""
        return list(self._queues.by_key)

    def batched_topics(self) -> set[str]:
        """Topics that have batch consume queues."""
        return {topic for (topic, _), queue in self._queues.by_key.items() if queue.is_batched}

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Minimum offset of a queue, and the offset after its last readable message; (0, 0) for an unknown queue."""
        queue = self._queue(topic, queue_id)
        return (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)

    def min_offset_for_clients(self, topic: str, queue_id: int) -> int:
        """Return the minimum offset that clients get, as from a Java broker.

        It is that of :meth:`queue_range`, but -1 for a batch queue that never had a message.
        """
        first, end = self.queue_range(topic, queue_id)
        return -1 if end == 0 and self._is_batched(topic) else first

    def offset_by_time(
        self,
        topic: str,
        queue_id: int,
        timestamp: int,
        boundary: Boundary = Boundary.LOWER,
        *,
        end: int | None = None,
        residency: Residency | None = None,
    ) -> int:
        """Return the queue offset for a store timestamp in milliseconds; 0 for an unknown queue.

        LOWER: the first message stored at ``timestamp`` or later; the end of the queue if there is none. UPPER: the
        last message stored at ``timestamp`` or earlier; 0 if there is none.

        :param end: end of the search; None for that of the queue. A search that is repeated probes the same messages
            only if it has the same end.
        :param residency: if given, do not wait for the disk; pass the same object when the search is repeated.
        :raises NotInMemory: only with ``residency``; see :meth:`get`.
        """
        queue = self._queue(topic, queue_id)
        if queue is None:
            return 0
        return self._reader.offset_by_time(queue, timestamp, boundary, end, residency)

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Store timestamp of a message, in milliseconds; -1 if there is no such message."""
        queue = self._queue(topic, queue_id)
        return self._reader.store_time(queue, offset) if queue is not None else -1

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """Store timestamp of the oldest message of a queue, in milliseconds; -1 if the queue is empty or unknown."""
        queue = self._queue(topic, queue_id)
        return self._reader.store_time(queue, queue.min_offset) if queue is not None else -1

    def earliest_message_time(self) -> int:
        """Store timestamp of the oldest message of the log, in milliseconds; -1 if the log is empty."""
        self._commit_pending()
        return self._commit_log.store_time(self._commit_log.min_offset)

    def message_at(self, physical_offset: int, size: int | None = None) -> bytes | None:
        """Record at an offset of the log; None if there is none.

        :param size: size of the record in bytes; None reads it from the record.
        """
        if physical_offset >= self._commit_log.end:  # else the record is already in the log
            self._commit_pending()
        return self._reader.message_at(physical_offset, size)

    def physical_offset(self, topic: str, queue_id: int, offset: int) -> int | None:
        """Offset in the log of the message at an offset of a queue; None if there is none, or if it is pending.

        Unlike other reads this does not commit pending appends: the write path uses it, which commits many at once.
        """
        queue = self._queues.by_key.get((topic, queue_id))
        entry = queue.entry(offset) if queue is not None else None
        return None if entry is None else entry[0]

    def record_at_queue(self, topic: str, queue_id: int, offset: int) -> bytes | None:
        """Record at an offset of a queue; None if there is none."""
        queue = self._queue(topic, queue_id)
        return self._reader.record_of(queue, offset) if queue is not None else None

    def queue_entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int]]:
        """Physical offset, size and tags code of at most ``count`` messages of a queue."""
        queue = self._queue(topic, queue_id)
        return list(queue.entries(offset, count)) if queue is not None else []

    def in_memory(self, topic: str, queue_id: int, offset: int) -> bool:
        """True if a message exists and is near enough to the end of the log to be in memory."""
        queue = self._queue(topic, queue_id)
        return queue is not None and self._reader.in_memory(queue, offset)

    def query(self, topic: str, key: str, max_num: int, begin: int, end: int) -> QueryResult:
        """Records with a key, stored between ``begin`` and ``end`` (inclusive, in milliseconds).

        Keys are compared by hash, so that records with other keys may be included.
        """
        return self.key_query(topic, key, max_num, begin, end).run(None)

    def key_query(self, topic: str, key: str, max_num: int, begin: int, end: int) -> KeyQuery:
        """As :meth:`query`, but return an object whose method ``run`` does the query without waiting for the disk."""
        self._commit_pending()
        return self._reader.key_query(topic, key, max_num, begin, end)

    def query_by_tag(self, topic: str, tag: str, max_num: int, begin: int, end: int) -> QueryResult:
        """Newest records with a tag, stored between ``begin`` and ``end`` (inclusive, in milliseconds).

        Tags are compared by hash, so that records with other tags may be included.
        """
        return self.tag_query(topic, tag, max_num, begin, end)(None)

    def tag_query(
        self, topic: str, tag: str, max_num: int, begin: int, end: int
    ) -> Callable[[Residency | None], QueryResult]:
        """As :meth:`query_by_tag`, but return a function that does the query without waiting for the disk."""
        self._commit_pending()
        limit = min(max_num, self.config.max_msgs_num_batch)
        queues = self._queues.of_topic(topic)
        search = TagSearch(self._reader, queues, tags_code(tag.encode()), limit, begin, end)

        def run(residency: Residency | None) -> QueryResult:
            records = search.query(residency)
            return QueryResult(b"".join(records), len(records), self._index.end_timestamp, self._index.end_physical)

        return run

    def log_view(self, offset: int, most: int) -> memoryview | None:
        """View of at most ``most`` bytes of the commit log from ``offset`` on, within one file; None if there are none.

        Unlike other reads this does not commit pending appends. The view keeps its file mapped.
        """
        return self._commit_log.view(offset, most)

    def scan(self, start: int) -> Iterator[Found]:
        """Records of the commit log from ``start`` on, where a record must begin; CRCs are not verified."""
        self._commit_pending()
        return iter(LogScan(self._commit_log, start, check_crc=False))

    @property
    def min_physical_offset(self) -> int:
        """Offset at which the commit log begins."""
        return self._commit_log.min_offset

    @property
    def max_physical_offset(self) -> int:
        """End of the commit log, including appends that were pending."""
        self._commit_pending()
        return self._commit_log.end

    def appended_end(self) -> int:
        """Return the end of the commit log with all appends, pending ones included; nothing is written."""
        return self._writer.appended_end

    # -- durability

    @property
    def flushed_offset(self) -> int:
        """Offset of the commit log up to which it is on disk."""
        return self._flusher.flushed_offset

    def flushed(self, physical_end: int) -> asyncio.Future[None] | None:
        """Return a future that is done when the log is on disk up to ``physical_end``; None if it already is.

        Under SYNC_FLUSH every :meth:`commit_pending` requests a flush, which covers all requests of one socket read;
        otherwise the future waits for the next scheduled flush. It raises :class:`StoreNotWritable` if a sync fails.
        """
        return self._flusher.wait(physical_end)

    async def wait_flushed(self, physical_end: int) -> None:
        """Request a flush and wait until the log is on disk up to ``physical_end``.

        :raises StoreNotWritable: the log cannot be written or synced.
        """
        self.commit_pending()
        self._flusher.request(self._commit_log.end)
        future = self.flushed(physical_end)
        if future is not None:
            await future

    def tick(self, now: int) -> None:
        """Commit pending appends, build the index, flush and clean up as due. Call it a few times a second.

        :param now: milliseconds since the epoch.
        """
        unwritten = self._commit_pending()
        if self._flusher.failure is not None:
            self._writer.refuse(f"the disk failed: {self._flusher.failure}")
            return
        if unwritten is not None:
            return
        try:
            if self._is_refusing:
                self._write_the_rest()
            self._index.build()
            self._schedule.tick(now, self._readable())
            self._cleaner.step()
        except OSError as e:
            self._refuse(e)
        else:
            self._accept()

    def _write_the_rest(self) -> None:
        """Write the abort file and the queue entries that could not be written to a full disk.

        :raises OSError: the disk is still full or fails.
        """
        if not self._is_marked and (failure := self._mark_open()) is not None:
            raise failure
        self._queues.spill()

    def _refuse(self, why: OSError) -> None:
        """Refuse messages while log, queues or index cannot be written; the next tick tries again."""
        if not self._is_refusing:
            _log.error("the store %s cannot be written, messages are refused: %s", self.layout.root, why)
        self._is_refusing = True
        self._writer.refuse(f"log, queues or index cannot be written: {why}")

    def _accept(self) -> None:
        if self._is_refusing:
            _log.warning("the store %s can be written again", self.layout.root)
            self._is_refusing = False
            self._allow()

    def _allow(self) -> None:
        """Accept messages again, unless there is another reason to refuse them."""
        if self._disk_full is not None:
            self._writer.refuse(self._disk_full)
        elif self._replica is not None:
            self._writer.refuse("it is that of a slave, which accepts messages from its master only")
        elif not self._is_refusing and self._flusher.failure is None:
            self._writer.allow()

    # -- administration

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic and their files; its records stay in the log until they expire."""
        for _ in self.topic_removal(topic):
            pass

    def topic_removal(self, topic: str) -> Generator[None, None, None]:
        """Remove the queues of a topic at once, and return steps that remove their files.

        The store may be used in between, and the topic created again. :meth:`close` takes the steps that are left.
        """
        self._commit_pending()
        self._ends.delete(topic)
        return self._queues.remove_topic(topic)

    async def begin_removal(self, topic: str) -> Generator[None, None, None]:
        """As :meth:`topic_removal`; a thread writes ``queueends``, so that the steps do not wait for it."""
        steps = self.topic_removal(topic)
        await asyncio.get_running_loop().run_in_executor(self._files_thread, self._ends.write_deletions)
        return steps

    def keep_ends(self, ends: Mapping[tuple[str, int], int]) -> None:
        """Let queues continue behind messages that are lost, so that no queue offset is assigned twice.

        :param ends: next offset by topic and queue id; queues that are already there or beyond stay as they are.
        """
        self._commit_pending()
        self._queues.keep_ends(ends)

    def clean(self, now: int) -> None:
        """Select expired files, and decide whether the disk is too full to accept messages. Call it every 10 s.

        The next ticks remove the files.

        :param now: milliseconds since the epoch.
        :raises OSError: the disk usage cannot be read.
        """
        decision = self._cleaner.check(self.config, now)
        was_full, root = self._disk_full is not None, self.layout.root
        self._disk_full = decision.disk if decision.refuse else None
        if decision.refuse and not was_full:
            limit = RetentionLimits.of(self.config).refuse
            _log.error("%s (%s): messages are refused until it is below %.0f %%", decision.disk, root, limit * 100)
        elif was_full and not decision.refuse:
            _log.warning("the disk of %s has room again: messages are accepted", root)
        if decision.refuse or was_full:
            self._allow()

    def reload_limits(self) -> None:
        """Apply a changed ``max_message_size``; most other settings apply immediately."""
        self._writer.reload_limits()

    def delete_expired(self) -> None:
        """Let the next passes of :meth:`clean` remove files past ``fileReservedTime`` at any hour."""
        self._cleaner.request()

    @property
    def is_writable(self) -> bool:
        """True if the store accepts messages."""
        return self._writer.refusal is None
