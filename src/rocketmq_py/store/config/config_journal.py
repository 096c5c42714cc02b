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
from typing import Any, NamedTuple, TypeVar, overload
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
        self._is_journal_whole = True
        self._is_end_lost = False
        """True if a journal ends within a line, or has none: changes made last may be lost."""
        self._is_marked = True
        """False if the checksum of the file does not say yet that there is a journal."""
        self._marking: Future[None] | None = None

    @overload
    def load(self) -> Any | None: ...
    @overload
    def load(self, convert: Callable[[Any], T]) -> T | None: ...
    def load(self, convert: Callable[[Any], Any] = unchanged) -> Any | None:
        """Content of the file with all steps of the journals applied; None if there is no file. Writes nothing.

        :param convert: as of :meth:`ConfigFile.load`.
        """
        found = [_Journal.parse(path, data) for path in self._places if (data := self._fs.read(path)) is not None]
        journals = _in_order(found)
        value = self._file.load(lambda tree: convert(self._complete(tree, journals)))
        self._used = [journal.path for journal in journals]
        self._is_wanted = self._file.is_incomplete
        self._is_end_lost = any(journal.is_cut for journal in journals)
        used = {journal.path for journal in journals if journal.steps or journal.damaged}
        noted = [path for path in self._places if _end(path) in self._file.journals]
        # Version 1.0 notes the first journal for either of them.
        missing = [path for path in noted if path not in used] if len(noted) > 1 or not used else []
        if missing:
            self._is_journal_whole = False
            self._is_wanted = True
            names = " and ".join(map(str, missing))
            verb = "is" if len(missing) == 1 else "are"
            _log.warning(
                "%s %s missing: changes to %s made shortly before the last stop are lost", names, verb, self.path
            )
        return value

    @property
    def is_behind(self) -> bool:
        """True if there is a journal, which may have changes that the file lacks, or the file must be restored."""
        return bool(self._used or self._is_wanted)

    @property
    def is_intact(self) -> bool:
        """True if the content that was loaded is the one saved last, by its checksum."""
        return self._file.is_intact

    @property
    def may_be_old(self) -> bool:
        """True if entries may be missing from what was loaded, or nothing was loaded."""
        return self._file.may_be_old or not self._is_journal_whole or self._is_end_lost

    def _complete(self, tree: Any, journals: list[_Journal]) -> Any:
        """Apply the journals to the content of the file or of its backup."""
        if isinstance(tree, dict):
            for journal in journals:
                if journal.damaged:
                    _log.warning(
                        "%s has %d damaged lines: changes to %s made shortly before the last stop may be lost",
                        journal.path, journal.damaged, self.path,
                    )  # fmt: skip
            self._is_journal_whole = not any(journal.damaged for journal in journals)
            for number, journal in enumerate(journals):
                is_continued = any(_continues(later, journal) for later in journals[number + 1 :])
                self._apply(tree, journal, is_continued=is_continued)
            self._version = tree.get("dataVersion")
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
        if not self.is_behind and whole().version == self._version and self._fs.size(self.path):
            return
        self._start(whole, None)
        self._finish()

    def catch_up(self, whole: Whole) -> None:
        """Rewrite the file if it lacks changes; call it periodically.

        To limit the load, a rewrite waits until 20 times the duration of the last one has passed.

        :param whole: takes a snapshot.
        :raises OSError: the disk is full or fails; the error of a rewrite in the thread is raised by a later call.
        """
        self._finish()
        if self.is_behind and self._is_due:
            self._start(whole, self._thread)
            self._finish()
        self._mark()

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
        """True if no rewrite runs, and 20 times the duration of the last one has passed since then."""
        return self._rewriting is None and (self._whole_again_at is None or self._clock() >= self._whole_again_at)

    def _start(self, whole: Whole, thread: Executor | None) -> None:
        if self._marking is not None and thread is None:
            self._marking.exception()  # waits: both write the checksum
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

    def _mark(self) -> None:
        """Note beside the checksum that there is a journal, so that its loss is noticed; in the thread that rewrites.

        A rewrite that runs makes most journals superfluous, so that this waits for its end.
        """
        if self._is_marked or self._rewriting is not None:
            return
        self._is_marked = True
        names = [_end(path) for path in self._used]
        if names and self._thread is not None:
            self._marking = self._thread.submit(self._begin_journals, names)
        elif names:
            self._begin_journals(names)

    def _begin_journals(self, names: list[str]) -> None:
        try:
            self._file.begin_journal(names)
        except OSError as e:
            _log.warning("a loss of the journal of %s will not be noticed: %s", self.path, e)

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
            self._is_marked = False
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

    def _apply(self, tree: dict[str, Any], journal: _Journal, *, is_continued: bool) -> None:
        """Apply the steps after the one whose ``dataVersion`` the file has; none of them if there is no such step.

        :param is_continued: whether another journal continues this one, and the file may have all its steps.
        """
        begin = _begin(journal.steps, tree.get("dataVersion"), is_whole=self._is_journal_whole)
        if begin is None:
            if not is_continued:
                _log.warning("%s is ignored: another program has rewritten %s since", journal.path, self.path)
            return
        for step in journal.steps[begin:]:
            for member, entries in step.items():
                if member == "dataVersion":
                    tree[member] = entries
                else:
                    tree[member] = _changed(tree.get(member) or {}, entries)


class _Journal(NamedTuple):
    """The whole steps of a journal, the number of its damaged lines, and whether it ends within a line or has none."""

    path: Path
    steps: list[dict[str, Any]]
    damaged: int
    is_cut: bool = False

    @classmethod
    def parse(cls, path: Path, data: bytes) -> _Journal:
        """What follows the last line break is not damage: zeros, or a line that a crash has left incomplete."""
        *lines, end = data.split(b"\n")
        found = [_step(line) for line in lines]
        steps = [step for step in found if step is not None]
        return cls(path, steps, len(found) - len(steps), is_cut=not found or bool(end.strip(b"\0")))

    @property
    def counter(self) -> int:
        """Counter of its first version, -1 if unknown."""
        return _counter(self.steps[0].get("dataVersion")) if self.steps else -1


def _in_order(found: list[_Journal]) -> list[_Journal]:
    """Return the journals, the one first that the other one continues."""
    if len(found) == 2 and _continues(found[0], found[1]):
        return found[::-1]
    if len(found) == 2 and not _continues(found[1], found[0]):
        return sorted(found, key=lambda journal: journal.counter)
    return found


def _continues(later: _Journal, earlier: _Journal) -> bool:
    """True if a journal begins with the version that another one ends with."""
    if not later.steps or not earlier.steps:
        return False
    return bool(later.steps[0].get("dataVersion") == earlier.steps[-1].get("dataVersion"))


def _begin(steps: list[dict[str, Any]], version: Any, *, is_whole: bool) -> int | None:
    """Index of the first step that a file of this version lacks; None if the steps are not for this file.

    :param is_whole: False if lines are damaged, perhaps that of the file's version: newer steps apply then.
    """
    versions = [step.get("dataVersion") for step in steps]
    if version in versions:
        return versions.index(version) + 1
    if is_whole:
        return None if steps else 0
    newer = (index for index, one in enumerate(versions) if _counter(one) > _counter(version) >= 0)
    return next(newer, len(steps))


def _end(path: Path) -> str:
    """``journal`` or ``journal2``, the end of a journal's name."""
    return path.suffix[1:]


def _counter(version: Any) -> int:
    counter = version.get("counter") if isinstance(version, dict) else None
    return counter if isinstance(counter, int) else -1


def _line(version: Any, step: Step) -> bytes:
    """One line of the journal: the CRC-32 of the step, and the step."""
    text = fastjson.dumps({"dataVersion": version, **step})
    return b"%08x %s\n" % (crc32(text), text)


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


def _changed(table: dict[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Replace, add or (where None) remove entries of a table."""
    for name, entry in entries.items():
        if entry is None:
            table.pop(name, None)
        else:
            table[name] = entry
    return table
