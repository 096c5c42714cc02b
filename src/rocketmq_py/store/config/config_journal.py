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
from typing import Any

from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.fs.filesystem import File, FileSystem
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.wire import fastjson

_log = logging.getLogger(__name__)

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
        self.is_behind = False
        """True if there is a journal: it may have changes that the file does not have."""

    def load(self) -> Any | None:
        """Content of the file with all steps of the journal applied; None if there is no file. Writes nothing."""
        tree = self._file.load()
        journal = self._fs.read(self._journal_path)
        self.is_behind = journal is not None
        if isinstance(tree, dict) and journal:
            self._apply(tree, _steps(journal))
        self._version = tree.get("dataVersion") if isinstance(tree, dict) else None
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
        """Apply the steps after the one whose ``dataVersion`` the file has; none of them if there is no such step."""
        versions = [step.get("dataVersion") for step in steps]
        if tree.get("dataVersion") not in versions:
            _log.warning(
                "%s is ignored: another program has rewritten %s since",
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
    """Return the steps of a journal, up to its end or to a line that a crash has left incomplete."""
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
    """Replace, add or (where None) remove entries of a table."""
    for name, entry in entries.items():
        if entry is None:
            table.pop(name, None)
        else:
            table[name] = entry
    return table
