"""Configuration files with a journal of their latest changes.

Rewriting a table of ten thousand topics for each new topic takes minutes in total. Each change is appended to a journal
(``topics.json.journal``) as one line, which survives the process. The file is rewritten in a thread, seldom in a burst
of changes, and the journal is removed then, so that a closed store has only the file that Java brokers know. Changes
during a rewrite go to a second journal (``topics.json.journal2``), and next time to the first one again.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, NamedTuple

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


class Snapshot(NamedTuple):
    """The content of a file at one time.

    :param version: its ``dataVersion``.
    :param content: returns the content, possibly in another thread. Entries that have changed meanwhile may have their
        new content: their steps are in a journal, too.
    """

    version: Mapping[str, Any]
    content: Callable[[], Mapping[str, Any]]


Whole = Callable[[], Snapshot]
"""Takes a snapshot."""


class JournaledFile:
    """A JSON file of tables and the journals of its latest changes.

    Every content and every step has a ``dataVersion``. Steps apply only to the content they were made for: if another
    program has rewritten the file since, the journals are ignored.

    :param clock: returns monotonic seconds.
    :param thread: an executor with one thread, which rewrites the file; None rewrites it in the calling thread.
    """

    def __init__(
        self,
        path: Path,
        fs: FileSystem | None = None,
        clock: Callable[[], float] = time.perf_counter,
        thread: Executor | None = None,
    ) -> None:
        self.path = path
        self._file = ConfigFile(path, fs)
        self._fs = fs or OsFileSystem()
        self._clock = clock
        self._thread = thread
        self._places = tuple(path.with_name(f"{path.name}.journal{number}") for number in ("", "2"))
        self._used: list[Path] = []
        """Journals on disk that the file does not have completely, the older first."""
        self._journal: File | None = None
        """The open journal, the last one of ``_used``; None: the next change begins another one."""
        self._end = 0
        self._rewriting: Future[float] | None = None
        self._rewritten: tuple[Path, ...] = ()
        """Journals that the running rewrite makes superfluous, and removes."""
        self._is_wanted = False
        """True if the file lacks changes that are in no journal."""
        self._whole_again_at: float | None = None
        self._version: Any = None

    def load(self) -> Any | None:
        """Content of the file with all steps of the journals applied; None if there is no file. Writes nothing."""
        tree = self._file.load()
        found = {path: _steps(data) for path in self._places if (data := self._fs.read(path)) is not None}
        self._used = _in_order(found)
        if isinstance(tree, dict):
            for path, steps in _chains({path: found[path] for path in self._used}):
                self._apply(tree, path, steps)
        self._version = tree.get("dataVersion") if isinstance(tree, dict) else None
        return tree

    def save(self, whole: Whole) -> None:
        """Rewrite the file in this thread, keep the previous content as backup, and remove the journals.

        Nothing is written if the file has the present ``dataVersion`` already.

        :param whole: takes a snapshot.
        :raises OSError: the disk is full or fails; the previous content and the journals stay.
        """
        if self._rewriting is not None:
            self._rewriting.exception()  # waits; if that rewrite failed, this one makes up for it
            with contextlib.suppress(OSError):
                self._finish()
        is_behind = self._used or self._is_wanted or whole().version != self._version
        if not is_behind and self._fs.size(self.path):
            return
        self._start(whole, None)
        self._finish()

    def catch_up(self, whole: Whole) -> None:
        """Rewrite the file if it lacks changes and the last rewrite is long enough ago; call it periodically.

        :raises OSError: the disk is full or fails; the error of a rewrite in the thread is raised by a later call.
        """
        self._finish()
        if (self._used or self._is_wanted) and self._is_due:
            self._start(whole, self._thread)
            self._finish()

    def rewrite(self, whole: Whole) -> None:
        """Rewrite the file soon, because its content was replaced; a crash before loses that.

        :raises OSError: as of :meth:`catch_up`.
        """
        self._is_wanted, self._whole_again_at = True, None
        self.catch_up(whole)

    def change(self, version: Mapping[str, Any], step: Step, whole: Whole) -> None:
        """Save a step in the journal, and rewrite the file if the last rewrite is long enough ago.

        :param version: the ``dataVersion`` after the step.
        :param whole: takes a snapshot after the step.
        :raises OSError: the disk is full or fails; the error of a rewrite in the thread is raised by a later call.
        """
        self._finish()
        if self._append(version, step):
            self.catch_up(whole)
            return
        if self._rewriting is not None:
            self._rewriting.exception()  # waits: both journals are full
            self._finish()
        self._close()
        if self._append(version, step):
            self._start(whole, self._thread)
            self._finish()
        else:
            self.save(whole)

    @property
    def _is_due(self) -> bool:
        """True if the last rewrite is long enough ago for another one."""
        return self._rewriting is None and (self._whole_again_at is None or self._clock() >= self._whole_again_at)

    def _start(self, whole: Whole, thread: Executor | None) -> None:
        self._version, content = whole()
        self._close()
        self._rewritten, self._is_wanted = tuple(self._used), False
        if thread is not None:
            self._rewriting = thread.submit(self._rewrite, content, self._rewritten)
            return
        self._rewriting = Future()
        try:
            self._rewriting.set_result(self._rewrite(content, self._rewritten))
        except OSError as e:
            self._rewriting.set_exception(e)

    def _rewrite(self, content: Callable[[], Mapping[str, Any]], journals: tuple[Path, ...]) -> float:
        """Write the file and remove the journals whose steps it has; return the seconds that this took."""
        begin = self._clock()
        value = content()
        self._file.save(value)
        for path in journals:
            self._fs.remove(path)
        return self._clock() - begin

    def _finish(self) -> None:
        """Take note of a rewrite that has ended; raise its error."""
        rewriting = self._rewriting
        if rewriting is None or not rewriting.done():
            return
        self._rewriting = None
        try:
            seconds = rewriting.result()
        except OSError:
            self._is_wanted = True
            raise
        self._used = [path for path in self._used if path not in self._rewritten]
        self._whole_again_at = self._clock() + seconds * WHOLE_WRITES_SHARE

    def _append(self, version: Mapping[str, Any], step: Step) -> bool:
        """Append a line to the journal, or begin the other one if there is none; False if there is no room."""
        line = _line(version, step)
        if self._journal is None:
            line = _line(self._version, {}) + line
            path = next((path for path in self._places if path not in self._used), None)
            if path is None or len(line) >= JOURNAL_SIZE:
                return False
            self._fs.remove(path)
            self._journal, self._end = self._fs.open(path, JOURNAL_SIZE), 0
            self._used.append(path)
        if self._end + len(line) >= JOURNAL_SIZE:
            return False
        self._journal.write(self._end, line)
        self._end += len(line)
        self._version = version
        return True

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _apply(self, tree: dict[str, Any], path: Path, steps: list[dict[str, Any]]) -> None:
        """Apply the steps after the one whose ``dataVersion`` the file has; none of them if there is no such step."""
        versions = [step.get("dataVersion") for step in steps]
        if tree.get("dataVersion") not in versions:
            _log.warning("%s is ignored: another program has rewritten %s since", path, self.path)
            return
        for step in steps[versions.index(tree.get("dataVersion")) + 1 :]:
            for member, entries in step.items():
                if member == "dataVersion":
                    tree[member] = entries
                else:
                    tree[member] = _changed(tree.get(member) or {}, entries)


def _in_order(found: Mapping[Path, list[dict[str, Any]]]) -> list[Path]:
    """Return the journals, the one first that the other one continues."""
    paths = list(found)
    if len(paths) == 2 and _continues(found[paths[0]], found[paths[1]]):
        paths.reverse()
    return paths


def _continues(steps: list[dict[str, Any]], earlier: list[dict[str, Any]]) -> bool:
    """True if a journal begins with the version that another one ends with."""
    return bool(steps and earlier) and steps[0].get("dataVersion") == earlier[-1].get("dataVersion")


def _chains(found: Mapping[Path, list[dict[str, Any]]]) -> list[tuple[Path, list[dict[str, Any]]]]:
    """Return the steps of the journals, in one list if one continues the other."""
    (path, steps), *more = found.items() if found else ((Path(), []),)
    if not steps and not more:
        return []
    if more and _continues(more[0][1], steps):
        return [(path, steps + more[0][1])]
    return [(path, steps) for path, steps in found.items() if steps]


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
