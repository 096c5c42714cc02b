"""What can be read from a store, by everybody who asks it.

Knows that what was appended is settled before anybody reads, and who answers which question. Refuses to know how
messages come in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from rocketmq_py.errors import ClosedError
from rocketmq_py.store.fs.layout import StoreLayout
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.scan import Found, LogScan
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.read.reader import Accepts, MessageFilter, Reader
from rocketmq_py.store.read.tag_search import offsets_by_tag
from rocketmq_py.store.settings import StoreConfig
from rocketmq_py.store.write.dispatch_fields import tags_code
from rocketmq_py.store.write.records import Boundary, GetResult, QueryResult


class StoreReads(ABC):
    """The reading half of :class:`~rocketmq_py.store.MessageStore`."""

    config: StoreConfig
    layout: StoreLayout
    _is_open: bool
    _commit_log: CommitLog
    _queues: QueueTable
    _index: MessageIndex
    _reader: Reader

    @abstractmethod
    def _commit_pending(self) -> OSError | None:
        """Write what was appended and make it readable; what was against it."""

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        if not self._is_open:
            raise ClosedError(f"the store {self.layout.root} is closed")
        self._commit_pending()
        return self._queues.by_key.get((topic, queue_id))

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        accepts: Accepts | None = None,
        max_bytes: int | None = None,
        message_filter: MessageFilter | None = None,
        allow_view: bool = False,
        bulk: bool = False,
    ) -> GetResult:
        """Messages of a queue from ``offset`` on, by Java's rules and limits.

        :param accepts: tells by the tags code whether a message may be wanted.
        :param message_filter: tells by the record's bytes whether it is.
        :param allow_view: whether the body may be a view of the log instead of a copy; it keeps that part mapped.
        :param bulk: whether ``max_count`` alone limits their number, whatever the settings say; their bytes are
            limited as ever.
        """
        queue = self._queue(topic, queue_id)
        return self._reader.get(queue, offset, max_count, max_bytes, accepts, message_filter, allow_view, bulk)

    def has_queue(self, topic: str, queue_id: int) -> bool:
        return self._queue(topic, queue_id) is not None

    def queues(self) -> list[tuple[str, int]]:
        """Topic and id of every queue that has or had messages."""
        return list(self._queues.by_key)

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The smallest offset there is, and the one the next message gets; (0, 0) for an unknown queue."""
        queue = self._queue(topic, queue_id)
        return (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = Boundary.LOWER) -> int:
        """The offset that belongs to a store time: LOWER the first not before it, UPPER the last not after it."""
        queue = self._queue(topic, queue_id)
        return self._reader.offset_by_time(queue, timestamp, boundary) if queue is not None else 0

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored, milliseconds; -1 when there is none."""
        queue = self._queue(topic, queue_id)
        return self._reader.store_time(queue, offset) if queue is not None else -1

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """When the oldest message of a queue was stored; -1 when there is none."""
        queue = self._queue(topic, queue_id)
        return self._reader.store_time(queue, queue.min_offset) if queue is not None else -1

    def earliest_message_time(self) -> int:
        """When the oldest message of the log was stored; -1 when there is none."""
        self._commit_pending()
        return self._commit_log.store_time(self._commit_log.min_offset)

    def message_at(self, physical_offset: int, size: int | None = None) -> bytes | None:
        """The record at an offset of the log; None when there is none."""
        if physical_offset >= self._commit_log.end:  # otherwise it is there: what else was appended may wait
            self._commit_pending()
        return self._reader.message_at(physical_offset, size)

    def physical_offset(self, topic: str, queue_id: int, offset: int) -> int | None:
        """Where in the log the message at an offset of a queue is; None when there is none, or none readable yet.

        Other than the reads around it this settles nothing: for the way in, where many appends are settled together.
        """
        queue = self._queues.by_key.get((topic, queue_id))
        entry = queue.entry(offset) if queue is not None else None
        return None if entry is None else entry[0]

    def record_at_queue(self, topic: str, queue_id: int, offset: int) -> bytes | None:
        """The record at an offset of a queue; None when there is none."""
        queue = self._queue(topic, queue_id)
        return self._reader.record_of(queue, offset) if queue is not None else None

    def queue_entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int]]:
        """Physical offset, size and tags code of messages of a queue."""
        queue = self._queue(topic, queue_id)
        return list(queue.entries(offset, count)) if queue is not None else []

    def in_memory(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message exists and is near enough to the end of the log to be in memory."""
        queue = self._queue(topic, queue_id)
        return queue is not None and self._reader.in_memory(queue, offset)

    def query(self, topic: str, key: str, max_num: int, begin: int, end: int) -> QueryResult:
        """Records filed under a key and stored between ``begin`` and ``end``; a hash may bring in another key's."""
        self._commit_pending()
        return self._reader.query(topic, key, max_num, begin, end)

    def query_by_tag(self, topic: str, tag: str, max_num: int, begin: int, end: int) -> QueryResult:
        """The newest records with a tag, stored between ``begin`` and ``end``, by hash as in :meth:`query`."""
        self._commit_pending()
        limit = min(max_num, self.config.max_msgs_num_batch)
        offsets = offsets_by_tag(self._reader, self._queues.of_topic(topic), tags_code(tag.encode()), limit, begin, end)
        records = [record for record in map(self._reader.message_at, offsets) if record is not None]
        return QueryResult(b"".join(records), len(records), self._index.end_timestamp, self._index.end_physical)

    def log_view(self, offset: int, most: int) -> memoryview | None:
        """Bytes of the commit log as they lie there, from ``offset`` on, at most so many and of one file; None at its
        end, and where it has nothing.

        Other than the reads around it this settles nothing. The view keeps its file mapped.
        """
        return self._commit_log.view(offset, most)

    @property
    def min_physical_offset(self) -> int:
        """Where the commit log begins."""
        return self._commit_log.min_offset

    def scan(self, start: int) -> Iterator[Found]:
        """The records of the commit log from ``start`` on, a place where one begins; without looking at checksums."""
        self._commit_pending()
        return iter(LogScan(self._commit_log, start, check_crc=False))

    @property
    def max_physical_offset(self) -> int:
        """Where the commit log ends, appends that are not settled included."""
        self._commit_pending()
        return self._commit_log.end
