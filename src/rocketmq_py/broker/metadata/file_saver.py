"""Writes configuration files in a thread, so that the event loop does not wait for the disk."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from rocketmq_py.store.config.config_files import ConfigFile

_log = logging.getLogger(__name__)


class SavedFile(Protocol):
    """A file to save, such as :class:`~rocketmq_py.store.config.config_files.ConfigFile`."""

    path: Path

    def save(self, value: Any, /) -> None:
        """Write a value; ``OSError`` if the disk is full or fails."""


class ConfigFileSaver:
    """Saves files one after the other in one thread.

    A failed write is logged once per file until a later save succeeds.

    :param thread: an executor with one thread, which writes the files; :meth:`close` shuts it down.
    """

    def __init__(self, thread: Executor) -> None:
        self._thread = thread
        self._last: Future[None] | None = None
        self._failing: set[Path] = set()
        """Files that could not be written; used by the thread only."""

    def save(self, file: SavedFile, value: Any) -> None:
        """Write ``value`` to a file in the thread, and return at once. The caller must not change ``value`` later."""
        self._last = self._thread.submit(self._try, file, partial(file.save, value))

    def restore(self, file: ConfigFile) -> None:
        """Write a damaged or missing generation of a loaded file again, in the thread; return at once."""
        if file.is_incomplete:
            self._last = self._thread.submit(self._try, file, file.restore)

    def wait(self) -> None:
        """Block until all files are written."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Block until all files are written, then stop the thread."""
        self._thread.shutdown(wait=True)

    def _try(self, file: SavedFile, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as e:
            if file.path not in self._failing:
                self._failing.add(file.path)
                _log.error("%s cannot be written, so it is older than the broker's state: %s", file.path, e)
        else:
            if file.path in self._failing:
                self._failing.discard(file.path)
                _log.warning("%s can be written again", file.path)
