"""The rebuild of a missing index from the commit log while the store is open.

New files get the keys of all records, in the order of the log; those of new messages come to them with the others.
Their headers are written at the end, that of the oldest file last: until then the oldest file has an empty header, by
which the next start knows that the rebuild has not ended, and begins it again.
"""

from __future__ import annotations

import logging
from concurrent.futures import Executor, Future

from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.index.index_file import IndexFile
from rocketmq_py.store.log.checkpoint import Checkpoint
from rocketmq_py.store.log.flusher import Flusher
from rocketmq_py.store.workers import Workers

_log = logging.getLogger(__name__)


class IndexRebuild:
    """The files that replace those of ``index``, which keeps no keys until :meth:`finish` has returned True.

    :param index: the index of the store, which is unfinished.
    :param checkpoint: learns of the index before its headers are written.
    :param flusher: saves the checkpoint.
    :param executor: has one thread, which loads slots and syncs files.
    """

    def __init__(
        self, index: MessageIndex, checkpoint: Checkpoint, flusher: Flusher, executor: Executor
    ) -> None:  # fmt: skip
        self._index = index
        self.whole = index.anew()
        self._checkpoint = checkpoint
        self._flusher = flusher
        self._executor = executor
        self.takes_keys = True
        """False when all keys are there and are being saved: later ones are kept by the index itself."""
        self._confirmed: Future[None] | None = None
        self._saved: Future[None] | None = None
        self.is_over = False
        """True if the index of the store has all keys."""
        self.whole.load_slots(executor)

    def finish(self, position: int) -> bool:
        """Save the files, and let the index have them; return False as long as that is not done.

        :param position: offset of the log before which :attr:`whole` has all keys.
        :raises OSError: the disk is full or fails; the next call tries again.
        """
        if self.takes_keys:
            if not self._index.can_resume(position) or not self.whole.build():
                return False  # keys wait for the log to be written, or for slots to be loaded
            self._index.resume(position)
            self.takes_keys = False
        if not self._save():
            return False
        self._index.adopt(self.whole)
        self.is_over = True
        _log.warning("the index is rebuilt")
        return True

    def _save(self) -> bool:
        """Save the checkpoint, then the headers of the files; return False as long as that is not done."""
        if self._confirmed is None:
            self._confirmed = self._save_checkpoint()
        if self._saved is None and self._confirmed.done():
            confirmed, self._confirmed = self._confirmed, None  # the next call tries again if it has failed
            confirmed.result()
            self._confirmed = confirmed
            self._saved = self._executor.submit(_save_headers, self.whole.with_headers())
        if self._saved is None or not self._saved.done():
            return False
        saved, self._saved = self._saved, None
        saved.result()
        return True

    def _save_checkpoint(self) -> Future[None]:
        """Save the checkpoint in the flush thread: after a crash, files with later entries would not be trusted."""
        timestamp, saved = self.whole.end_timestamp, Future[None]()

        def save() -> None:
            self._checkpoint.index_msg_timestamp = timestamp
            try:
                self._checkpoint.save()
            except OSError as e:
                saved.set_exception(e)
            else:
                saved.set_result(None)

        self._flusher.request(0, save)
        return saved

    def close(self) -> None:
        """Stop the thread, and remove the files if the rebuild has not ended.

        :raises OSError: they cannot be removed.
        """
        self._executor.shutdown(wait=True)
        if not self.is_over:
            self.whole.remove_files()


def rebuild_of(
    index: MessageIndex, checkpoint: Checkpoint, flusher: Flusher, workers: Workers
) -> IndexRebuild | None:  # fmt: skip
    """Return the rebuild of an index; None if the index is whole."""
    if not index.is_unfinished:
        return None
    return IndexRebuild(index, checkpoint, flusher, workers.executor("rocketmq-index-rebuild"))


def _save_headers(files: list[tuple[IndexFile, bytes]]) -> None:
    for file, header in reversed(files):
        file.save(header)
