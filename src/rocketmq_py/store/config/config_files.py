"""JSON files below ``config/``: topics, groups, offsets and so on.

Format and backup are Java's (ConfigManager): pretty-printed fastjson, the previous version as ``.bak``.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.wire import fastjson

_log = logging.getLogger(__name__)


class ConfigFile:
    """One JSON file and its backup.

    :param path: for instance ``config/topics.json``; the backup is ``config/topics.json.bak``.
    """

    def __init__(self, path: Path, fs: FileSystem | None = None) -> None:
        self.path = path
        self._backup = path.with_name(path.name + ".bak")
        self._fs = fs or OsFileSystem()
        self._last: bytes | None = None

    def load(self) -> Any | None:
        """Content of the file, or of the backup if the file is missing, empty or not JSON; None if both fail."""
        for path in (self.path, self._backup):
            data = self._fs.read(path)
            if not data or not data.strip():
                continue
            try:
                value = fastjson.loads(data)
            except ValueError as e:
                _log.warning("%s cannot be read, trying its backup: %s", path, e)
                continue
            self._last = data if path == self.path else None
            return value
        return None

    def save(self, value: Any) -> None:
        """Replace the content atomically and keep the previous one as backup; does nothing if nothing changed.

        :raises OSError: the disk is full or fails; the file keeps its previous content.
        """
        self.save_text(fastjson.dumps_pretty(value))

    def save_text(self, data: bytes) -> None:
        """As :meth:`save`, for content that is encoded already."""
        if data == self._last and self._fs.size(self.path) == len(data):
            return
        previous = self._fs.read(self.path)
        if previous and (previous == self._last or _is_json(previous)):
            self._fs.write(self._backup, previous)
        self._fs.write(self.path, data)
        self._last = data


def _is_json(data: bytes) -> bool:
    """True if ``data`` is JSON: a damaged file must not replace a good backup."""
    try:
        fastjson.loads(data)
    except ValueError:
        return False
    return True
