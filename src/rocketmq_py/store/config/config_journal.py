"""Configuration files that change in small steps: whole as Java keeps them, and a journal of the latest steps beside.

Writing a table of ten thousand topics as a whole for each topic that comes costs minutes. A step is therefore written
as one line behind those before it whenever the file as a whole was written too recently; it outlives the process either
way. The journal (``topics.json.journal``) is gone with the next whole write, so that at rest there is only the file a
Java broker knows. Refuses to know what the tables mean.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.fs.filesystem import File, FileSystem
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.wire import fastjson

_log = logging.getLogger(__name__)

JOURNAL_SIZE = 1024 * 1024
"""Bytes of a journal; steps that do not fit lead to a whole write."""

WHOLE_WRITES_SHARE = 20
"""A whole write may take one part in so many of the time; what changes in between goes to the journal."""

Step = Mapping[str, Mapping[str, Any]]
"""By member of the file, such as ``topicConfigTable``: what its entries are now, None for one that is gone."""


class JournaledFile:
    """A JSON file of tables and the journal of its latest changes.

    Every content and every step has a ``dataVersion``. Steps are only applied to the content they were made to: a file
    that another program has written since counts alone.

    :param clock: seconds, from anywhere on.
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
        self.is_behind = False
        """Whether the file lacks what the journal has."""

    def load(self) -> Any | None:
        """The content with all steps; None when there is none. Nothing is written."""
        tree = self._file.load()
        journal = self._fs.read(self._journal_path)
        self.is_behind = journal is not None
        if isinstance(tree, dict) and journal:
            self._apply(tree, _steps(journal))
        self._version = tree.get("dataVersion") if isinstance(tree, dict) else None
        return tree

    def save(self, whole: Callable[[], Mapping[str, Any]]) -> None:
        """Replace the content as a whole, keeping the previous one as backup.

        :param whole: makes the content.
        :raises OSError: the disk is full or fails; the previous content and the journal are then still there.
        """
        begin = self._clock()
        value = whole()
        self._file.save(value)
        self._version = value.get("dataVersion")
        self._drop_journal()
        end = self._clock()
        self._whole_again_at = end + (end - begin) * WHOLE_WRITES_SHARE

    def catch_up(self, whole: Callable[[], Mapping[str, Any]]) -> None:
        """Replace the content as a whole if there is a journal and it is not too soon; to be called now and then.

        :raises OSError: as :meth:`save`.
        """
        if self.is_behind and self._is_due:
            self.save(whole)

    def change(self, version: Mapping[str, Any], step: Step, whole: Callable[[], Mapping[str, Any]]) -> None:
        """Keep a step: with all the rest, or in the journal when that was done too recently.

        :param version: the ``dataVersion`` the step leads to.
        :param whole: makes the content after the step.
        :raises OSError: the disk is full or fails.
        """
        if self._is_due or not self._append(version, step):
            self.save(whole)

    @property
    def _is_due(self) -> bool:
        """Whether the whole may be written again."""
        return self._whole_again_at is None or self._clock() >= self._whole_again_at

    def _append(self, version: Mapping[str, Any], step: Step) -> bool:
        """Write a line; False when it does not fit."""
        line = _line(version, step)
        if self._journal is None:
            line = _line(self._version, {}) + line
        if self._end + len(line) >= JOURNAL_SIZE:
            return False
        if self._journal is None:
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

    def _apply(self, tree: dict[str, Any], steps: list[dict[str, Any]]) -> None:
        """Take over the steps behind the one that led to the file's version."""
        versions = [step.get("dataVersion") for step in steps]
        if tree.get("dataVersion") not in versions:
            _log.warning(
                "%s was not made to the content of %s, which another program has written since: it is ignored",
                self._journal_path, self.path,
            )  # fmt: skip
            return
        for step in steps[versions.index(tree.get("dataVersion")) + 1 :]:
            for member, entries in step.items():
                if member == "dataVersion":
                    tree[member] = entries
                else:
                    tree[member] = _changed(tree.get(member) or {}, entries)


def _line(version: Any, step: Step) -> bytes:
    return fastjson.dumps({"dataVersion": version, **step}) + b"\n"


def _steps(journal: bytes) -> list[dict[str, Any]]:
    """The steps up to the end, or to the line a crash left half-written."""
    steps: list[dict[str, Any]] = []
    for line in journal.split(b"\n")[:-1]:
        try:
            step = fastjson.loads(line)
        except ValueError:
            break
        if not isinstance(step, dict):
            break
        steps.append(step)
    return steps


def _changed(table: dict[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """A table with some entries replaced, added or, where None, gone."""
    for name, entry in entries.items():
        if entry is None:
            table.pop(name, None)
        else:
            table[name] = entry
    return table
