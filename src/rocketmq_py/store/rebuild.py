"""The rebuild of damaged consume queues while the store is open: a pass over the commit log that ends at its end.

Until then the queues are :class:`UnfinishedQueue`, which count new messages and keep no entries. The pass gives each
entry, of old and of new messages, to the queue that takes its place at the end. If the store is closed or killed
before, ``queueends`` says which queues are unfinished, and the next start begins again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import islice

from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.fs.residency import Part
from rocketmq_py.store.index.index_rebuild import IndexRebuild
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.log_parts import LogParts
from rocketmq_py.store.log.scan import Found
from rocketmq_py.store.queue.dispatch import RecordDispatch
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.queue.unfinished_queue import UnfinishedQueue

_log = logging.getLogger(__name__)

_AT_ONCE = 128 * 1024
"""The last part has at most so many bytes, all just written, and is read in one step: some 5 ms."""
_MOST_AT_ONCE = 50
"""Maximum number of queues that are finished in one step: each may need a new file and two folders."""
_COMMIT_EVERY = 1024
"""Number of entries after which they are committed."""
_REPORT_EVERY = 1 << 30
"""Bytes of the log after which the progress is logged."""


class Rebuild(LogParts):
    """Gives unfinished queues their entries, in the store's thread, part by part (see :class:`LogParts`).

    :param dispatch: makes what adds the entries; its argument commits them.
    :param readable_end: commits pending appends, and returns the offset of the log before which messages are readable.
    :param index: gets the keys of all records; None if there is nothing to do for it. ``dispatch`` adds keys to it.
    :param is_slave: whether a master sends again what the log has lost at its end.
    """

    def __init__(
        self, log: CommitLog, queues: QueueTable, dispatch: Callable[[Callable[[], None]], RecordDispatch],
        unfinished: Sequence[UnfinishedQueue], readable_end: Callable[[], int], index: IndexRebuild | None = None, *,
        is_slave: bool,
    ) -> None:  # fmt: skip
        super().__init__(log, readable_end, check_crc=False)
        self._queues = queues
        self._unfinished = {(queue.topic, queue.queue_id): queue for queue in unfinished}
        self._is_slave = is_slave
        self._index = index
        self._dispatch = dispatch(self.commit)
        self.on_finished: Callable[[UnfinishedQueue], None] = lambda _: None
        """Called with each queue whose place the rebuilt one has taken."""
        self._failure: OSError | None = None
        self._expired: set[tuple[str, int]] = set()
        """Queues whose entries are of records that the log no longer has."""
        self._end_at_begin = 0
        self._count = 0
        self._has_met_damage = False
        self.position = self._reported = log.min_offset

    def has(self, topic: str, queue_id: int) -> bool:
        """True if a queue cannot be read yet."""
        return self._current(topic, queue_id) is not None

    @property
    def queues_left(self) -> int:
        """Number of queues whose rebuild has not ended."""
        return len(self._unfinished)

    @property
    def is_needed(self) -> bool:
        """True if the rebuild has not ended."""
        return bool(self._unfinished) or (self._index is not None and not self._index.is_over)

    @property
    def bytes_left(self) -> int:
        """Number of bytes of the log that are still to be read."""
        return max(0, self._log.end - max(self.position, self._log.min_offset)) if self.is_needed else 0

    def begin(self) -> Part | None:
        """Return the bytes of the log to load for the next part; None at the end of the log."""
        self._drop_deleted()
        if self.position < self._log.min_offset:
            self.commit()
            self._expired = set(self._unfinished)
        self._end_at_begin = self._whole_end()
        return super().begin()

    def end_part(self) -> bool:
        """Write the entries of a part that was read. At the end of the log, some queues are finished.

        Return False if nothing can be finished for now: the log cannot be written, or the index is being saved.

        :raises OSError: the disk is full or fails; :meth:`begin` and :meth:`end_part` may be called again.
        """
        self._write()
        # What was written since the part was begun is in memory.
        if self.position < self._end_at_begin or self._whole_end() - self.position > _AT_ONCE:
            return True
        while super().begin() is not None:
            for _ in self.records():
                pass
        self._write()
        return self._finish_some()

    def give_up(self) -> bool:
        """End the rebuild because the store is closed; return True if a Java broker that opens it next is to rebuild.

        Such a broker adds entries only behind those that a queue has, and begins at most ten files before the end of
        the log: so the queues keep none, and their offsets are right in any case. It would cut off the log at damage:
        if there is some, it had better not read the log, and the queues keep what they have.

        :raises OSError: entries cannot be removed; a Java broker must find the store as after a crash.
        """
        self._drop_deleted()
        if not self._unfinished or self._has_met_damage:
            return False
        self.commit()
        for queue in self._unfinished.values():
            queue.restart()
        return True

    def close(self) -> None:
        """Remove the files of an index whose rebuild has not ended.

        :raises OSError: the disk fails.
        """
        if self._index is not None:
            self._index.close()

    def _take(self, found: Found) -> None:
        if self._index is not None and self._index.takes_keys:
            self._dispatch.index(found)
            self._commit_keys(self._index)
        queue = self._current(found.topic, found.queue_id)
        if queue is not None and dispatch_fields.has_entry(found.sys_flag):
            if not found.queue_offset and not queue.whole.is_empty:
                # Offset 0 shows that the topic was deleted and created again.
                self.commit()
                queue.restart()
            self._forget_expired(queue)
            self._dispatch.rebuild(found, queue.whole)
            self._count += 1
            if not self._count % _COMMIT_EVERY:
                self.commit()
        if self.position - self._reported >= _REPORT_EVERY:
            self._reported = self.position
            _log.info(
                "rebuilding %d consume queues%s: the commit log is scanned up to %d of %d",
                len(self._unfinished), " and the index" if self._index is not None else "", self.position,
                self._log.end,
            )  # fmt: skip

    def _damage(self, begin: int, end: int, reason: str) -> None:
        self._has_met_damage = True
        _log.error("the commit log is damaged from %d to %d: %s", begin, end, reason)

    def commit(self) -> None:
        """Write entries to files; an error of the disk is kept for :meth:`end_part`, as the entries are in memory."""
        touched, self._dispatch.touched = self._dispatch.touched, []
        # The files of a deleted topic may be those of its successor by now.
        wanted = [whole for whole in touched if self._current(whole.topic, whole.queue_id) is not None]
        try:
            self._queues.commit_pending(wanted)
        except OSError as e:
            self._failure = e

    def _commit_keys(self, index: IndexRebuild) -> None:
        try:
            index.whole.commit_pending()
        except OSError as e:
            self._failure = e  # the keys keep waiting

    def _write(self) -> None:
        self.commit()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _current(self, topic: str, queue_id: int) -> UnfinishedQueue | None:
        """Return the unfinished queue of a topic and queue id; None if there is none, or its topic was deleted."""
        queue = self._unfinished.get((topic, queue_id))
        return queue if queue is not None and self._queues.is_current(queue) else None

    def _drop_deleted(self) -> None:
        """Forget queues whose topics were deleted; their files are removed with them."""
        for key, queue in list(self._unfinished.items()):
            if not self._queues.is_current(queue):
                del self._unfinished[key]

    def _forget_expired(self, queue: UnfinishedQueue) -> None:
        """Remove the entries of a queue if the log begins behind all their records."""
        key = (queue.topic, queue.queue_id)
        if key in self._expired:
            self._expired.discard(key)
            queue.restart()

    def _finish_some(self) -> bool:
        """Let rebuilt queues take the places of unfinished ones, then the index; return False if they have to wait.

        :raises OSError: the disk is full or fails.
        """
        self._drop_deleted()
        some = list(islice(self._unfinished.items(), _MOST_AT_ONCE))
        for key, queue in some:
            if queue.pending:
                return False
            self._forget_expired(queue)
            self._queues.finish(queue, keeps_end=not self._is_slave)
            del self._unfinished[key]
            self.on_finished(queue)
        if some and not self._unfinished:
            _log.warning("the consume queues are rebuilt, with %d records of the commit log", self._count)
        if self._unfinished or self._index is None or self._index.is_over:
            return True
        return self._index.finish(self.position)
