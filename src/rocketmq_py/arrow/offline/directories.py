"""The store directories of a read, opened as they are: closed, in use by a broker, or left by a crash."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from rocketmq_py.arrow.options.stores import StoreDirectory, is_uri, shown
from rocketmq_py.errors import ConfigError, StoreError
from rocketmq_py.store.fs.lock_probe import is_locked
from rocketmq_py.store.log.checkpoint import Checkpoint
from rocketmq_py.store.log.scan import LogScan
from rocketmq_py.store.queue.queue_ends import QueueEndsFile
from rocketmq_py.store.tools.store_files import StoreFiles

if TYPE_CHECKING:
    from rocketmq_py.arrow.offline.remote_files import RemoteFileSystem

_log = logging.getLogger(__name__)


class Directory(StoreFiles):
    """The store directory of one broker.

    :ivar name: the name that the broker has in the read.
    :ivar shown: the directory in messages.
    :ivar is_held: True if a broker runs on it, or if that cannot be found out and it was not closed. False on a remote
        file system: these are not for files that change in place, so a store there is a copy.
    """

    def __init__(self, place: StoreDirectory) -> None:
        self.name, self.shown = place.name, shown(place.root)
        self._held = 0, b""
        self._remote: RemoteFileSystem | None = None
        if not is_uri(place.root):
            super().__init__(Path(place.root), None if place.commit_log is None else Path(place.commit_log))
            self.is_held = not self.was_closed and is_locked(self.layout.lock) is not False
            return
        # imported here: pyarrow.fs takes a fifth of a second, and few reads need it
        from rocketmq_py.arrow.offline.remote_files import remote_store

        self._remote, root, commit_log = remote_store(place)
        log = shown(place.commit_log or f"{self.shown}/commitlog")
        if not self._remote.names(commit_log or root / "commitlog"):
            raise StoreError(f"{self.shown} is no store: there are no files in {log}")
        super().__init__(root, commit_log, self._remote)
        self.is_held = False

    def close(self) -> None:
        super().close()
        if self._remote is not None:
            self._remote.close()

    @property
    def is_torn(self) -> bool:
        """True if a crash has left it: records at the end of the log may be in no consume queue."""
        return not (self.was_closed or self.is_held)

    def unfinished(self) -> frozenset[tuple[str, int]]:
        """Return topic and queue id of the queues whose rebuild has not ended: their files lack entries."""
        if Checkpoint(self.fs, self.layout.checkpoint).end < 0:  # another program has changed the store since
            return frozenset()
        ends = QueueEndsFile(self.fs, self.layout.queue_ends).load()
        return frozenset(key for key, end in ends.by_key().items() if end.is_unfinished)

    def indexed_to(self) -> int:
        """Return an offset of the log before which every record has its queue entry on disk, by the checkpoint.

        A record begins there. Only for a store that a crash has left; brokers begin their recovery there, too.
        """
        checkpoint = Checkpoint(self.fs, self.layout.checkpoint)
        if self.log.min_offset <= checkpoint.end <= self.log.end and self._begins_record(checkpoint.end):
            return checkpoint.end
        for start in reversed(self.log.starts):
            first = next(iter(LogScan(self.log, start, check_crc=False)), None)
            begins = first is not None and first.physical_offset == start
            if first is not None and begins and 0 < first.store_timestamp <= checkpoint.safe_timestamp:
                return start
        return self.log.min_offset

    def _begins_record(self, physical: int) -> bool:
        """Return True if a record begins at an offset of the log, or the written part ends there."""
        scan = LogScan(self.log, physical, check_crc=False)
        found = next(iter(scan), None)
        return scan.reason is None if found is None else found.physical_offset == physical

    def hold(self, begin: int, end: int) -> None:
        """Read the log from ``begin`` to ``end`` for :meth:`log_bytes`, until the next call.

        :raises StoreError: the disk fails.
        """
        self._held = begin, self._read(begin, end)

    def log_bytes(self, begin: int, end: int) -> bytes | memoryview:
        """Return the bytes of the log from ``begin`` to ``end``, which are in one file; fewer if it lacks some.

        :raises StoreError: the disk fails.
        """
        held = self.held(begin, end)
        return self._read(begin, end) if held is None else held

    def held(self, begin: int, end: int) -> memoryview | None:
        """Return the bytes of the log from ``begin`` to ``end`` if they are held."""
        first, held = self._held
        return memoryview(held)[begin - first : end - first] if first <= begin and end <= first + len(held) else None

    def _read(self, begin: int, end: int) -> bytes:
        """Copy bytes with a read, not from a mapping: a file that shrinks meanwhile would kill the process."""
        start = begin - begin % self.log.file_size
        if start not in self.log.starts:
            return b""
        try:
            return self.log.file(start).read(begin - start, end - begin)
        except FileNotFoundError:  # a running broker has removed it
            return b""
        except OSError as e:
            raise StoreError(f"{self.log.path(start)} cannot be read: {e}") from e


def open_directory(place: StoreDirectory) -> Directory:
    """Open a store directory of a read.

    :raises ConfigError: there is no store, or it cannot be read.
    """
    try:
        return Directory(place)
    except (StoreError, OSError) as e:
        raise ConfigError(f"option storePath: {e}") from e
