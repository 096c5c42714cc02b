"""Dispatch of log records to consume queues and index, for records that already have a queue offset.

Recovery reads such records from its own files; a slave receives them from its master. The queue offset in a record
is authoritative.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rocketmq_py.errors import MessageIllegal
from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.log.scan import Found
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.settings import StoreConfig, delay_levels
from rocketmq_py.wire.java_hash import string_hash

_log = logging.getLogger(__name__)

_ROLLBACK = 0xC
_MOST_NAMED = 16
"""Maximum number of invalid topics that are named in log lines; a master can send any number of them."""

_MAX_GAP = 1_000_000
"""Maximum number of missing messages for which blank entries are written: 20 MB of a consume queue."""
_MAX_QUEUE_OFFSET = 1 << 56
"""The largest queue offset: entries of up to 46 bytes then have positions below 2^63."""


def is_plausible(offset: int, following: int | None) -> bool:
    """Return whether a record can have this queue offset, which it has if the record is not damaged.

    :param following: offset after the queue's last message; None if the queue is empty.
    """
    return 0 <= offset <= _MAX_QUEUE_OFFSET and (following is None or offset - following <= _MAX_GAP)


class RecordDispatch:
    """Adds entries to queues and keys to the index; both stay pending until they are committed.

    :param commit_pending: makes pending entries of the queues in ``touched`` readable; called before a gap in a queue.
    :param recreated: called at a slave, which gets each record once, with the topic of a queue that begins anew because
        the master has deleted the topic and created it again; None anywhere else.
    :param indexed_to: offset of the log up to which the index already has the keys.
    :param scanned_from: offset of the log from which on it is scanned after a crash; None if it is not.
    """

    def __init__(
        self, config: StoreConfig, queues: QueueTable, index: MessageIndex, commit_pending: Callable[[], None],
        recreated: Callable[[str], None] | None = None, *, indexed_to: int = 0, scanned_from: int | None = None,
    ) -> None:  # fmt: skip
        self._queues = queues
        self._recreated = recreated
        self._scanned_from = scanned_from
        self._index = index
        self._commit_pending = commit_pending
        self._indexed_to = indexed_to
        self._delays = delay_levels(config.message_delay_level)
        self.touched: list[ConsumeQueue] = []
        """Queues with pending entries; ``commit_pending`` has to replace the list by an empty one."""
        self.last_timestamp = 0
        """Store timestamp of the newest record that was dispatched, 0 if there was none."""
        self._unusable: set[str] = set()
        self._implausible: set[tuple[str, int]] = set()

    def dispatch(self, found: Found) -> None:
        """Add the entry and the keys of a record; only the keys if the topic cannot have a queue."""
        properties = dispatch_fields.parse(found.properties)
        queue = self._queues.by_key.get((found.topic, found.queue_id)) or self._create(found)
        if queue is not None and dispatch_fields.has_entry(found.sys_flag):
            self._enqueue(queue, found, properties)
        if found.physical_offset > self._indexed_to or not self._indexed_to:
            self._add_keys(found, properties, queue)
        self.last_timestamp = max(self.last_timestamp, found.store_timestamp)

    def index(self, found: Found) -> None:
        """Add only the keys of a record."""
        queue = self._queues.by_key.get((found.topic, found.queue_id))
        self._add_keys(found, dispatch_fields.parse(found.properties), queue)

    def _add_keys(self, found: Found, properties: dict[bytes, bytes], queue: ConsumeQueue | None) -> None:
        if found.sys_flag & _ROLLBACK != _ROLLBACK:
            key_hash = queue.key_hash if queue is not None else string_hash(f"{found.topic}#")
            self._index.add_properties(key_hash, properties, found.physical_offset, found.store_timestamp)

    def rebuild(self, found: Found, queue: ConsumeQueue | None = None) -> None:
        """Add the entry of a record, which must have one, to a queue that is rebuilt; the keys are not added.

        :param queue: gets the entry; None: the queue of the table.
        """
        queue = queue or self._queues.by_key[found.topic, found.queue_id]
        self._enqueue(queue, found, dispatch_fields.parse(found.properties))

    def _is_plausible(self, queue: ConsumeQueue, found: Found) -> bool:
        """Return False, and log an error, for a queue offset that would fill the disk with blank entries.

        Records of a damaged log, or of a hostile master, may have any queue offset.
        """
        if is_plausible(found.queue_offset, None if queue.is_empty else queue.next_offset):
            return True
        name = (found.topic, found.queue_id)
        if name not in self._implausible and len(self._implausible) < _MOST_NAMED:
            self._implausible.add(name)
            _log.error(
                "the record at %d of the commit log has queue offset %d, but queue %d of topic %s ends at %d: it and "
                "others like it are left out of the queue",
                found.physical_offset, found.queue_offset, found.queue_id, found.topic, queue.next_offset,
            )  # fmt: skip
        return False

    def _begun_anew(self, queue: ConsumeQueue, found: Found) -> ConsumeQueue | None:
        """Return the empty queue of a topic that was deleted, with the files of its queues, and created again.

        :param found: the record with queue offset 0 that says so, if all entries of ``queue`` are older.
        :returns: None if the queue has the record.
        """
        if self._recreated is not None:
            self._commit_pending()
            if queue.is_unfinished or queue.last_physical_end() > found.physical_offset:
                return None
            _log.warning("%s begins anew: the master has deleted its topic and created it again", queue)
            self._recreated(queue.topic)
            return self._queues.renew(queue)
        if self._is_of_log_only(queue):
            self._commit_pending()
            return self._queues.replace(queue)
        return None

    def _is_of_log_only(self, queue: ConsumeQueue) -> bool:
        """True if all entries of a queue come from the log that is being read: its files had none."""
        if (queue.topic, queue.queue_id) in self._queues.damaged:
            return True
        if self._scanned_from is None:
            return False
        self._commit_pending()
        first = queue.entry_queue.entry(queue.entry_queue.min_offset)
        return first is not None and first[0] >= self._scanned_from

    def _create(self, found: Found) -> ConsumeQueue | None:
        try:
            return self._queues.create(
                found.topic, found.queue_id, batched=dispatch_fields.is_inner_batch(found.sys_flag)
            )
        except MessageIllegal as e:
            self._warn(found, e)
            return None

    def _warn(self, found: Found, error: MessageIllegal) -> None:
        """Warn once for each topic, up to a maximum number of topics."""
        if found.topic in self._unusable or len(self._unusable) > _MOST_NAMED:
            return
        self._unusable.add(found.topic)
        if len(self._unusable) > _MOST_NAMED:
            _log.warning("further topics of records without consume queues are not named")
            return
        _log.warning(
            "the record at %d of the commit log and all others of its topic have no consume queue: %s",
            found.physical_offset, error,
        )  # fmt: skip

    def _enqueue(self, queue: ConsumeQueue, found: Found, properties: dict[bytes, bytes]) -> None:
        if found.queue_offset != queue.next_offset:
            if found.queue_offset == 0 and (empty := self._begun_anew(queue, found)) is not None:
                queue = empty
            elif found.queue_offset < queue.next_offset and not queue.is_empty:
                return
            if not self._is_plausible(queue, found):
                return
            self._commit_pending()
            queue.skip_to(found.queue_offset)
        if not queue.pending:
            self.touched.append(queue)
        code = dispatch_fields.stored_tags_code(found.topic, properties, found.store_timestamp, self._delays)
        count = dispatch_fields.inner_count(found.sys_flag, properties) if queue.is_batched else 1
        queue.add(found.physical_offset, found.size, code, count)
