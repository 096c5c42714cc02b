"""All consume queues of a store.

Knows which topics and queues there are on disk and in memory. Refuses to know permissions and topic configurations.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rocketmq_py.core.paths import component_fault, quoted_name
from rocketmq_py.errors import MessageIllegal
from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.fs.layout import StoreLayout, segment_start
from rocketmq_py.store.fs.open_files import OpenFiles
from rocketmq_py.store.log.confirm_offset import Entries
from rocketmq_py.store.queue.batch_consume_queue import BatchConsumeQueue
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.settings import StoreConfig

_log = logging.getLogger(__name__)

_SPILL_AT = 16 * 1024
"""Bytes of a tail worth a write of its own."""


class QueueTable:
    """The consume queues by ``(topic, queue_id)``.

    :param is_batched: tells of a topic whether its new queues are batch consume queues.
    :param stored_at: the store time of the record at an offset of the log.
    """

    def __init__(
        self, fs: FileSystem, layout: StoreLayout, config: StoreConfig, is_batched: Callable[[str], bool],
        stored_at: Callable[[int], int],
    ) -> None:  # fmt: skip
        self._fs = fs
        self._layout = layout
        self._is_batched = is_batched
        self._stored_at = stored_at
        self._files = OpenFiles(fs, config.consume_queue_file_size, config.max_open_queue_files)
        self._batch_files = OpenFiles(fs, config.batch_queue_file_size, config.max_open_queue_files)
        self.by_key: dict[tuple[str, int], ConsumeQueue] = {}
        self._ids: dict[str, set[int]] = {}
        """The ids of the queues of a topic."""

    def create(self, topic: str, queue_id: int, *, batched: bool = False) -> ConsumeQueue:
        """A new, empty queue of the kind its topic wants; its directory appears with its first file.

        :param batched: it is known to be a batch consume queue, whatever became of its topic.
        :raises MessageIllegal: the topic cannot be the name of a folder.
        """
        fault = component_fault(topic)
        if fault is not None:
            raise MessageIllegal(f"topic {quoted_name(topic)} cannot have a consume queue: {fault}")
        queue = self._make(topic, queue_id, batched=batched or self._is_batched(topic))
        self._add(queue)
        return queue

    def _add(self, queue: ConsumeQueue) -> None:
        self.by_key[queue.topic, queue.queue_id] = queue
        self._ids.setdefault(queue.topic, set()).add(queue.queue_id)

    def _make(self, topic: str, queue_id: int, *, batched: bool) -> ConsumeQueue:
        if batched:
            directory = self._layout.batch_queue_directory(topic, queue_id)
            return BatchConsumeQueue(topic, queue_id, directory, self._batch_files, self._stored_at)
        return ConsumeQueue(topic, queue_id, self._layout.queue_directory(topic, queue_id), self._files)

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        return self.by_key.get((topic, queue_id)) or self.create(topic, queue_id)

    def load(self, physical_start: int, physical_end: int | None = None) -> int:
        """Open every queue on disk; where the newest message of all of them ends in the log, -1 when there is none.

        :param physical_start: where the log begins; minimums move to what it still has.
        :param physical_end: cut entries of messages beyond this point of the log; None trusts all of them.
        :raises StoreCorrupt: a file has another size than configured.
        """
        newest = -1
        # Queue by queue, since only few of their files can be open at once.
        for topic, queue_id, batched in self._on_disk():
            queue = self._make(topic, queue_id, batched=batched)
            self._add(queue)
            if physical_end is None:
                queue.load()
            else:
                queue.load_below(physical_end)
            queue.raise_minimum(physical_start)
            newest = max(newest, queue.last_physical_end())
        return newest

    def _on_disk(self) -> Iterator[tuple[str, int, bool]]:
        """Topic and id of every queue, and whether it is a batch consume queue."""
        for root, batched in ((self._layout.consume_queue, False), (self._layout.batch_consume_queue, True)):
            yield from ((topic, queue_id, batched) for topic, queue_id in self._below(root))

    def _below(self, root: Path) -> Iterator[tuple[str, int]]:
        for topic in self._fs.names(root):
            fault = component_fault(topic)
            if fault is not None:
                _log.warning("folder %s of %s is that of no topic, ignored: %s", quoted_name(topic), root, fault)
                continue
            for name in self._fs.names(root / topic) if self._fs.is_directory(root / topic) else ():
                if name.isascii() and name.isdecimal():
                    yield topic, int(name)
                else:
                    _log.warning("%s is no consume queue, ignored", root / topic / name)

    def commit_pending(self, touched: Iterable[ConsumeQueue]) -> None:
        """Make pending entries of these queues readable; long tails go to their files.

        :raises OSError: the disk is full or fails; everything is readable nevertheless.
        """
        long = []
        for queue in touched:
            queue.commit_pending()
            if len(queue.tail) >= _SPILL_AT:
                long.append(queue)
        # Afterwards, so that a disk that fails leaves no queue behind.
        for queue in long:
            queue.spill()

    def publish(self, entries: Iterable[Entries]) -> None:
        """As :meth:`commit_pending`, for entries held back so far; what is of a queue removed since is dropped.

        :raises OSError: the disk is full or fails; everything is readable nevertheless.
        """
        long = []
        for queue, flat, next_offset in entries:
            if self.by_key.get((queue.topic, queue.queue_id)) is queue:
                queue.publish(flat, next_offset)
                long.append(queue)
        for queue in long:
            if len(queue.tail) >= _SPILL_AT:
                queue.spill()

    def spill(self) -> None:
        """Write every tail to its files."""
        for queue in self.with_tail():
            queue.spill()

    def with_tail(self) -> list[ConsumeQueue]:
        """The queues that have entries not yet in their files."""
        return [queue for queue in self.by_key.values() if queue.tail]

    def truncate(self, physical_end: int) -> None:
        """Cut entries of messages beyond ``physical_end`` of the log."""
        for queue in self.by_key.values():
            queue.truncate(physical_end)

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """The queues of a topic, by their ids."""
        return [self.by_key[topic, queue_id] for queue_id in sorted(self._ids.get(topic, ()))]

    def remove_topic(self, topic: str) -> None:
        """Remove the queues of a topic with their files; the commit log keeps its records until they expire.

        Nothing is removed of a topic that has no queue here, and no file that is not one of a queue.
        """
        ids = self._ids.pop(topic, None)
        if ids is None:
            return
        for queue_id in ids:
            self.by_key.pop((topic, queue_id)).remove_files()
        for folder in self._layout.topic_directories(topic):
            for queue_id in ids:
                self._remove_rest(folder / str(queue_id))
            self._fs.remove_empty(folder)

    def _remove_rest(self, directory: Path) -> None:
        """Remove the folder of a queue with files that the queue did not use, such as those of a kind it was before."""
        for name in self._fs.names(directory):
            if segment_start(name) is not None:
                self._fs.remove(directory / name)
            else:
                _log.warning("%s is no consume queue file and stays", directory / name)
        self._fs.remove_empty(directory)

    def clear(self) -> None:
        """Remove every queue."""
        for topic in list(self._ids):
            self.remove_topic(topic)

    def take_dirty(self) -> list[Path]:
        """Files written since the last call."""
        return self._files.take_dirty() + self._batch_files.take_dirty()

    def close(self) -> None:
        self._files.close()
        self._batch_files.close()
