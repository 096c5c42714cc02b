"""The file ``queueends``: first and last entry and checksums of all consume queues, as of the last flush of the queues.

With it the next start notices queue files that are missing, short or damaged, even the last file of a queue, and no
queue offset is assigned twice. Java brokers ignore the file. Its first line is the CRC-32 of the rest, which is JSON.

``queueends.bak`` has the same content, because without it only the whole log tells where the queues end. It is written
first: after a crash in between it is the newer one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable
from pathlib import Path
from zlib import crc32

import msgspec

from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.queue.consume_queue import ConsumeQueue

_log = logging.getLogger(__name__)

Key = tuple[str, int]


class QueueEnd(msgspec.Struct, array_like=True, gc=False):
    """The entries of a queue that are in its files.

    :ivar first: number of the first entry in the first file.
    :ivar end: number after the last entry; in a batch consume queue entries are units.
    :ivar next_offset: queue offset after the last message.
    :ivar checksums: CRC-32 of the entries in each file, by the number of its first entry; some files may be absent.
    :ivar is_unfinished: whether the rebuild of the queue has not ended: its files may lack entries.
    """

    topic: str
    queue_id: int
    batched: bool
    first: int
    end: int
    next_offset: int
    checksums: dict[int, int]
    is_unfinished: bool = False


class QueueEnds(msgspec.Struct):
    """Content of the file: the entries that each queue has in its files.

    :ivar log_begin: minimum offset of the commit log; -1 if unknown.
    :ivar log_end: offset of the log before which all messages are counted; -1 if unknown.
    :ivar file_size: size of consume queue files, and ``batch_file_size`` of those of batch consume queues.
    """

    log_begin: int = -1
    file_size: int = 0
    batch_file_size: int = 0
    queues: list[QueueEnd] = []
    log_end: int = -1

    def by_key(self) -> dict[Key, QueueEnd]:
        """Return the items of ``queues`` by topic and queue id."""
        return {(end.topic, end.queue_id): end for end in self.queues}


class QueueEndsFile:
    """Reads and writes both files; the flush thread saves, other threads write deletions, the store's does the rest."""

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self._fs = fs
        self._path = path
        self._copy = copy_of(path)
        self._is_complete = False
        """Whether both files have the content that was saved last."""
        self._lock = threading.Lock()
        self._saved: QueueEnds | None = None
        self._version = 0
        self._deleted: dict[str, int] = {}
        """Deleted topics, and the version from which on a snapshot can have them again."""
        self._written = 0
        """The version up to which deleted topics are no longer in the file."""

    @property
    def is_known(self) -> bool:
        """False if both files were missing or damaged when they were loaded, and were not written since."""
        return self._saved is not None

    def load(self) -> QueueEnds:
        """Content of the newer file; without queues if both are missing or damaged."""
        first, second = self._fs.read(self._path), self._fs.read(self._copy)
        self._is_complete = first == second
        copy = self._parsed(self._copy, second)
        ends = copy if self._is_complete else self._parsed(self._path, first)
        whole = [one for one in (copy, ends) if one is not None]
        if not whole:
            return QueueEnds()
        if ends is None:
            _log.warning("%s is lost or damaged: %s is used", self._path, self._copy)
        self._saved = max(whole, key=lambda one: one.log_end)
        return self._saved

    @staticmethod
    def _parsed(path: Path, data: bytes | None) -> QueueEnds | None:
        if data is None:
            return None
        checksum, _, text = data.partition(b"\n")
        if checksum != b"%08x" % crc32(text):
            _log.warning("%s is ignored: its checksum is wrong", path)
            return None
        try:
            return msgspec.json.decode(text, type=QueueEnds)
        except msgspec.DecodeError as e:  # of another version
            _log.warning("%s is ignored: %s", path, e)
            return None

    def snapshot(
        self, queues: Iterable[ConsumeQueue], log_begin: int, file_size: int, batch_file_size: int, log_end: int = -1
    ) -> tuple[int, QueueEnds]:
        """Return the present ends of all queues, with a version number, as the argument of :meth:`save`.

        :param log_end: offset of the log before which the queues have all messages.
        """
        ends = [_end_of(queue) for queue in queues if queue.max_offset]
        return self._version, QueueEnds(log_begin, file_size, batch_file_size, ends, log_end)

    def save(self, snapshot: tuple[int, QueueEnds]) -> None:
        """Write a snapshot, without the topics deleted since it was taken.

        :raises OSError: the disk is full or fails; the previous content stays.
        """
        version, ends = snapshot
        with self._lock:
            ends.queues = [end for end in ends.queues if self._deleted.get(end.topic, 0) <= version]
            if ends != self._saved or not self._is_complete:
                self._write(ends)
            self._written = max(self._written, version)

    def delete(self, topic: str) -> None:
        """Note that a topic is deleted; :meth:`write_deletions` removes it from the file."""
        self._version += 1
        self._deleted[topic] = self._version

    def write_deletions(self) -> None:
        """Remove deleted topics from the file, so that the next start does not take their queues for missing.

        Call this before queue files of such a topic are removed. It blocks until the file is on disk, and may be called
        in any thread. An error is logged.
        """
        if self._written == self._version:
            return
        with self._lock:
            version, saved = self._version, self._saved
            deleted = {topic for topic, at in self._deleted.copy().items() if at > self._written}
            self._written = max(self._written, version)
            if saved is None or not any(end.topic in deleted for end in saved.queues):
                return
            kept = [end for end in saved.queues if end.topic not in deleted]
            try:
                self._write(msgspec.structs.replace(saved, queues=kept))
            except OSError as e:
                names = ", ".join(sorted(deleted))
                _log.error("the ends of the queues still have topics %s, which a crash can bring back: %s", names, e)

    def mark_unfinished(self, keys: Collection[Key]) -> None:
        """Note in the file that the entries of these queues are being rebuilt; before that, it must have been loaded.

        :raises OSError: the disk is full or fails.
        """
        saved = self._saved or QueueEnds()
        queues = [
            msgspec.structs.replace(end, is_unfinished=True) if (end.topic, end.queue_id) in keys else end
            for end in saved.queues
        ]
        self._write(msgspec.structs.replace(saved, queues=queues))

    def clear(self) -> None:
        """Remove both files."""
        self._saved = None
        self._fs.remove(self._copy)
        self._fs.remove(self._path)

    def _write(self, ends: QueueEnds) -> None:
        text = msgspec.json.encode(ends)
        content = b"%08x\n" % crc32(text) + text
        self._is_complete = False
        self._fs.write(self._copy, content)
        self._fs.write(self._path, content)
        self._saved, self._is_complete = ends, True


def copy_of(path: Path) -> Path:
    """Path of the second file with the same content."""
    return path.with_name(f"{path.name}.bak")


def _end_of(queue: ConsumeQueue) -> QueueEnd:
    if queue.is_unfinished:
        first, end = queue.min_offset, queue.max_offset
        return QueueEnd(queue.topic, queue.queue_id, queue.is_batched, first, end, end, {}, is_unfinished=True)
    plain = queue.entry_queue
    return QueueEnd(
        queue.topic, queue.queue_id, queue.is_batched, plain.first_entry, plain.tail_start, queue.max_offset,
        dict(plain.checksums),
    )  # fmt: skip
