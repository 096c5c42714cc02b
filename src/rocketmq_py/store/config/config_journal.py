"""Configuration files with a journal of their latest changes.

Rewriting a table of ten thousand topics for each new topic takes minutes in total. If the file was rewritten recently,
a change is appended to a journal (``topics.json.journal``) as one line instead; either way it survives the process. The
next rewrite removes the journal, so that a closed store has only the file that Java brokers know.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload
from zlib import crc32

from rocketmq_py.store.config.config_files import ConfigFile, unchanged
from rocketmq_py.store.fs.filesystem import File, FileSystem
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.wire import fastjson

_log = logging.getLogger(__name__)

T = TypeVar("T")

JOURNAL_SIZE = 1024 * 1024
"""Bytes of a journal; a change that does not fit causes a rewrite of the file."""

WHOLE_WRITES_SHARE = 20
"""After a rewrite, changes go to the journal for this many times as long as the rewrite took."""

Step = Mapping[str, Mapping[str, Any]]
"""Changed entries by member of the file, such as ``topicConfigTable``; None for a removed entry."""


class JournaledFile:
    """A JSON file of tables and the journal of its latest changes.

    Every content and every step has a ``dataVersion``. Steps apply only to the content they were made for: if another
    program has rewritten the file since, the journal is ignored.

    :param clock: returns monotonic seconds.
    """

    def __init__(
        self, path: Path, fs: FileSystem | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.path = path
        self._file = ConfigFile(path, fs)
        self._fs = fs or OsFileSystem()
        self._clock = clock
        self._journal_path = path.with_name(path.name + ".journal")
        self._journal: File | None = None
        self._end = 0
        self._whole_again_at: float | None = None
        self._version: Any = None
        self._is_journal_whole = True
        self.is_behind = False
        """True if there is a journal, which may have changes that the file lacks, or the file must be restored."""

    @overload
    def load(self) -> Any | None: ...
    @overload
    def load(self, convert: Callable[[Any], T]) -> T | None: ...
    def load(self, convert: Callable[[Any], Any] = unchanged) -> Any | None:
        """Content of the file with all steps of the journal applied; None if there is no file. Writes nothing.

        :param convert: as of :meth:`ConfigFile.load`.
        """
        journal = self._fs.read(self._journal_path)
        value = self._file.load(lambda tree: convert(self._complete(tree, journal)))
        self.is_behind = journal is not None or self._file.is_incomplete
        if not journal and self._file.has_journal:
            self._is_journal_whole = False
            self.is_behind = True
            _log.warning(
                "%s is missing: changes to %s made shortly before the last stop are lost", self._journal_path, self.path
            )
        return value

    @property
    def is_intact(self) -> bool:
        """True if the content that was loaded is the one saved last, by its checksum."""
        return self._file.is_intact

    @property
    def may_be_old(self) -> bool:
        """True if entries may be missing from what was loaded, or nothing was loaded."""
        return self._file.may_be_old or not self._is_journal_whole

    def _complete(self, tree: Any, journal: bytes | None) -> Any:
        """Apply the journal to the content of the file or of its backup."""
        if isinstance(tree, dict):
            if journal:
                self._apply(tree, journal)
            self._version = tree.get("dataVersion")
        return tree

    def save(self, whole: Callable[[], Mapping[str, Any]]) -> None:
        """Rewrite the file, keep the previous content as backup, and remove the journal.

        :param whole: returns the content.
        :raises OSError: the disk is full or fails; the previous content and the journal stay.
        """
        begin = self._clock()
        value = whole()
        self._file.save(value)
        self._version = value.get("dataVersion")
        self._drop_journal()
        end = self._clock()
        self._whole_again_at = end + (end - begin) * WHOLE_WRITES_SHARE

    def catch_up(self, whole: Callable[[], Mapping[str, Any]]) -> None:
        """Rewrite the file if there is a journal; call it periodically.

        To limit the load, a rewrite waits until 20 times the duration of the last one has passed.

        :param whole: returns the content.
        :raises OSError: as of :meth:`save`.
        """
        if self.is_behind and self._is_due:
            self.save(whole)

    def change(self, version: Mapping[str, Any], step: Step, whole: Callable[[], Mapping[str, Any]]) -> None:
        """Save a step: rewrite the file, or append to the journal if the last rewrite was recent.

        :param version: the ``dataVersion`` after the step.
        :param whole: returns the content after the step.
        :raises OSError: the disk is full or fails.
        """
        if self._is_due or not self._append(version, step):
            self.save(whole)

    @property
    def _is_due(self) -> bool:
        """True if 20 times the duration of the last rewrite has passed since then, or there was none."""
        return self._whole_again_at is None or self._clock() >= self._whole_again_at

    def _append(self, version: Mapping[str, Any], step: Step) -> bool:
        """Append a line to the journal; False if it does not fit."""
        line = _line(version, step)
        if self._journal is None:
            line = _line(self._version, {}) + line
        if self._end + len(line) >= JOURNAL_SIZE:
            return False
        if self._journal is None:
            self._file.begin_journal()
            self._fs.remove(self._journal_path)
            self._journal = self._fs.open(self._journal_path, JOURNAL_SIZE)
        self._journal.write(self._end, line)
        self._end += len(line)
        self._version = version
        self.is_behind = True
        return True

    def _drop_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal, self._end = None, 0
        if self.is_behind:
            self._fs.remove(self._journal_path)
            self.is_behind = False

    def _apply(self, tree: dict[str, Any], journal: bytes) -> None:
        """Apply the steps after the one whose ``dataVersion`` the file has; none of them if there is no such step."""
        steps, damaged = _steps(journal)
        self._is_journal_whole = not damaged
        if damaged:
            _log.warning(
                "%s has %d damaged lines: changes to %s made shortly before the last stop may be lost",
                self._journal_path, damaged, self.path,
            )  # fmt: skip
        versions = [step.get("dataVersion") for step in steps]
        if tree.get("dataVersion") in versions:
            begin = versions.index(tree.get("dataVersion")) + 1
        elif damaged:
            begin = _first_newer(versions, tree.get("dataVersion"))
        else:
            begin = len(steps)
            _log.warning(
                "%s is ignored: another program has rewritten %s since",
                self._journal_path, self.path,
            )  # fmt: skip
        for step in steps[begin:]:
            for member, entries in step.items():
                if member == "dataVersion":
                    tree[member] = entries
                else:
                    tree[member] = _changed(tree.get(member) or {}, entries)


def _line(version: Any, step: Step) -> bytes:
    """One line of the journal: the CRC-32 of the step, and the step."""
    text = fastjson.dumps({"dataVersion": version, **step})
    return b"%08x %s\n" % (crc32(text), text)


def _steps(journal: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the whole steps of a journal, and the number of damaged lines.

    What follows the last line break is not damage: zeros, or a line that a crash has left incomplete.
    """
    found = [_step(line) for line in journal.split(b"\n")[:-1]]
    steps = [step for step in found if step is not None]
    return steps, len(found) - len(steps)


def _step(line: bytes) -> dict[str, Any] | None:
    """Parse a line; None if it is damaged."""
    checksum, _, text = (b"", b"", line) if line.startswith(b"{") else line.partition(b" ")  # "{": of version 1.0
    if checksum and checksum != b"%08x" % crc32(text):
        return None
    try:
        step = fastjson.loads(text)
    except ValueError:
        return None
    return step if isinstance(step, dict) else None


def _first_newer(versions: list[Any], version: Any) -> int:
    """Index of the first step with a larger counter than the file, for a journal that has lost its first line."""
    counter = version.get("counter") if isinstance(version, dict) else None
    for index, one in enumerate(versions):
        if isinstance(counter, int) and isinstance(one, dict) and one.get("counter", 0) > counter:
            return index
    return len(versions)


def _changed(table: dict[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Replace, add or (where None) remove entries of a table."""
    for name, entry in entries.items():
        if entry is None:
            table.pop(name, None)
        else:
            table[name] = entry
    return table
