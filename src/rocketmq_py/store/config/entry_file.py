"""Configuration files of many entries: a save encodes only the entries that have changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from rocketmq_py.store.config.config_files import ConfigFile

K = TypeVar("K", bound=Hashable)
E = TypeVar("E")
T = TypeVar("T")


class EntryFile(Generic[K, E]):
    """A file and the text of each of its entries: to encode ten thousand entries takes a tenth of a second.

    After :meth:`load`, only one thread may use it. That thread encodes the entries, which may change meanwhile: the
    caller then saves them again.

    :param encode: returns the text of an entry, in one step that no other thread can interrupt or from a copy.
    :param content: returns the content of the file, from the texts of all entries by key.
    """

    def __init__(self, file: ConfigFile, encode: Callable[[E], str], content: Callable[[Mapping[K, str]], str]) -> None:
        self._file = file
        self._encode = encode
        self._content = content
        self._texts: dict[K, str] = {}
        self._exists = False
        self.path: Path = file.path

    def load(self, convert: Callable[[Any], T]) -> T | None:
        """Return the converted content of the file; None if there is none. The first save must have all its entries.

        :param convert: as of :meth:`ConfigFile.load`.
        """
        found = self._file.load(convert)
        self._exists = found is not None
        return found

    def save(self, changes: Mapping[K, E | None]) -> None:
        """Write the file if its content has changed. Without any entry, no file is created.

        :param changes: changed entries by key; None for a removed one.
        :raises OSError: the disk is full or fails; the next save has these changes, too.
        """
        for key, entry in changes.items():
            if entry is None:
                self._texts.pop(key, None)
            else:
                self._texts[key] = self._encode(entry)
        if self._texts or self._exists:
            self._exists = True
            self._file.save_text(self._content(self._texts).encode())


def grouped(texts: Mapping[tuple[str, T], str]) -> dict[str, dict[T, str]]:
    """Return texts whose keys are pairs as a table of tables, by the first and by the second part of the key."""
    tables: dict[str, dict[T, str]] = {}
    for (first, second), text in texts.items():
        tables.setdefault(first, {})[second] = text
    return tables
