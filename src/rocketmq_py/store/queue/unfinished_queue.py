"""A consume queue whose entries are being rebuilt from the commit log while the store is open.

It continues at the known end of the queue, so that no queue offset is assigned twice, and keeps no entries: a pass over
the log (``store.rebuild``) finds those of old and of new messages in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NoReturn

from rocketmq_py.errors import QueueRebuilding
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.queue.batch_consume_queue import BatchConsumeQueue
from rocketmq_py.store.queue.consume_queue import ConsumeQueue, Entry


class UnfinishedQueue(ConsumeQueue):
    """The queue until its rebuild has ended; each read of entries raises :class:`QueueRebuilding`.

    :ivar whole: the queue that gets the entries, in the order of the log, and takes the place of this one at the end.
    """

    is_unfinished: ClassVar = True

    __slots__ = ("whole",)

    def __init__(self, whole: ConsumeQueue, first: int, next_offset: int) -> None:
        """Make a queue that continues at ``next_offset``.

        :param whole: an empty queue of this topic and queue id.
        :param first: an offset at or before that of the first message that the log still has.
        """
        self.whole = whole
        super().__init__(whole.topic, whole.queue_id, whole._root, whole._files)  # noqa: SLF001 - of its own class
        self.min_offset = min(first, next_offset)
        self.max_offset = self.next_offset = next_offset

    def restart(self) -> None:
        """Remove all entries that were rebuilt; none of them may be pending."""
        self.whole.remove_files()
        self.whole.begin_at(0)

    # -- writing

    def commit_pending(self) -> None:
        self.pending = []
        self.max_offset = self.next_offset

    def publish(self, flat: list[int], next_offset: int) -> None:
        del flat
        self.max_offset = next_offset

    def skip_to(self, offset: int) -> None:
        self.max_offset = self.next_offset = offset

    # -- reading

    def _refuse(self) -> NoReturn:
        raise QueueRebuilding.of(self.topic, self.queue_id)

    def read(self, offset: int, count: int) -> bytes:
        del offset, count
        self._refuse()

    def read_if_resident(self, offset: int, count: int) -> bytes | None:
        del offset, count
        self._refuse()

    def entry(self, offset: int) -> Entry | None:
        if not self.min_offset <= offset < self.max_offset:
            return None
        self._refuse()

    def entries(self, offset: int, count: int) -> Iterator[Entry]:
        del offset, count
        self._refuse()

    def skip_blanks(self, offset: int, end: int, residency: Residency | None = None) -> int:
        del offset, end, residency
        self._refuse()

    def last_physical_end(self) -> int:
        return -1

    # -- loading and truncating

    def truncate(self, physical_end: int) -> None:
        """Do nothing: the end stays, and entries come from what the log has."""

    def raise_minimum(self, physical_start: int, residency: Residency | None = None) -> None:
        """Do nothing: the minimum stays at or before that of the log."""

    def remove_files(self) -> None:
        self.whole.remove_files()


class UnfinishedBatchQueue(UnfinishedQueue):
    """The same for a batch consume queue."""

    is_batched: ClassVar = True

    __slots__ = ("_whole_units",)

    def __init__(self, whole: BatchConsumeQueue, next_offset: int) -> None:
        """Make a queue that continues at ``next_offset``; that of its first message is not known."""
        super().__init__(whole, 0, next_offset)
        self._whole_units = whole

    def add(self, physical: int, size: int, tags_code: int, count: int = 1) -> None:
        # An entry that still waits for its flush when the rebuild ends is published by the whole queue.
        self._whole_units.note_count(physical, count)
        super().add(physical, size, tags_code, count)
