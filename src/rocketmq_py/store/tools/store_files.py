"""The files of a store on disk: log files and consume queues, found and opened read-only, without a lock.

File sizes are not stored anywhere; they are derived from the files. ``OfflineStore`` adds what the tools need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from rocketmq_py.core.paths import component_fault
from rocketmq_py.errors import StoreError
from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.fs.layout import StoreLayout, segment_start
from rocketmq_py.store.fs.open_files import OpenFiles
from rocketmq_py.store.fs.readonly import ReadOnlyFileSystem
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.queue.consume_queue import Entry, first_from, is_blank, unpack_entries
from rocketmq_py.store.settings import CONSUME_QUEUE_ENTRY as ENTRY

_MOST_OPEN = 256
_AT_ONCE = 1024


def has_messages(root: Path) -> bool:
    """Return True if the commit log of a store has a record; False if it has none or there is no store.

    :param root: ``storePathRootDir``.
    """
    return any(_begins_with_record(path) for path in StoreLayout(root).commit_log.glob("*"))


def _begins_with_record(path: Path) -> bool:
    with path.open("rb") as file:
        return any(file.read(4))  # the length of a record; files are preallocated with zeros


class Odd(NamedTuple):
    """An unexpected file, and what is unexpected about it."""

    path: Path
    what: str


class QueueView:
    """Entries of one consume queue on disk, from ``begin`` to ``end``; those before ``min`` have expired."""

    def __init__(self, topic: str, queue_id: int, directory: Path, starts: list[int], files: OpenFiles) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self._directory = directory
        self._starts = starts
        self._files = files
        self._per_file = files.file_size // ENTRY
        self.begin = starts[0] if starts else 0
        self.end = self._find_end()
        self.min = self.begin

    def _find_end(self) -> int:
        """Offset after the last written entry; files that a broker has preallocated have none."""
        for start in reversed(self._starts):
            low, high = 0, self._per_file
            while low < high:
                middle = (low + high) // 2
                physical, size, _ = next(iter(self._read(start + middle, 1)), (-1, 0, 0))
                low, high = (middle + 1, high) if size > 0 and physical >= 0 else (low, middle)
            if low:
                return start + low
        return self.begin

    def raise_minimum(self, physical: int) -> None:
        """Set ``min`` to the first entry of a message at ``physical`` of the log or later."""
        self.min = first_from(
            lambda offset: next(iter(self.read(offset, 1)), None), self._skip_blanks, self.begin, self.end, physical
        )

    def _skip_blanks(self, offset: int, end: int) -> int:
        while offset < end:
            entries = self.read(offset, min(_AT_ONCE, end - offset))
            blanks = next((at for at, entry in enumerate(entries) if not is_blank(entry)), len(entries))
            offset += blanks
            if not entries or blanks < len(entries):
                return offset
        return end

    def read(self, offset: int, count: int) -> list[Entry]:
        """Entries from ``offset``; fewer than ``count`` at the end or before a missing file."""
        found: list[Entry] = []
        end = min(offset + count, self.end)
        while offset < end:
            start = offset - offset % self._per_file
            part = self._read(offset, min(end, start + self._per_file) - offset) if start in self._starts else []
            if not part:
                break
            found += part
            offset += len(part)
        return found

    def raw(self, offset: int, count: int) -> bytes:
        """Encoded entries from ``offset``, at most to the end of its file; empty if the file is missing."""
        start = offset - offset % self._per_file
        return self._raw(offset, min(count, start + self._per_file - offset)) if start in self._starts else b""

    def next_file(self, offset: int) -> int:
        """Number of the first entry in the file after the one with ``offset``."""
        return offset - offset % self._per_file + self._per_file

    def _read(self, offset: int, count: int) -> list[Entry]:
        return list(unpack_entries(self._raw(offset, count)))

    def _raw(self, offset: int, count: int) -> bytes:
        number = offset % self._per_file
        path = self._directory / f"{(offset - number) * ENTRY:020d}"
        try:
            return self._files.get(path).read(number * ENTRY, count * ENTRY)
        except FileNotFoundError:  # a running broker has removed it
            return b""

    def __str__(self) -> str:
        return f"consume queue {self.topic}-{self.queue_id}"


def _usual(sizes: Iterable[int], default: int) -> int:
    """Return the most frequent size above 0, which is the configured one; ``default`` if there is none."""
    counted = Counter(filter(None, sizes))
    return counted.most_common(1)[0][0] if counted else default


class StoreFiles:
    """The files of a store directory, to be used in a ``with`` statement.

    :param root: the store directory.
    :param commit_log: directory of the commit log (``storePathCommitLog``); None for ``commitlog`` below ``root``.
    :param fs: where the files are; None for this machine. Nothing is changed there.
    :raises StoreError: there is no store.
    """

    def __init__(self, root: Path, commit_log: Path | None = None, fs: FileSystem | None = None) -> None:
        self.layout = StoreLayout(root, commit_log)
        self.fs: FileSystem = ReadOnlyFileSystem() if fs is None else fs
        self.odd: list[Odd] = []
        if not self.fs.is_directory(self.layout.commit_log):
            place = "no directory commitlog" if commit_log is None else f"no directory {commit_log}"
            raise StoreError(f"{root} is no store: it has {place}; storePathCommitLog can be passed as --commit-log")
        self._queue_files: list[OpenFiles] = []
        self._claim()
        self.was_closed = self.fs.size(self.layout.abort) is None
        """True if the store was closed cleanly, so that nothing may be missing."""
        self.log = self._open_log()

    def _claim(self) -> None:
        """Do what must happen before files are listed: nothing here."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all files. Idempotent."""
        for files in self._queue_files:
            files.close()
        self.log.close()

    def _sizes(self, directory: Path) -> dict[str, int]:
        """Sizes of the segment files in a directory, by name."""
        names = filter(lambda name: segment_start(name) is not None, self.fs.names(directory))
        return {name: self.fs.size(directory / name) or 0 for name in names}

    def _segments(self, directory: Path, size: int) -> list[int]:
        """Start offsets of the segment files that have the expected size."""
        starts, sizes = [], self._sizes(directory)
        self.odd += [Odd(directory / name, "is not a segment file") for name in self.fs.names(directory)
                     if name not in sizes]  # fmt: skip
        for name, found in sizes.items():
            if not found:
                continue  # left by a crash right after its creation; the next start removes it
            if found != size:
                self.odd.append(Odd(directory / name, f"has {found} bytes, others {size}"))
            elif int(name) % size:
                self.odd.append(Odd(directory / name, f"does not begin at a multiple of {size}"))
            else:
                starts.append(int(name))
        return starts

    def _open_log(self) -> CommitLog:
        size = _usual(self._sizes(self.layout.commit_log).values(), 1)
        starts = self._segments(self.layout.commit_log, size)
        log = CommitLog(self.fs, self.layout.commit_log, size)
        log.starts = starts
        log.end = starts[-1] + size if starts else 0
        for before, after in pairwise(starts):
            if after != before + size:
                self.odd.append(Odd(log.path(before + size), f"is missing, and what follows before {after}"))
        return log

    def open_queues(self) -> Iterator[QueueView]:
        """Iterate over all consume queues, opened; a name that cannot be a topic is noted in ``odd``."""
        found = [(topic, int(name), self.layout.queue_directory(topic, int(name))) for topic, name in self._queues()]
        yield from self._views(found)

    def open_topic(self, topic: str) -> list[QueueView]:
        """Return the consume queues of a topic, opened, by queue id; empty if it has none.

        :raises NameIllegal: the topic is not a valid directory name.
        """
        folder, _ = self.layout.topic_directories(topic)
        names = self.fs.names(folder) if self.fs.is_directory(folder) else []
        ids = sorted(int(name) for name in names if name.isascii() and name.isdecimal())
        return list(self._views([(topic, number, folder / str(number)) for number in ids]))

    def topics(self) -> list[str]:
        """Names of the topics that have consume queues of either kind, sorted."""
        roots = self.layout.consume_queue, self.layout.batch_consume_queue
        return sorted({name for root in roots for name in self.fs.names(root) if component_fault(name) is None})

    def _views(self, found: list[tuple[str, int, Path]]) -> Iterator[QueueView]:
        size = _usual((size for *_, directory in found for size in self._sizes(directory).values()), ENTRY)
        files = OpenFiles(self.fs, size, _MOST_OPEN)
        self._queue_files.append(files)
        for topic, queue_id, directory in found:
            starts = [start // ENTRY for start in self._segments(directory, size)]
            view = QueueView(topic, queue_id, directory, starts, files)
            view.raise_minimum(self.log.min_offset)
            yield view

    def _queues(self) -> Iterator[tuple[str, str]]:
        root = self.layout.consume_queue
        for topic in self.fs.names(root):
            fault = component_fault(topic)
            if fault is not None:
                self.odd.append(Odd(root / topic, f"cannot be the folder of a topic: {fault}"))
                continue
            for name in self.fs.names(root / topic) if self.fs.is_directory(root / topic) else ():
                if name.isascii() and name.isdecimal():
                    yield topic, name

    def has_batch_queues(self, topic: str, queue_id: int | None = None) -> bool:
        """True if a topic has batch consume queues; with ``queue_id``, if it has the one with this id."""
        if component_fault(topic) is not None:
            return False
        _, folder = self.layout.topic_directories(topic)
        return self.fs.is_directory(folder if queue_id is None else folder / str(queue_id))
