"""The store of one broker: one object over log, queues, index, checkpoint and flush thread.

Knows how the parts work together and in which order they open, settle and close. Refuses to know requests and
consumers. All calls come from one thread; only syncs run in another.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rocketmq_py.errors import StoreCorrupt, StoreLocked, StoreNotWritable
from rocketmq_py.store.cleaner import Cleaner
from rocketmq_py.store.fs.filesystem import FileSystem, Lock
from rocketmq_py.store.fs.layout import StoreLayout
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.log.checkpoint import Checkpoint
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.confirm_offset import ConfirmOffset
from rocketmq_py.store.log.flusher import Flusher
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.queue.dispatch import RecordDispatch
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.read.reader import Reader
from rocketmq_py.store.read.reading import StoreReads
from rocketmq_py.store.recovery import Recovery
from rocketmq_py.store.replication import Replica
from rocketmq_py.store.retention import RetentionLimits
from rocketmq_py.store.schedule import FlushSchedule, Readable
from rocketmq_py.store.settings import SYNC_FLUSH, StoreConfig
from rocketmq_py.store.write.records import (
    Appended,
    AppendedBatch,
    Arrival,
    NewBatch,
    NewRecord,
    UniformBatch,
)  # fmt: skip
from rocketmq_py.store.write.writer import Writer

_log = logging.getLogger(__name__)

_OF_SLAVE = b" slave"
"""Behind the process id in the abort file: bytes of its master may have come without the rest of their record."""


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class MessageStore(StoreReads):
    """Messages on disk, in the files of Apache RocketMQ.

    :param root: the store directory (``storePathRootDir``).
    :param store_host: this broker's address as records hold it, 8 bytes for IPv4, 20 for IPv6.
    :param fs: where the files are.
    :param clock: milliseconds since the epoch.
    :param is_batched: tells of a topic whether it has batch consume queues; asked from :meth:`open` on.
    :param is_slave: whether its messages come from a master, through :attr:`replica`, and from nobody else.
    """

    def __init__(
        self,
        root: Path,
        config: StoreConfig | None = None,
        *,
        store_host: bytes,
        fs: FileSystem | None = None,
        clock: Callable[[], int] = wall_clock,
        is_batched: Callable[[str], bool] = lambda _: False,
        is_slave: bool = False,
    ) -> None:
        self.config = config or StoreConfig()
        self.layout = StoreLayout(Path(root), self.config.commit_log_directory)
        self.on_arrival: Callable[[list[Arrival]], None] | None = None
        """Called at each settle with what has become readable."""
        self.on_written: Callable[[], None] | None = None
        """Called at each settle that has made the commit log longer, before anybody is told."""
        self._fs = fs or OsFileSystem()
        self._clock = clock
        self._is_batched = is_batched
        self._store_host = store_host
        self._lock: Lock | None = None
        self._is_open = self._is_refusing = False
        self._disk_full: str | None = None
        self._flushes_at_once = self.config.flush_disk_type == SYNC_FLUSH
        self._unconfirmed: ConfirmOffset | None = None
        self._is_slave = is_slave
        self._replica: Replica | None = None

    # -- life

    def open(self) -> None:
        """Lock the directory, load what is there, recover.

        :raises StoreLocked: another process has it. :raises StoreCorrupt: its files contradict the configuration.
        """
        try:
            self._lock = self._fs.lock(self.layout.lock)
        except BlockingIOError as e:
            raise StoreLocked(f"{self.layout.root} is in use by another broker: stop it or choose another store") from e
        unclean = self._fs.read(self.layout.abort)
        clean = unclean is None
        try:
            self._check_log_place()
            # From here on files change: who opens the store after a crash in the middle must not trust them.
            self._fs.write(self.layout.abort, str(os.getpid()).encode() + (_OF_SLAVE if self._is_slave else b""))
            self._load(clean=clean, torn_anywhere=self._is_slave or _OF_SLAVE in (unclean or b""))
        except BaseException:
            if clean:
                self._fs.remove(self.layout.abort)
            self._lock.release()
            raise

    def _check_log_place(self) -> None:
        """Refuse an empty directory for the log of a store whose log is in the usual place.

        :raises StoreCorrupt: opening it would leave all messages behind.
        """
        usual, here = self.layout.root / "commitlog", self.layout.commit_log
        if here != usual and self._fs.names(usual) and not self._fs.names(here):
            raise StoreCorrupt(
                f"storePathCommitLog names {here}, which is empty, but {usual} holds a commit log: move it there, or "
                "leave storePathCommitLog out"
            )

    def _load(self, *, clean: bool, torn_anywhere: bool) -> None:
        fs, config, layout = self._fs, self.config, self.layout
        self._checkpoint = Checkpoint(fs, layout.checkpoint)
        log = self._commit_log = CommitLog(fs, layout.commit_log, config.mapped_file_size_commit_log)
        self._queues = QueueTable(fs, layout, config, self._is_batched, self._commit_log.stored_at)
        self._index = MessageIndex(fs, layout, config, self._clock)
        recovery = Recovery(fs, config, self._commit_log, self._queues, self._index, self._checkpoint)
        try:
            end = recovery.run(clean=clean, torn_anywhere=torn_anywhere)
        except OSError as e:
            raise StoreCorrupt(f"{layout.root} cannot be read: {e}") from e
        self._reader = Reader(config, self._commit_log, self._index)
        self._writer = Writer(config, self._commit_log, self._queues, self._index, self._store_host, self._clock)
        self._writer.resume(end, recovery.last_timestamp)
        self._flusher = Flusher(self._commit_log.sync, self._commit_log.min_offset if not clean else end)
        if self._flushes_at_once and not config.read_un_committed:
            self._unconfirmed = ConfirmOffset(end, recovery.last_timestamp)
            self._index.confirmed = end
        self._schedule = FlushSchedule(
            config, fs, self._commit_log, self._queues, self._index, self._checkpoint, self._flusher, self._clock()
        )
        self._cleaner = Cleaner(fs, layout, log, self._queues, self._index, self._flusher, self._checkpoint)
        if self._is_slave:
            dispatch = RecordDispatch(config, self._queues, self._index, self._commit_replica)
            self._replica = Replica(log, self._writer, dispatch, self.commit_pending)
            self._allow()
        self._is_open = True
        _log.info("store %s is open, the commit log has %d to %d", layout.root, self._commit_log.min_offset, end)

    def close(self) -> None:
        """Put everything on disk, say so, and let go of the directory. Idempotent."""
        if not self._is_open:
            return
        unwritten = self._commit_pending()
        self._is_open = False
        self._writer.refuse("it is closing")
        if self._replica is not None:
            self._replica.cut()
        failure = self._flush_everything() or unwritten
        if failure is None:
            self._fs.remove(self.layout.abort)
        else:
            # The abort file stays, so that the next to open the store takes queues and index from the log.
            _log.error("store %s was not closed in good order: %s", self.layout.root, failure)
        self._queues.close()
        self._index.close()
        self._commit_log.close()
        if self._lock is not None:
            self._lock.release()

    def _flush_everything(self) -> OSError | None:
        """Put everything on disk and end the flush thread; what went wrong."""
        failure = None
        self._confirm_everything()
        try:
            self._schedule.everything(self._readable())
        except OSError as e:
            failure = e
        self._flusher.stop()
        return self._flusher.failure or failure

    def flush(self) -> bool:
        """Put the log on disk and wait for it, before an end; whether it is there."""
        unwritten, done = self._commit_pending(), threading.Event()
        self._flusher.request(self._commit_log.end, done.set)
        done.wait()
        return unwritten is None and self._flusher.failure is None

    def _confirm_everything(self) -> None:
        """Flush what waits to be readable, and wait for it."""
        if self._unconfirmed:
            flushed = threading.Event()
            self._flusher.request(self._commit_log.end, flushed.set)
            flushed.wait()
            self._confirm()

    # -- writing

    @property
    def replica(self) -> Replica:
        """The way in for the messages of its master.

        :raises StoreNotWritable: it is not the store of a slave.
        """
        if self._replica is None:
            raise StoreNotWritable(f"the store {self.layout.root} is not that of a slave: it has no master")
        return self._replica

    def _commit_replica(self) -> None:
        """Make everything readable that a replica has taken; now, though it has to wait for the disk."""
        assert self._replica is not None
        self._replica.hand_over()
        self.commit_pending()
        self._confirm_everything()

    def now(self) -> int:
        """The store timestamp of the next append."""
        return self._writer.now()

    def append(self, record: NewRecord) -> Appended:
        """Give a message its place; it becomes readable with the next :meth:`commit_pending`.

        :raises MessageIllegal: it is too large. :raises StoreNotWritable: the store refuses writes.
        """
        return self._writer.append(record)

    def append_many(self, records: Sequence[NewRecord]) -> list[Appended]:
        """As :meth:`append` for several messages that are to lie next to each other."""
        return self._writer.append_many(records)

    def append_batch(self, batch: NewBatch) -> AppendedBatch:
        """As :meth:`append` for the messages in the body of a batch send.

        :raises CorruptRecord: the body is no batch; nothing is stored.
        """
        return self._writer.append_batch(batch)

    def append_uniform(self, batch: UniformBatch) -> AppendedBatch:
        """As :meth:`append_batch`, for messages that are known to be of one shape."""
        return self._writer.append_uniform(batch)

    def append_inner_batch(self, record: NewRecord, count: int) -> Appended:
        """As :meth:`append` for a batch of ``count`` messages that stays one record, for batch consume queues."""
        return self._writer.append_inner_batch(record, count)

    def commit_pending(self) -> None:
        """Write what was appended and make it readable; under SYNC_FLUSH as soon as it is on disk.

        A disk on which queues and index cannot be written shows in the next append, which is refused: what is in the
        log is safe.

        :raises StoreNotWritable: the log cannot be written. What was appended is kept, and becomes readable if a later
            call succeeds; until then no producer may be told that it is stored.
        """
        failure = self._commit_pending()
        if failure is not None:
            raise StoreNotWritable(f"the commit log cannot be written: {failure}") from failure

    def _commit_pending(self) -> OSError | None:
        """As :meth:`commit_pending`; what was against it, for those who only want to read."""
        writer = self._writer
        touched = writer.touched
        if not touched and not writer.has_chunks:
            if self._unconfirmed:
                self._confirm()
            return None
        try:
            writer.flush()
        except OSError as e:
            self._refuse(e)
            return e
        writer.touched = []
        if self._flushes_at_once:
            self._flusher.request(self._commit_log.end)
        if self.on_written is not None:
            self.on_written()
        if self._unconfirmed is not None:
            self._hold_back(self._unconfirmed, touched)
            return None
        arrivals = self._arrivals(touched) if self.on_arrival is not None else []
        try:
            self._queues.commit_pending(touched)
            self._index.commit_pending()
        except OSError as e:
            self._refuse(e)
        if self.on_arrival is not None and arrivals:
            self.on_arrival(arrivals)
        return None

    def _arrivals(self, touched: list[ConsumeQueue]) -> list[Arrival]:
        now = self._writer.last_timestamp
        return [Arrival(q.topic, q.queue_id, q.max_offset, q.next_offset, now, q.pending) for q in touched]

    def _hold_back(self, unconfirmed: ConfirmOffset, touched: list[ConsumeQueue]) -> None:
        """Let what was written wait for its flush."""
        end = self._whole_end()
        unconfirmed.add(end, self._writer.last_timestamp, touched)
        try:
            flushed = self._flusher.wait(end)
        except RuntimeError:  # no event loop runs in which to be told: the next to read or to settle looks again
            flushed = None
        if flushed is not None:
            flushed.add_done_callback(self._flush_ended)
        self._confirm()

    def _flush_ended(self, flushed: asyncio.Future[None]) -> None:
        if not flushed.cancelled() and flushed.exception() is None:
            self._confirm()

    def _confirm(self) -> None:
        """Make readable what is on disk by now."""
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
            if self.on_arrival is not None and arrivals:
                self.on_arrival(arrivals)

    def _readable(self) -> Readable:
        """Up to where messages may be read."""
        if self._unconfirmed is not None:
            return Readable(self._unconfirmed.end, self._unconfirmed.timestamp)
        return Readable(self._whole_end(), self._writer.last_timestamp)

    def _whole_end(self) -> int:
        """Where the last whole record of the log ends."""
        return self._commit_log.end if self._replica is None else self._replica.whole_end

    # -- durability

    @property
    def flushed_offset(self) -> int:
        """Up to which offset the log is known to be on disk."""
        return self._flusher.flushed_offset

    def flushed(self, physical_end: int) -> asyncio.Future[None] | None:
        """A future of the running loop, done when the log is on disk up to ``physical_end``; None when it is already.

        Under SYNC_FLUSH every settle flushes, so that what one read of a socket brought is flushed together; otherwise
        the future waits for the next flush that is due. It fails with :class:`StoreNotWritable` when the disk does.
        """
        return self._flusher.wait(physical_end)

    async def wait_flushed(self, physical_end: int) -> None:
        """Flush now, and wait until the log is on disk up to ``physical_end``."""
        self.commit_pending()
        self._flusher.request(self._commit_log.end)
        future = self.flushed(physical_end)
        if future is not None:
            await future

    def tick(self, now: int) -> None:
        """Do what is due: settle, add waiting keys to the index, flush. Call it a few times a second.

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
                self._queues.spill()
            self._index.build()
            self._schedule.tick(now, self._readable())
            self._cleaner.go_on()
        except OSError as e:
            self._refuse(e)
        else:
            self._accept()

    def _refuse(self, why: OSError) -> None:
        """Refuse messages while log, queues or index cannot be written; a tick tries again."""
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
        """Take messages again, unless something else is against it."""
        if self._disk_full is not None:
            self._writer.refuse(self._disk_full)
        elif self._replica is not None:
            self._writer.refuse("it is that of a slave, and takes messages from its master only")
        elif not self._is_refusing and self._flusher.failure is None:
            self._writer.allow()

    # -- administration

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic; its records stay in the log until they expire."""
        self._commit_pending()
        self._queues.remove_topic(topic)

    def clean(self, now: int) -> None:
        """Decide which files have expired, and whether the disk is too full to take messages. Call it every 10 s.

        The next ticks remove the files.

        :param now: milliseconds since the epoch.
        :raises OSError: the disk does not say how full it is.
        """
        verdict = self._cleaner.check(self.config, now)
        was_full, root = self._disk_full is not None, self.layout.root
        self._disk_full = verdict.disk if verdict.refuse else None
        if verdict.refuse and not was_full:
            limit = RetentionLimits.of(self.config).refuse
            _log.error("%s (%s): messages are refused until it is below %.0f %%", verdict.disk, root, limit * 100)
        elif was_full and not verdict.refuse:
            _log.warning("the disk of %s has room again: messages are taken", root)
        if verdict.refuse or was_full:
            self._allow()

    def reload_limits(self) -> None:
        """Take over a changed ``max_message_size``. Most other settings hold as soon as they are changed."""
        self._writer.reload_limits()

    def delete_expired(self) -> None:
        """Let the next passes of :meth:`clean` remove files past ``fileReservedTime``, whatever the hour."""
        self._cleaner.ask()

    @property
    def is_writable(self) -> bool:
        return self._writer.refusal is None
