"""JSON files below ``config/``: topics, groups, offsets and so on.

Format and names are Java's (ConfigManager): pretty-printed fastjson and a ``.bak`` beside it. The backup has the same
content, and a checksum tells which of the two is damaged; see :mod:`rocketmq_py.store.config.generations`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, overload

from rocketmq_py.errors import ProtocolError
from rocketmq_py.store.config.generations import Checksum, Generations, is_blank
from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.wire import fastjson

_log = logging.getLogger(__name__)

T = TypeVar("T")

_INVALID = (ValueError, TypeError, KeyError, AttributeError, RecursionError, ProtocolError)
"""Errors of a conversion that mean that a content is not valid."""


def unchanged(tree: Any) -> Any:
    """The content as it was parsed."""
    return tree


class ConfigFile:
    """One JSON file, its backup and their checksum.

    :param path: for instance ``config/topics.json``; beside it are ``topics.json.bak`` and ``topics.json.sum``.
    """

    def __init__(self, path: Path, fs: FileSystem | None = None) -> None:
        self.path = path
        self._backup = path.with_name(path.name + ".bak")
        self._sum = path.with_name(path.name + ".sum")
        self._fs = fs or OsFileSystem()
        self._last: bytes | None = None
        self._damaged: bytes | None = None
        """Content of a damaged file, to be kept beside the one that replaces it."""
        self._unwritten: bytes | None = None
        """Content to be written again by :meth:`restore`; None if both generations are there."""
        self._checksum: Checksum | None = None
        self.is_intact = False
        """True if the content that was loaded is the one saved last, by its checksum."""
        self.may_be_old = False
        """True if entries may be missing from what was loaded, or nothing was loaded."""

    @overload
    def load(self) -> Any | None: ...
    @overload
    def load(self, convert: Callable[[Any], T]) -> T | None: ...
    def load(self, convert: Callable[[Any], Any] = unchanged) -> Any | None:
        """Content of the file; of the backup if the file is missing, empty, damaged or not valid; None if both are.

        Two that are damaged in different places are put together, if the checksum confirms the result.

        A use of the backup, and a loss of both, is one warning. Writes nothing: see :meth:`restore`.

        :param convert: makes the result of the parsed content; an error such as a ``ValueError`` means not valid.
        """
        found = self._generations()
        self.may_be_old = True
        faults = [] if found.main_fault is None else [f"{self.path} {found.main_fault}"]
        contents: list[tuple[Path | None, bytes | None]] = [(self.path, found.main), (self._backup, found.backup)]
        if found.is_backup_first:
            contents.reverse()
        elif faults and (merged := found.merged()) is not None:
            contents.insert(0, (None, merged))
        for path, data in contents:
            if data is None or is_blank(data):
                continue
            try:
                value = convert(fastjson.loads(data))
            except _INVALID as e:
                faults.append(f"{path} is not valid: {e}")
                continue
            self._use(path, data, found)
            if path is None:
                self.may_be_old = False
                _log.warning("%s and its backup are damaged in different places and are put together", self.path)
            else:
                self._warn(faults, found, is_backup=path == self._backup)
            return value
        if not found.is_new:
            self._damaged = found.main
            _log.warning(
                "%s and its backup cannot be used, it starts without content: %s", self.path, "; ".join(faults)
            )
        return None

    def _generations(self) -> Generations:
        main, checksum = self._fs.read(self.path), Checksum.parse(self._fs.read(self._sum))
        modified_ms = -1 if main is None else self._fs.modified_ms(self.path)
        return Generations(main, self._fs.read(self._backup), checksum, modified_ms)

    def _use(self, path: Path | None, data: bytes, found: Generations) -> None:
        """Note which content was loaded.

        :param path: of the file or its backup; None if the content is put together from both.
        """
        self._checksum = found.checksum if found.is_saved(data) else None
        is_main = path == self.path
        self.is_intact = found.is_saved(data) and (is_main or found.main is None or not found.is_rewritten)
        self._last = data if is_main else None
        self._damaged = None if is_main else found.main
        self._unwritten = None if is_main and self.is_intact and found.backup == data else data

    def _warn(self, faults: list[str], found: Generations, *, is_backup: bool) -> None:
        """Log which content is used despite which faults, and note whether that may be old."""
        self.may_be_old = False
        if is_backup and self.is_intact:
            _log.warning("%s; its backup is used, which has the same content", "; ".join(faults))
        elif is_backup:
            self.may_be_old = True
            written = datetime.fromtimestamp(self._fs.modified_ms(self._backup) / 1000, UTC)
            age = f"was written at {written:%Y-%m-%d %H:%M:%S} UTC, later changes are missing"
            _log.warning("%s; its backup is used, which %s", "; ".join(faults), age)
        elif faults and found.backup != found.main:  # of three files, two are damaged
            self.may_be_old = True
            _log.warning("%s, and its backup differs; it is used, and entries may be wrong", faults[0])

    def begin_journal(self, names: Sequence[str]) -> None:
        """Note beside the checksum that changes are in journals from now on, until the next save.

        :param names: the ends of their names.
        :raises OSError: the disk is full or fails.
        """
        if self._checksum is not None:
            self._checksum = self._checksum._replace(journals=tuple(names))
            self._fs.write(self._sum, self._checksum.encode())

    @property
    def journals(self) -> tuple[str, ...]:
        """Ends of the names of the journals that complete the content that was loaded."""
        return self._checksum.journals if self._checksum is not None else ()

    @property
    def is_incomplete(self) -> bool:
        """True if :meth:`restore` has something to write."""
        return self._unwritten is not None

    def restore(self) -> None:
        """Write the loaded content again if the file, its backup or the checksum was missing or damaged.

        The content of a damaged file is kept as ``NAME.damaged``.

        :raises OSError: the disk is full or fails.
        """
        if self._unwritten is not None:
            self._write(self._unwritten)

    def save(self, value: Any) -> None:
        """Replace the content and its backup, each atomically; does nothing if nothing changed.

        :raises OSError: the disk is full or fails; one of the two has the previous or the new content.
        """
        self.save_text(fastjson.dumps_pretty(value))

    def save_text(self, data: bytes) -> None:
        """As :meth:`save`, for content that is encoded already."""
        is_written = self._unwritten is None and not self.journals
        if data == self._last and is_written and self._fs.size(self.path) == len(data):
            return
        self._write(data)

    def _write(self, data: bytes) -> None:
        # In this order, one of the two contents fits the checksum at every moment, or both can be parsed.
        if self._damaged:
            self._fs.write(self.path.with_name(self.path.name + ".damaged"), self._damaged)
            self._damaged = None
        self._fs.write(self.path, data)
        self._checksum = Checksum.of(data, self._fs.modified_ms(self.path))
        self._fs.write(self._sum, self._checksum.encode())
        self._fs.write(self._backup, data)
        self._last, self._unwritten = data, None
