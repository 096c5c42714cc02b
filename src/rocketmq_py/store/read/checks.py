"""Checks that reads of a store would not wait for the disk.

Each check is of one method of the store, and raises an error with the parts
of files to load before the check is repeated. With None instead of a residency, nothing is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.read.reader import Reader


class StoreChecks:
    """The checks of one store; all raise :class:`~rocketmq_py.store.fs.residency.NotInMemory`.

    :param queue_of: returns the queue of a topic and queue id; None if it does not exist.
    """

    def __init__(self, queue_of: Callable[[str, int], ConsumeQueue | None], reader: Reader, log: CommitLog) -> None:
        self._queue_of = queue_of
        self._reader = reader
        self._log = log

    def entries(self, topic: str, queue_id: int, offset: int, count: int, residency: Residency | None) -> None:
        """Check ``queue_entries`` with the same arguments."""
        queue = self._queue_of(topic, queue_id)
        if queue is not None and residency is not None:
            self._reader.check_entries(queue, offset, count, residency)

    def records(self, places: Iterable[tuple[int, int]], residency: Residency | None) -> None:
        """Check ``message_at``.

        :param places: offset in the log and size of each record.
        """
        if residency is not None:
            self._reader.check_records(places, residency)

    def messages(self, physical_offsets: Sequence[int], residency: Residency | None) -> None:
        """Check ``message_at`` at offsets of the log, where the sizes of records are not known."""
        if residency is not None:
            self._reader.check_messages(physical_offsets, residency)

    def record_at_queue(self, topic: str, queue_id: int, offset: int, residency: Residency | None) -> None:
        """Check ``record_at_queue`` with the same arguments."""
        queue = self._queue_of(topic, queue_id)
        if queue is not None and residency is not None:
            self._reader.check_record_of(queue, offset, residency)

    def store_times(self, places: Iterable[tuple[str, int, int]], residency: Residency | None) -> None:
        """Check ``store_time``.

        :param places: topic, queue id and offset of each message.
        """
        if residency is not None:
            known = [(self._queue_of(topic, queue_id), offset) for topic, queue_id, offset in places]
            self._reader.check_store_times([(queue, at) for queue, at in known if queue is not None], residency)

    def earliest_store_time(self, topic: str, queue_id: int, residency: Residency | None) -> None:
        """Check ``earliest_store_time`` with the same arguments."""
        queue = self._queue_of(topic, queue_id)
        if queue is not None and residency is not None:
            self._reader.check_store_times([(queue, queue.min_offset)], residency)

    def earliest_message_time(self, residency: Residency | None) -> None:
        """Check ``earliest_message_time``."""
        if residency is not None:
            self._log.needs_store_time(self._log.min_offset, residency)
            residency.check()

    def log(self, offset: int, most: int, residency: Residency | None) -> None:
        """Check reads of at most ``most`` bytes from an offset of the log on, those that there are."""
        log = self._log
        if residency is None or offset >= log.hot_from:
            return
        end = min(offset + most, log.end)
        while offset < end:
            stop = min(end, log.next_file(offset))
            log.needs(offset, stop - offset, residency)
            offset = stop
        residency.check()
