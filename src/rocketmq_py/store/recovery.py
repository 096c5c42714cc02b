"""Recovery of a store when it is opened: makes log, consume queues and index agree.

After a clean shutdown the end of the log is found from the queues. After a crash (there is an ``abort`` file) only what
the checkpoint confirms is trusted; later entries are rebuilt from the log. If all queues or the index are missing, they
are rebuilt from the whole log. If the file with the ends of the queues is lost, all queues are compared with the log,
because nothing else tells which entries they must have. In each case the log is scanned to its last complete record and
the rest is truncated. The rules are those of CommitLog.recoverNormally and recoverAbnormally.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import islice

from rocketmq_py.errors import StoreCorrupt
from rocketmq_py.protocol.names import is_system_topic
from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.log.checkpoint import Checkpoint
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.lost_parts import LostPart
from rocketmq_py.store.log.scan import Found, LogScan, next_after
from rocketmq_py.store.queue.dispatch import RecordDispatch
from rocketmq_py.store.queue.lost_messages import lost_messages
from rocketmq_py.store.queue.queue_ends import QueueEnds, QueueEndsFile
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.queue.unfinished_queue import UnfinishedQueue
from rocketmq_py.store.settings import StoreConfig

_log = logging.getLogger(__name__)

_REPORT_EVERY = 1 << 30
"""Bytes of the log after which the progress of a long pass over it is logged."""
_MOST_NAMED = 10
"""Maximum number of queues in an error message, and of those with a line of their own in the log."""
_EVERYTHING = 1 << 63
"""An offset behind the end of any log."""
_COMMIT_EVERY = 4096
"""Number of records after which their pending entries and keys are committed."""


class Recovery:
    """One recovery of one store, done by :meth:`run`."""

    def __init__(
        self, fs: FileSystem, config: StoreConfig, log: CommitLog, queues: QueueTable, index: MessageIndex,
        checkpoint: Checkpoint, ends: QueueEndsFile, is_topic: Callable[[str], bool] = lambda _: True,
    ) -> None:  # fmt: skip
        self._fs = fs
        self._log = log
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._ends_file = ends
        self._ends: QueueEnds | None = None
        self._ends_lost = False
        self._ends_before: QueueEnds | None = None  # the ends before another program used the store, if one did
        self._flushed_ends: QueueEnds | None = None  # the ends of the last flush, if only they tell what was on disk
        self._has_met_damage = False
        self._is_topic = is_topic
        self._check_crc = config.check_crc_on_recover
        self._config = config
        self._dispatch: RecordDispatch
        self._scanned_from = 0
        self._queue_end = -1  # end of the newest message that the queues have
        self._on_disk = -1  # end of what is known to have been on disk before
        self.unfinished: list[UnfinishedQueue] = []
        """Damaged queues that :class:`~rocketmq_py.store.rebuild.Rebuild` is to rebuild when the store is open."""
        self.last_timestamp = 0
        """Store timestamp of the newest record scanned, 0 if there was none."""
        self.failure: OSError | None = None
        """Error of the last failed write of entries or keys, such as of a full disk; they are kept in memory."""

    def run(self, *, clean: bool, torn_anywhere: bool = False, is_slave: bool = False) -> int:
        """Recover the store and return the end of the log.

        :param clean: whether the store was closed cleanly.
        :param torn_anywhere: whether the written part of the log can end at any byte, as in the store of a slave.
        :param is_slave: whether a master sends again what the log has lost at its end, with the same queue offsets.
        :raises StoreCorrupt: files contradict the configuration.
        :raises OSError: the disk fails.
        """
        lost = self._log.load(was_closed=clean)
        if lost:
            self._check_lost(lost)
        self._load_ends(clean=clean)
        indexed = self._checkpoint.index_msg_timestamp
        untrusted = self._index.load(trusted_until=None if clean else indexed, was_saved=indexed > 0)
        begin = (
            self._begin_clean(torn_anywhere=torn_anywhere)
            if clean
            else self._begin_after_crash(trust_end=not untrusted)
        )
        if self._is_index_missing() and self._is_long(begin):
            _log.warning("the index is missing: it is rebuilt from the commit log while the store is open")
            self._index.put_off()
        elif self._is_index_missing():
            _log.warning("the index is missing: it is rebuilt from the whole commit log")
            begin = self._begin_anew()
        elif begin < self._checkpoint.end:
            self._checkpoint.end = -1
            self._checkpoint.save()
        for path in untrusted:
            _log.warning("%s may be damaged and is removed", path)
            self._fs.remove(path)
        if not self._log.starts:
            self._without_log()
            return 0
        self._put_off(begin)
        self._rebuild_damaged(begin)
        scan = self._dispatch_all(begin, torn_anywhere=torn_anywhere)
        self._queues.damaged.clear()
        ends = {} if not clean else {key: queue.next_offset for key, queue in self._queues.by_key.items()}
        self._truncate(scan, erase=not clean or scan.reason is not None)
        if not is_slave:
            self._keep_ends(ends)
        return scan.end

    def _load_ends(self, *, clean: bool) -> None:
        """Load the ends of the queues; find out what they tell, and up to where the log was on disk."""
        self._on_disk = _EVERYTHING if clean else self._checkpoint.end
        if self._checkpoint.end >= 0:
            self._ends = self._ends_file.load()
            # Whoever writes this checkpoint writes the ends as well.
            self._ends_lost = not self._ends_file.is_known
            return
        before = self._ends_file.load()  # the ends may be old, if another program has written since
        if not clean:
            self._on_disk, self._flushed_ends = before.log_end, before
        if self._checkpoint.is_damaged:
            self._ends_lost = self._ends_file.is_known
        else:  # its times may be damaged all the same, and queues may be lost as well
            self._ends_before = before

    # -- missing files of the log

    def _check_lost(self, lost: list[LostPart]) -> None:
        """Refuse to go on without parts of the log, unless their loss is accepted.

        :raises StoreCorrupt: parts are lost.
        """
        self._queues.load(0)
        costs = lost_messages(self._queues.by_key.values(), lost)
        if costs or any(not part.is_empty_file for part in lost):
            self._refuse(lost, costs)
        self._log.fill_up()
        self._log.load()

    def _check_end(self, queue_end: int) -> None:
        """Refuse a log whose last files are missing: our shutdown has recorded the queue entries of their messages.

        :raises StoreCorrupt: the last files are missing, and their loss is not accepted.
        """
        end = self._space_end()
        if self._ends is not None and self._ends.queues and queue_end > end:
            lost = [LostPart(end, queue_end, f"missing from {end} to {queue_end}")]
            self._refuse(lost, lost_messages(self._queues.by_key.values(), lost))

    def _refuse(self, lost: list[LostPart], costs: list[str]) -> None:
        """Refuse to start without messages, unless that is accepted."""
        text = "; ".join(part.what for part in lost)
        named = ", ".join(costs[:_MOST_NAMED]) or "none that the consume queues know"
        if len(costs) > _MOST_NAMED:
            named += f" and those of {len(costs) - _MOST_NAMED} more queues"
        times = self._times(lost)
        if self._config.accept_loss:
            _log.error("the commit log has lost messages, which is accepted: %s; messages: %s%s", text, named, times)
            return
        raise StoreCorrupt(
            f"the commit log has lost messages: {text}; messages by queue and offsets: {named}{times}. Put the files "
            "back from a copy; or run 'rocketmq store repair', or start with --accept-loss, to go on without them"
        )

    def _times(self, lost: list[LostPart]) -> str:
        """When the lost messages were stored, as text; empty if that cannot be told."""
        before = max((self._first_timestamp(start) for start in self._log.starts if start < lost[0].begin), default=0)
        after = next((self._first_timestamp(start) for start in self._log.starts if start >= lost[-1].end), 0)
        parts = [f"{word} {time_text(time)}" for word, time in (("after", before), ("before", after)) if time]
        return f"; stored {' and '.join(parts)}" if parts else ""

    # -- where to begin

    def _begin_clean(self, *, torn_anywhere: bool) -> int:
        """Load the queues; return the offset of the log at which the scan begins.

        That is the end of the newest message that has a queue entry. If no record begins there, it is the start of the
        newest file before it that begins with a record.
        """
        end = self._load_queues()
        if self._ends_lost and self._queues.by_key:
            end = self._compare_queues(_EVERYTHING)
        if self._ends is not None:
            self._expect_all(self._ends.log_end)
        if self._ends is not None and self._can_put_off(self._ends.log_end):
            end = max(end, self._ends.log_end)  # else what is behind the messages of intact queues is scanned now
        self._queue_end = end
        if not torn_anywhere:
            self._check_end(end)
        if self._log.min_offset <= end and self._is_boundary(end):
            return end
        if end >= 0:
            _log.warning("no record of the commit log begins at %d, where the consume queues end", end)
        return self._newest_whole_file(end)

    def _is_boundary(self, offset: int) -> bool:
        """True if a record begins at ``offset`` of the log, or nothing was written there."""
        scan = LogScan(self._log, offset, check_crc=False)
        next(iter(scan), None)
        start = self._log.start_at_or_before(offset)
        return scan.reason is None and start is not None and offset < start + self._log.file_size

    def _newest_whole_file(self, offset: int) -> int:
        """Start of the newest file at or before ``offset`` that begins with a record; of the first if there is none."""
        for start in reversed(self._log.starts):
            if start <= offset and self._first_timestamp(start):
                return start
        return self._log.min_offset

    def _begin_after_crash(self, *, trust_end: bool) -> int:
        """Load the queues; return the offset of the log at which the scan begins.

        That is the offset up to which queue entries and index keys are on disk, by the checkpoint. If it has none, or
        an index file must be removed (``trust_end`` is False), it is the start of the newest file that the
        checkpoint's timestamps confirm; if there are no queues, the begin of the log.
        """
        begin = self._checkpoint.end
        if begin < self._log.min_offset or not trust_end or not self._is_boundary(begin):
            begin = self._confirmed_file()
        self._load_queues(begin)
        self._expect_all(begin)
        if begin > self._log.min_offset and not self._queues.by_key:
            _log.warning("the consume queues are missing: they are rebuilt from the whole commit log")
            begin = self._begin_anew()
        elif self._ends_lost and begin > self._log.min_offset:
            self._compare_queues(begin)
        _log.warning("the store was not closed cleanly: the commit log is scanned from %d", begin)
        return begin

    def _load_queues(self, end: int | None = None) -> int:
        """Load the queues; return the offset of the log at which their newest message ends, -1 if there is none.

        :param end: as ``physical_end`` of :meth:`QueueTable.load`.
        """
        newest = self._queues.load(
            self._log.min_offset, end, self._ends, ends_lost=self._ends_lost, at_least=self._ends_before,
            is_topic=self._is_topic,
        )  # fmt: skip
        self._ends_lost = self._ends_lost or self._queues.is_short
        return newest

    def _compare_queues(self, end: int) -> int:
        """Compare all queues with the log before ``end``; return where the newest message of the intact ones ends."""
        if self._queues.is_short:
            what = "consume queues end before the entries that they had"
        elif self._checkpoint.end >= 0:
            what = "the ends of the consume queues are lost"
        else:
            what = "the checkpoint is damaged"
        _log.warning("%s: all queues are compared with the commit log", what)
        self._queues.compare(self._noting_times(self._records_before(end, "comparing consume queues")))
        return self._queues.newest_end()

    def _noting_times(self, records: Iterable[Found]) -> Iterator[Found]:
        for found in records:
            self.last_timestamp = max(self.last_timestamp, found.store_timestamp)
            yield found

    def _confirmed_file(self) -> int:
        """Start of the newest file whose first record is not newer than the checkpoint's timestamps."""
        safe = self._checkpoint.safe_timestamp
        confirmed = (start for start in reversed(self._log.starts) if 0 < self._first_timestamp(start) <= safe)
        return next(confirmed, self._log.min_offset)

    def _begin_anew(self) -> int:
        """Reset the checkpoint, because a crash can lose what is about to be rebuilt; return the begin of the log."""
        self._checkpoint.reset()
        return self._log.min_offset

    def _is_index_missing(self) -> bool:
        """True if there was an index according to the checkpoint, but no index file is left."""
        return self._index.is_enabled and not self._index.had_files and self._checkpoint.index_msg_timestamp > 0

    def _first_timestamp(self, start: int) -> int:
        """Store timestamp of the first record of a file, 0 if the file does not begin with a record."""
        first = next(iter(LogScan(self._log, start, check_crc=self._check_crc)), None)
        return first.store_timestamp if first is not None and first.physical_offset == start else 0

    def _without_log(self) -> None:
        if self._queues.by_key:
            _log.warning("there is no commit log: the consume queues are removed")
            ends = {key: queue.next_offset for key, queue in self._queues.by_key.items()}
            batched = {key for key, queue in self._queues.by_key.items() if queue.is_batched}
            self._queues.clear()
            for key in ends if self._config.accept_loss else ():
                self._queues.create(*key, batched=key in batched).skip_to(ends[key])
        self._ends_file.clear()

    # -- rebuilding queues and index

    def _is_long(self, begin: int) -> bool:
        """True if a rebuild from the log before ``begin`` is to go on while the store is open."""
        return begin - self._log.min_offset > self._config.rebuild_bytes_before_start

    def _can_put_off(self, begin: int) -> bool:
        """Return whether rebuilds of damaged queues are long and can go on while the store is open.

        They cannot if the ends of the queues are not known, so that offsets could be assigned twice. The start waits
        for the queues that the broker itself reads.

        :param begin: where the scan begins: later messages are dispatched to all queues.
        """
        damaged, ends = self._queues.damaged, self._ends
        if not damaged or ends is None or self._ends_lost or ends.log_end < begin or not self._is_long(begin):
            return False
        known, queues = ends.by_key(), self._queues.by_key
        return all(key in known and known[key].batched == queues[key].is_batched for key in damaged)

    def _put_off(self, begin: int) -> None:
        """Put off the rebuild of the damaged queues if possible; the start has to wait for that of the others.

        :param begin: where the scan begins.
        """
        if self._ends is None or not self._can_put_off(begin):
            return
        damaged, known = self._queues.damaged, self._ends.by_key()
        later = {key: reason for key, reason in damaged.items() if not is_system_topic(key[0])}
        if not later:
            return
        try:
            # The others are marked as well, because a crash could leave queues that look whole.
            self._ends_file.mark_unfinished(damaged.keys())
            self._checkpoint.is_rebuilding = True
            self._checkpoint.save()
        except OSError:
            self._checkpoint.is_rebuilding = False
            return
        _warn_of(later, " while the store is open")
        for key in later:
            self.unfinished.append(self._queues.put_off(key, known[key]))
            del damaged[key]

    def _expect_all(self, begin: int) -> None:
        """If all queues are missing, put off their rebuild if possible; ``begin`` is as of :meth:`_can_put_off`."""
        if self._queues.by_key or not self._log.starts or self._ends is None:
            return
        if self._ends.log_end >= begin and self._is_long(begin):
            self._queues.add_missing(self._ends.by_key())

    def _rebuild_damaged(self, end: int) -> None:
        """Rebuild the damaged queues from the log before ``end``; later records are dispatched to all queues."""
        damaged = self._queues.damaged
        if not damaged:
            return
        _warn_of(damaged)
        dispatch = self._dispatch = RecordDispatch(self._config, self._queues, self._index, self._commit_pending)
        count = 0
        for found in self._records_before(end, "rebuilding consume queues"):
            if (found.topic, found.queue_id) not in damaged or not dispatch_fields.has_entry(found.sys_flag):
                continue
            dispatch.rebuild(found)
            count += 1
            if not count % _COMMIT_EVERY:
                self._commit_pending()
        self._commit_pending()
        _log.warning("%d consume queues were rebuilt with %d records", len(damaged), count)

    def _records_before(self, end: int, what: str) -> Iterator[Found]:
        """Records of the log before ``end``; after damage the scan continues with the next whole record.

        :param what: what is done with them, for the log.
        """
        start: int | None = self._log.min_offset
        reported, end = self._log.min_offset, min(end, self._space_end())
        while start is not None and start < end:
            scan = LogScan(self._log, start, check_crc=False)
            for found in scan:
                if found.physical_offset >= end:
                    return
                reported = self._report(what, found.physical_offset, reported, end)
                yield found
            start = self._behind_damage(scan) if scan.end < end else None

    def _space_end(self) -> int:
        """Offset after the last file of the log, which may be filled only in part."""
        return self._log.starts[-1] + self._log.file_size if self._log.starts else 0

    @staticmethod
    def _report(what: str, at: int, reported: int, end: int) -> int:
        """Log the progress of a long pass over the log, if it is due; return the offset that was logged last."""
        if at - reported < _REPORT_EVERY:
            return reported
        _log.info("%s: the commit log is scanned up to %d of %d", what, at, end)
        return at

    def _keep_ends(self, ends: dict[tuple[str, int], int]) -> None:
        """Let queues continue after messages that the log has lost, so that no queue offset is assigned twice.

        :param ends: the ends that a clean shutdown has left; those of the file count as well. If another program may
            have written since, they count only if damage was met: it can have created a topic again.
        """
        known = self._flushed_ends if self._ends is None and self._has_met_damage else self._ends
        for end in known.queues if known is not None else ():
            key = (end.topic, end.queue_id)
            ends[key] = max(end.next_offset, ends.get(key, 0))
        for key, next_offset in ends.items():
            queue = self._queues.by_key.get(key)
            if queue is not None and queue.next_offset < next_offset:
                _log.error("%s: the commit log has lost offsets %d to %d", queue, queue.next_offset, next_offset - 1)
                queue.skip_to(next_offset)

    def _dispatch_all(self, begin: int, *, torn_anywhere: bool) -> LogScan:
        """Dispatch the records from ``begin`` on; return the scan that has found the end of the log.

        Damage costs the records it hits: the scan continues with the next whole one; see :meth:`_following`. A slave's
        log always ends there, because the slave gets the rest from its master.
        """
        self._scanned_from = begin
        scan = LogScan(self._log, begin, check_crc=self._check_crc, torn_anywhere=torn_anywhere)
        self._dispatch_scan(scan)
        following = None if torn_anywhere else self._following(scan)
        while following is not None:
            scan = LogScan(self._log, following, check_crc=self._check_crc)
            self._dispatch_scan(scan)
            following = self._following(scan)
        return scan

    def _following(self, scan: LogScan) -> int | None:
        """Offset of the record to continue with after damage; None if the log ends there.

        After a crash the log ends at the first damage in what is not known to have been on disk. A loss of power leaves
        holes there, and what timers, transactions and pops have noted holds only if no message before the end is lost.
        """
        return self._behind_damage(scan) if scan.end < self._on_disk else None

    def _behind_damage(self, scan: LogScan) -> int | None:
        """Offset of the next whole record behind the end of a scan; None if the log ends there."""
        self._has_met_damage = True
        found = next_after(self._log, scan)
        if found is not None:
            reason = scan.reason or "nothing is written there"
            _log.error("the commit log is damaged from %d to %d: %s", scan.end, found, reason)
        return found

    def _dispatch_scan(self, scan: LogScan) -> None:
        dispatch = self._dispatch = RecordDispatch(
            self._config,
            self._queues,
            self._index,
            self._commit_pending,
            indexed_to=self._index.end_physical,
            scanned_from=self._scanned_from,
        )
        count, reported = 0, scan.end
        for found in scan:
            dispatch.dispatch(found)
            count += 1
            if not count % _COMMIT_EVERY:
                self._commit_pending()
                at = found.physical_offset
                reported = self._report("rebuilding consume queues and index", at, reported, self._space_end())
        self._commit_pending()
        self.last_timestamp = max(self.last_timestamp, dispatch.last_timestamp)
        self._write(self._index.build_everything)
        if count:
            _log.info("%d records of the commit log were dispatched to queues and index", count)

    def _commit_pending(self) -> None:
        touched, self._dispatch.touched = self._dispatch.touched, []
        self._write(partial(self._queues.commit_pending, touched))
        self._write(self._index.commit_pending)

    def _write(self, write: Callable[[], None]) -> None:
        """Call ``write``, which writes queue entries or index keys to disk.

        An ``OSError`` is not raised but stored in ``failure``, because the entries and keys can be read from memory.
        """
        try:
            write()
        except OSError as e:
            self.failure = e

    # -- truncating

    def _truncate(self, scan: LogScan, *, erase: bool) -> None:
        if scan.reason is not None:
            _log.error("the commit log is truncated at %d: %s", scan.end, scan.reason)
        self._log.truncate(scan.end, erase=erase)
        if self._queue_end > scan.end:
            self._queues.truncate(scan.end)


def _warn_of(damaged: Mapping[tuple[str, int], str], when: str = "") -> None:
    """Log which queues are rebuilt, and why; many of them are only counted."""
    for (topic, queue_id), reason in islice(damaged.items(), _MOST_NAMED):
        _log.warning("consume queue %s-%d is rebuilt from the commit log%s: %s", topic, queue_id, when, reason)
    if len(damaged) > _MOST_NAMED:
        _log.warning("%d more consume queues are rebuilt from the commit log%s", len(damaged) - _MOST_NAMED, when)


def time_text(milliseconds: int) -> str:
    """A time in UTC, to the second."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
