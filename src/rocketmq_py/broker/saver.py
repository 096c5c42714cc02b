"""Writing configuration files without keeping the event loop waiting for the disk."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from rocketmq_py.store.config_files import ConfigFile

_log = logging.getLogger(__name__)


class Saver:
    """Saves files one after the other in a thread of its own.

    A disk that fails is logged; the next save tries again.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rocketmq-config")
        self._last: Future[None] | None = None

    def save(self, file: ConfigFile, value: Any) -> None:
        """Write ``value`` to a file soon; it must not change any more."""
        self._last = self._thread.submit(_save, file, value)

    def wait(self) -> None:
        """Wait until everything is written."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Wait until everything is written and end the thread."""
        self._thread.shutdown(wait=True)


def _save(file: ConfigFile, value: Any) -> None:
    try:
        file.save(value)
    except OSError as e:
        _log.error("%s cannot be written, what it holds is older than what the broker knows: %s", file.path, e)
