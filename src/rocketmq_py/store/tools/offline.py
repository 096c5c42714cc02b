"""Read-only access to a store on disk, of a Java broker or of ours, closed cleanly or not, for the tools.

Nothing is changed, created or recovered. ``verify`` checks the content.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rocketmq_py.store.fs.filesystem import Lock
from rocketmq_py.store.fs.layout import is_index_name
from rocketmq_py.store.index.chain import ENTRY_SIZE
from rocketmq_py.store.index.index_file import HEADER_SIZE, IndexFile
from rocketmq_py.store.log.scan import LogScan
from rocketmq_py.store.tools.store_files import Odd, QueueView, StoreFiles, has_messages

__all__ = ["Odd", "OfflineStore", "QueueView", "has_messages"]

_ENTRIES_PER_SLOT = 4


class OfflineStore(StoreFiles):
    """A store directory with all its queues and indexes, locked against brokers; to be used in a ``with`` statement.

    :param hash_slots: number of slots of an index file; None derives it from the file size.
    :raises StoreError: there is no store.
    """

    def __init__(self, root: Path, hash_slots: int | None = None, commit_log: Path | None = None) -> None:
        self.indexes: list[IndexFile] = []
        self._lock: Lock | None = None
        self.is_held = False
        """True if a broker is using the store: its newest messages may be incomplete."""
        super().__init__(root, commit_log)
        try:
            self.queues = {(view.topic, view.queue_id): view for view in self.open_queues()}
            self.indexes.extend(self._open_indexes(hash_slots))
        except BaseException:
            self.close()
            raise

    def _claim(self) -> None:
        self.is_held = not self._try_lock()

    def close(self) -> None:
        """Close all files and release the lock. Idempotent."""
        for index in self.indexes:
            index.close()
        self.indexes.clear()
        super().close()
        if self._lock is not None:
            self._lock.release()

    @property
    def must_be_complete(self) -> bool:
        """True if every file must be complete: no broker uses the store, and the last one closed it cleanly."""
        return self.was_closed and not self.is_held

    @property
    def state(self) -> str:
        """State of the store, as text."""
        if self.is_held:
            return "a broker runs on it"
        return "closed" if self.was_closed else "not closed cleanly: the next start recovers it"

    def _try_lock(self) -> bool:
        """Take a lock that excludes brokers; return False if a broker is using the store.

        Without a lock file no lock is taken, and True is returned: no broker has ever used the store.
        """
        try:
            self._lock = self.fs.lock(self.layout.lock)
        except FileNotFoundError:
            return True
        except BlockingIOError:
            return False
        return True

    # -- finding files

    def _open_indexes(self, slots: int | None) -> Iterator[IndexFile]:
        for name in self.fs.names(self.layout.index):
            path = self.layout.index / name
            size = self.fs.size(path) or 0
            # The file size does not determine the numbers of slots and entries; four entries per slot is the default.
            shape = slots or (size - HEADER_SIZE) // (4 + _ENTRIES_PER_SLOT * ENTRY_SIZE)
            entries, rest = divmod(size - HEADER_SIZE - 4 * shape, ENTRY_SIZE)
            if not is_index_name(name):
                self.odd.append(Odd(path, "is not an index file"))
            elif shape < 1 or entries < 1 or rest:
                self.odd.append(Odd(path, f"has {size} bytes: pass maxHashSlotNum as --hash-slots"))
            else:
                yield IndexFile(self.fs.open(path, size), shape, entries)

    # -- records

    def record(self, physical: int) -> bytes | None:
        """Validated record at an offset of the log; None if no record begins there."""
        start = self.log.start_at_or_before(physical)
        if start is None or physical >= start + self.log.file_size:
            return None
        found = next(iter(LogScan(self.log, physical)), None)
        if found is None or found.physical_offset != physical:
            return None
        return self.log.read(physical, found.size)
