"""Writes tables of many entries in a thread, and tells when changes are on disk."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Hashable, Mapping
from concurrent.futures import Executor, Future
from typing import Generic, TypeVar

from rocketmq_py.store.config.entry_file import EntryFile

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
E = TypeVar("E")


class EntryWriter(Generic[K, E]):
    """Writes a file in a thread; changes made during a write are written together by the next one.

    A failed write is logged once until a later one succeeds, which has its changes, too.

    :param thread: an executor with one thread, which nothing else may use the file in.
    """

    def __init__(self, file: EntryFile[K, E], thread: Executor) -> None:
        self._file = file
        self._thread = thread
        self.load = file.load
        self._lock = threading.RLock()
        self._changes: dict[K, E | None] = {}
        """What no write has begun to write."""
        self._write: Future[None] | None = None
        """The write that ends last; it has not begun if there are changes."""
        self._is_failing = False

    def save(self, changes: Mapping[K, E | None]) -> None:
        """Save changed entries, None for a removed one, and return at once; the first save must have all entries."""
        with self._lock:
            is_waiting = bool(self._changes)
            self._changes |= changes
            if not is_waiting:
                self._write = self._thread.submit(self._write_changes)

    async def saved(self) -> None:
        """Wait until all changes are on disk.

        :raises OSError: the disk is full or fails; the next save has these changes, too.
        """
        if self._write is not None:
            await asyncio.shield(asyncio.wrap_future(self._write))

    def _write_changes(self) -> None:
        with self._lock:
            changes, self._changes = self._changes, {}
        try:
            self._file.save(changes)
        except OSError as e:
            if not self._is_failing:
                _log.error("%s cannot be written, so it is older than the broker's state: %s", self._file.path, e)
            self._is_failing = True
            raise
        if self._is_failing:
            _log.warning("%s can be written again", self._file.path)
            self._is_failing = False
