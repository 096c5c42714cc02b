"""The slots of the newest index file are kept in memory: each new key changes one, anywhere in a table of 20 MB.

After a start of the machine, and after a time without messages, they may be on the disk only. Then a thread loads them
as a whole, and keys wait meanwhile. They also wait for disk space, see ``entry_space``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future

from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.index.entry_space import EntrySpace
from rocketmq_py.store.index.index_file import IndexFile

_log = logging.getLogger(__name__)

_TRUSTED_MS = 10_000
"""So long after slots were in memory they count as in memory."""
_ENOUGH = 256
"""If so many slots are in memory, taken at random, all of them are."""


class SlotPages:
    """Tells whether keys can be added without waiting for the disk, and loads slots and makes space if not.

    :param clock: returns milliseconds since the epoch.
    :param executor: does that, one after the other.
    """

    def __init__(self, fs: FileSystem, clock: Callable[[], int], executor: Executor) -> None:
        self._fs = fs
        self._clock = clock
        self._executor = executor
        self._space = EntrySpace(fs, executor)
        self._file: IndexFile | None = None
        self._trusted_ms = 0
        self._load: Future[None] | None = None
        self._is_failing = False

    def trust(self, file: IndexFile) -> None:
        """Note that the slots of a file are in memory now."""
        self._file, self._trusted_ms = file, self._clock()

    def are_ready(self, file: IndexFile, count: int, hashes_of: Callable[[], Sequence[int]]) -> bool:
        """Return True if so many keys can be added without waiting for the disk; else let that be so soon.

        :param hashes_of: returns the hashes of the keys; not called if all slots are in memory.
        """
        if not self._fs.tells_residency:
            return True
        has_space = self._space.is_ready(file, count)
        return self._are_resident(file, hashes_of) and has_space

    def _are_resident(self, file: IndexFile, hashes_of: Callable[[], Sequence[int]]) -> bool:
        """Return True if the slots of some keys are in memory; else load all slots."""
        if file is self._file and 0 <= self._clock() - self._trusted_ms < _TRUSTED_MS:
            return True
        if self._load is not None:
            return self._has_loaded(self._load, file)
        hashes = hashes_of()
        if file.are_resident(hashes):
            if len(hashes) >= _ENOUGH:
                self.trust(file)
            return True
        self._load = self._executor.submit(file.load_slots, self._fs)
        return False

    def _has_loaded(self, load: Future[None], file: IndexFile) -> bool:
        if not load.done():
            return False
        self._load = None
        failure = load.exception()
        if failure is None:
            self._is_failing = False
            self.trust(file)
            return True
        if not self._is_failing:  # log once, not many times a second
            _log.error("the index %s cannot be read, its keys wait in memory: %s", file.path, failure)
        self._is_failing = True
        return False

    def close(self) -> None:
        """Stop the thread after its current load."""
        self._executor.shutdown(wait=True)
