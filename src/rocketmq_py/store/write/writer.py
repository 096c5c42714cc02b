"""The writer: turns new messages into records of the commit log, entries of consume queues and keys of the index.

An append assigns offsets immediately; the bytes are buffered and written together by :meth:`Writer.flush`. The record
layout is that of ``wire.record``; the fixed part is packed here in one call because this is the hot path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

import msgspec

from rocketmq_py.accelerator import Accelerator, RunQueue, RunTarget, SendRun
from rocketmq_py.errors import MessageIllegal, StoreNotWritable
from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.log.commit_log import BLANK_SIZE, CommitLog
from rocketmq_py.store.queue.batch_consume_queue import MAX_UNIT_MESSAGES
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.queue.lent_queues import LentQueues, TargetOf
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.queue.runs import AppendedRun, KindTarget
from rocketmq_py.store.settings import StoreConfig
from rocketmq_py.store.write.batches import encode_uniform, split, uniform_messages
from rocketmq_py.store.write.records import Appended, AppendedBatch, NewBatch, NewRecord, UniformBatch
from rocketmq_py.wire.record import BORN_HOST_V6, STORE_HOST_V6, head_struct

MAX_PROPERTIES = 32767
TRANSACTION_MASK = 0xC
TRANSACTION_PREPARED = 0x4
TRANSACTION_ROLLBACK = 0xC
_CRC_MASK = 0x7FFFFFFF
_READY = 4096
_LENGTHS = [n.to_bytes(2, "big") for n in range(_READY)]


EncodeRecord = Callable[[RunQueue, bytes, tuple[int, int, int], tuple[int, int]], tuple[bytes, bytes] | None]
"""Returns a record and its unique key, given the queue, the store host, the place and the limits, as
:meth:`Accelerator.ack_record`; None if it does not fit."""


def _length(properties: bytes) -> bytes:
    return len(properties).to_bytes(2, "big")


def _run_queue(queue: ConsumeQueue) -> RunQueue:
    return queue.queue_id, queue.magic, queue.topic_part, queue.next_offset, queue.key_hash


def _cannot_grow(error: OSError) -> StoreNotWritable:
    return StoreNotWritable(f"the commit log cannot grow: {error}")


class Writer:
    """Appends messages to the log, the queues and the index of one store.

    :param store_host: this broker's address, packed, 8 or 20 bytes.
    :param clock: returns milliseconds since the epoch.
    :param accelerator: encodes batches; None encodes them in Python.
    """

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        queues: QueueTable,
        index: MessageIndex,
        store_host: bytes,
        clock: Callable[[], int],
        accelerator: Accelerator | None = None,
    ) -> None:
        self._lent = queues.lent
        if queues.lent is not None:
            queues.lent.begin(self.append_lent, self._touch)
        self._encode_batch = accelerator.encode_batch if accelerator is not None else None
        self._config = config
        self._log = log
        self._queues = queues
        self._index = index
        self._waiting, self._packed_keys = index.waiting.fields, index.packed
        self._host = store_host
        self._host_flag = STORE_HOST_V6 if len(store_host) > 8 else 0
        self._head = head_struct(self._host_flag)
        self._overhead = self._head.size + 2
        self.reload_limits()
        self._clock = clock
        self._now = 0
        self.last_timestamp = 0
        self._start = 0  # start offset of the file being written
        self._written = 0  # position in that file up to which bytes are written
        self._position = 0  # position after the last append
        self._limit = -1  # position that an append may reach on the fast path
        self._chunks: list[bytes | bytearray] = []
        self.touched: list[ConsumeQueue] = []
        self._refusal: str | None = "it is not open"

    # -- state

    def _touch(self, queue: ConsumeQueue) -> None:
        """Note that a queue has pending entries."""
        self.touched.append(queue)

    def reload_limits(self) -> None:
        """Apply a changed ``max_message_size``."""
        # A record up to this size breaks no limit, so that the fast path needs one comparison.
        self._usual_size = min(MAX_PROPERTIES, self._config.max_message_size)

    def resume(self, end: int, last_timestamp: int) -> None:
        """Accept appends, and continue writing at offset ``end`` of the log.

        :param last_timestamp: minimum of the store timestamps of further records, in milliseconds.
        """
        self._start = end - end % self._log.file_size
        self._written = self._position = end - self._start
        self.last_timestamp = last_timestamp
        self._refusal = None

    def refuse(self, why: str) -> None:
        """Refuse further appends with :class:`StoreNotWritable`, which names ``why``."""
        self._refusal = why
        self._limit = -1

    def allow(self) -> None:
        """Accept appends again."""
        self._refusal = None

    @property
    def refusal(self) -> str | None:
        """Reason why appends are refused, None if they are accepted."""
        return self._refusal

    def now(self) -> int:
        """Store timestamp of appends until the next :meth:`flush` or :meth:`end_turn`; it never decreases."""
        now = self._now
        if not now:
            now = self._now = self.last_timestamp = max(self._clock(), self.last_timestamp)
        return now

    def end_turn(self) -> bool:
        """If nothing was appended since the last :meth:`flush`, return True, and take the time anew for what is
        appended next.
        """
        if self.touched or self._chunks or (self._lent is not None and self._lent.is_ahead):
            return False
        self._now = 0
        return True

    @property
    def appended_end(self) -> int:
        """Offset in the log after the last append, which may be pending."""
        return self._start + self._position

    # -- appending

    def append(self, record: NewRecord) -> Appended:
        """Append one message.

        :raises MessageIllegal: the message is too large, or its topic is not a valid directory name.
        :raises StoreNotWritable: the store refuses writes.
        """
        if record.sys_flag & TRANSACTION_PREPARED or len(record.born_host) != 8:  # also set for rollbacks
            return self._append_unusual(record)
        queue = self._queues.by_key.get((record.topic, record.queue_id)) or self._queues.create(
            record.topic, record.queue_id
        )
        body, properties = record.body, record.properties
        body_size, properties_size = len(body), len(properties)
        size = self._overhead + body_size + len(queue.topic_part) + properties_size
        position = self._position
        if position + size > self._limit or size > self._usual_size:
            position = self._make_room(size, body_size, properties_size)
        now = self._now or self.now()
        physical = self._start + position
        offset = queue.next_offset
        self._chunks += (
            self._head.pack(
                size, queue.magic, crc32(body) & _CRC_MASK, record.queue_id, record.flag, offset, physical,
                record.sys_flag | self._host_flag, record.born_timestamp, record.born_host, now, self._host,
                record.reconsume_times, record.prepared_transaction_offset, body_size,
            ),
            body, queue.topic_part, _LENGTHS[properties_size] if size < _READY else _length(properties), properties,
        )  # fmt: skip
        self._position = position + size
        queue.next_offset = offset + 1
        pending = queue.pending
        if not pending:
            self.touched.append(queue)
        pending += (physical, size, record.tags_code)
        if record.uniq_key is not None:
            self._waiting += (queue.key_hash, record.uniq_key.encode(), physical, now)
        if record.keys:
            self._index.add_words(queue.key_hash, record.keys.encode(), physical, now)
        return Appended(offset, physical, now, size)

    def append_encoded(self, topic: str, queue_id: int, tags_code: int, encode: EncodeRecord) -> Appended | None:
        """Append one message whose record the accelerator encodes; None if it must be appended by :meth:`append`."""
        queue = self._queues.by_key.get((topic, queue_id))
        position = self._position
        room = self._limit - position
        if queue is None or queue.is_batched or room <= 0:
            return None
        now, physical, offset = self._now or self.now(), self._start + position, queue.next_offset
        encoded = encode(
            (queue.queue_id, queue.magic, queue.topic_part, offset, queue.key_hash),
            self._host,
            (now, physical, room),
            (self._config.max_message_size, MAX_PROPERTIES),
        )
        if encoded is None:
            return None
        record, uniq_key = encoded
        size = len(record)
        self._chunks.append(record)
        self._position = position + size
        queue.next_offset = offset + 1
        pending = queue.pending
        if not pending:
            self.touched.append(queue)
        pending += (physical, size, tags_code)
        self._waiting += (queue.key_hash, uniq_key, physical, now)
        return Appended(offset, physical, now, size)

    def append_run(
        self, run: SendRun, begin: int, kinds: Sequence[KindTarget | None], born_host: bytes, suffix: bytes
    ) -> AppendedRun | None:
        """Append sends of a run together, from index ``begin`` on; the records are those of :meth:`append`.

        :param kinds: topic and queue of each kind of sends in the run; None for kinds that must be appended singly.
        :param suffix: encoded properties that are appended to those of each message.
        :returns: what was appended; None if the first must be appended singly.
        """
        room = self._limit - self._position
        if room <= 0 or len(born_host) != 8:
            return None
        queues, targets = self._run_targets(kinds)
        appended = run.append(
            begin, targets, [(q.queue_id, q.magic, q.topic_part, q.next_offset, q.key_hash) for q in queues],
            (born_host, self._host), suffix, (self._now or self.now(), self._start + self._position, room),
            (self._config.max_message_size, MAX_PROPERTIES),
        )  # fmt: skip
        if appended is None:
            return None
        stop, records, entries, keys, answers, halves = appended
        self._take_encoded(records, keys)
        touched = self.touched.append
        for queue, flat in zip(queues, entries, strict=True):
            if not flat:
                continue
            if queue.pending:
                queue.pending += flat
            else:
                touched(queue)
                queue.pending = flat
            queue.next_offset += len(flat) // 3
        return AppendedRun(stop, answers, halves)

    def append_lent(
        self, run: SendRun, begin: int, target_of: TargetOf, born_host: bytes, suffix: bytes
    ) -> AppendedRun | None:
        """As :meth:`append_run`, to queues that are lent to the accelerator, or can be.

        :returns: what was appended; None if that must be done by :meth:`append_run`.
        """
        lent, room = self._lent, self._limit - self._position
        if lent is None or room <= 0 or len(born_host) != 8:
            return None
        hosts, limits = (born_host, self._host), (self._config.max_message_size, MAX_PROPERTIES)
        place = self._now or self.now(), self._start + self._position, room
        appended = lent.native.append(run, begin, hosts, suffix, place, limits)
        if isinstance(appended, list):
            if not all(lent.lend(one) or self._teach(lent, run, one[0], target_of) for one in appended):
                return None
            appended = lent.native.append(run, begin, hosts, suffix, place, limits)
        if appended is None or isinstance(appended, list):
            return None
        stop, records, keys, answers = appended
        lent.is_ahead = True
        self._take_encoded(records, keys)
        return AppendedRun(stop, answers, ())

    def _teach(self, lent: LentQueues, run: SendRun, number: int, target_of: TargetOf) -> bool:
        """Tell the accelerator what messages of a kind of a run become, and lend it the queue; False if that fails."""
        kind = run.kind(number)
        target = target_of(kind)
        if target is None or kind[:2] != (target.topic, target.queue_id):
            return False
        queue = dict.get(self._queues.by_key, (target.topic, target.queue_id))  # which may stay lent
        return queue is not None and lent.teach(run, number, target, queue)

    def _run_targets(self, kinds: Sequence[KindTarget | None]) -> tuple[list[ConsumeQueue], list[RunTarget | None]]:
        """Return the queues of the kinds, and how to store the sends of each kind.

        A kind that is None, or whose queue does not exist or is a batch consume queue, has None.
        """
        places: dict[ConsumeQueue, int] = {}
        targets: list[RunTarget | None] = []
        find = self._queues.by_key.get
        for kind in kinds:
            if kind is None:
                targets.append(None)
                continue
            topic, queue_id, sys_flag, tags_code, half = kind
            queue = find((topic, queue_id))
            if queue is None or queue.is_batched:
                targets.append(None)
                continue
            place = places.setdefault(queue, len(places))
            if half is None:
                targets.append((place, sys_flag, tags_code, queue_id, None))
            else:
                targets.append((place, sys_flag, tags_code, half.queue_id, half.properties))
        return list(places), targets

    def append_many(self, records: Sequence[NewRecord]) -> list[Appended]:
        """Append messages so that they are adjacent in one file of the log. Errors as of :meth:`append`."""
        total = sum(self._size_bound(record) for record in records)
        self._check_refusal()
        self._check_total(total)
        if self._position + total > self._log.file_size - BLANK_SIZE:
            try:
                self._roll()
            except OSError as e:
                raise _cannot_grow(e) from e
        return [self.append(record) for record in records]

    def _size_bound(self, record: NewRecord) -> int:
        """Return an upper bound of the size of the record of a message, in bytes.

        :raises MessageIllegal: the body or the properties are too large.
        """
        if len(record.body) > self._config.max_message_size or len(record.properties) > MAX_PROPERTIES:
            raise self._too_large(len(record.body), len(record.properties))
        topic = len(record.topic.encode()) + 2
        return self._overhead + 12 + len(record.body) + topic + len(record.properties)

    def _check_refusal(self) -> None:
        if self._refusal is not None:
            raise StoreNotWritable(f"the store refuses messages: {self._refusal}")

    def _check_total(self, total: int) -> None:
        """:raises MessageIllegal: records of ``total`` bytes do not fit into one file."""
        if total > self._log.file_size - BLANK_SIZE:
            raise MessageIllegal(
                f"messages of {total} bytes together do not fit into a commit log file of {self._log.file_size}"
            )

    def append_batch(self, batch: NewBatch) -> AppendedBatch:
        """Append the messages of a batch body, adjacent in the log.

        :raises CorruptRecord: the body is not a batch; nothing is stored.
        :raises MessageIllegal: it is too large; nothing is stored.
        """
        appended = self._append_fast(batch) if self._encode_batch is not None and not batch.properties else None
        if appended is not None:
            return appended
        shape = None if batch.properties else uniform_messages(batch.body)
        if shape is None:
            return self._append_varied(self._queues.get_or_create(batch.topic, batch.queue_id), batch)
        return self.append_uniform(
            UniformBatch(
                batch.topic, batch.queue_id, shape, batch.sys_flag, batch.born_timestamp, batch.born_host,
                batch.reconsume_times,
            )
        )  # fmt: skip

    def _append_fast(self, batch: NewBatch) -> AppendedBatch | None:
        """Append a batch with the accelerator; None if it cannot, then Python code appends the batch or raises."""
        assert self._encode_batch is not None
        queue = self._queues.by_key.get((batch.topic, batch.queue_id))
        room = self._limit - self._position
        if queue is None or queue.is_batched or room <= 0:
            return None
        now, physical, offset = self._now or self.now(), self._start + self._position, queue.next_offset
        encoded = self._encode_batch(
            batch.body, _run_queue(queue), (batch.born_host, self._host),
            (batch.sys_flag, batch.born_timestamp, batch.reconsume_times), (now, physical, room),
            (self._config.max_message_size, MAX_PROPERTIES),
        )  # fmt: skip
        if encoded is None:
            return None
        records, entries, keys = encoded
        self._take_encoded(records, keys)
        self._take_entries(queue, entries)
        return AppendedBatch(offset, entries[0::3], now, len(records))

    def _take_encoded(self, records: bytes, keys: bytes) -> None:
        """Take over what the accelerator encoded; ``keys`` are packed."""
        assert self._packed_keys is not None
        self._chunks.append(records)
        self._position += len(records)
        self._packed_keys.add(keys)

    def _take_entries(self, queue: ConsumeQueue, entries: list[int]) -> None:
        if not queue.pending:
            self.touched.append(queue)
        queue.pending += entries
        queue.next_offset += len(entries) // 3

    def append_uniform(self, batch: UniformBatch) -> AppendedBatch:
        """Append uniform messages, adjacent in the log.

        :raises MessageIllegal: they are too large; nothing is stored.
        """
        queue, shape = self._queues.get_or_create(batch.topic, batch.queue_id), batch.shape
        flags = batch.sys_flag | self._host_flag | (BORN_HOST_V6 if len(batch.born_host) > 8 else 0)
        layout = head_struct(flags)
        body, properties, count = len(shape.bodies[0]), shape.properties_size, len(shape.bodies)
        size = layout.size + body + len(queue.topic_part) + 2 + properties
        position = self._make_room(size * count, body, properties)
        now, physical, offset = self.now(), self._start + position, queue.next_offset
        head = layout.pack(
            size, queue.magic, 0, queue.queue_id, shape.flag, offset, physical, flags, batch.born_timestamp,
            batch.born_host, now, self._host, batch.reconsume_times, 0, body,
        )  # fmt: skip
        self._chunks.append(encode_uniform(shape, head, queue.topic_part, offset, physical, batch.born, batch.prepared))
        self._position = position + size * count
        physicals = list(range(physical, physical + size * count, size))
        self._enqueue_all(queue, physicals, size, shape.tags_code)
        if shape.uniq_keys is not None:
            keys: list[object] = [queue.key_hash, None, None, now] * count
            keys[1::4], keys[2::4] = shape.uniq_keys, physicals
            self._waiting += keys
        for words, at in zip(shape.words or (), physicals, strict=False):
            self._index.add_words(queue.key_hash, words, at, now)
        return AppendedBatch(offset, physicals, now, size * count)

    def _append_varied(self, queue: ConsumeQueue, batch: NewBatch) -> AppendedBatch:
        """Append a batch message by message."""
        messages = list(split(batch.body, batch.properties))
        flags = batch.sys_flag | self._host_flag | (BORN_HOST_V6 if len(batch.born_host) > 8 else 0)
        layout, topic, host = head_struct(flags), queue.topic_part, self._host
        sizes = [layout.size + 2 + len(topic) + len(body) + len(own) for _, body, own in messages]
        self._check_total(sum(sizes))
        largest = max((len(body) for _, body, _ in messages), default=0)
        position = self._make_room(sum(sizes), largest, max((len(own) for _, _, own in messages), default=0))
        now, offset, physical, physicals = self.now(), queue.next_offset, self._start + position, []
        if not queue.pending:
            self.touched.append(queue)
        for (flag, body, own), size in zip(messages, sizes, strict=True):
            self._chunks += (
                layout.pack(
                    size, queue.magic, crc32(body) & _CRC_MASK, queue.queue_id, flag, queue.next_offset, physical,
                    flags, batch.born_timestamp, batch.born_host, now, host, batch.reconsume_times, 0, len(body),
                ),
                body, topic, _length(own), own,
            )  # fmt: skip
            known = dispatch_fields.parse(own)
            queue.pending += (physical, size, dispatch_fields.tags_code(known.get(dispatch_fields.TAGS)))
            self._index.add_properties(queue.key_hash, known, physical, now)
            physicals.append(physical)
            queue.next_offset += 1
            physical += size
        self._position = position + sum(sizes)
        return AppendedBatch(offset, physicals, now, sum(sizes))

    def _enqueue_all(self, queue: ConsumeQueue, physicals: list[int], size: int, tags_code: int) -> None:
        count = len(physicals)
        flat = [size] * (3 * count)
        flat[0::3] = physicals
        flat[2::3] = [tags_code] * count
        if not queue.pending:
            self.touched.append(queue)
        queue.pending += flat
        queue.next_offset += count

    def append_inner_batch(self, record: NewRecord, count: int) -> Appended:
        """Append the messages of a batch as one record.

        :param record: a record whose body is that of a batch send.
        :raises MessageIllegal: it is too large, or its topic has no batch consume queues.
        """
        queue = self._queues.get_or_create(record.topic, record.queue_id)
        if not queue.is_batched or not 0 < count <= MAX_UNIT_MESSAGES:
            raise MessageIllegal(
                f"a batch of {count} messages cannot be one record of {queue}: this needs a topic with batch consume "
                f"queues, and 1 to {MAX_UNIT_MESSAGES} messages"
            )
        inner = msgspec.structs.replace(
            record, sys_flag=record.sys_flag | dispatch_fields.INNER_BATCH_FLAGS,
            properties=record.properties + dispatch_fields.inner_batch(count, queue.next_offset),
        )  # fmt: skip
        return self._append_unusual(inner, count)

    def _append_unusual(self, record: NewRecord, count: int = 1) -> Appended:
        """Append a message with an IPv6 born host or of a transaction, or a record of ``count`` messages."""
        queue = self._queues.get_or_create(record.topic, record.queue_id)
        flags = record.sys_flag | self._host_flag | (BORN_HOST_V6 if len(record.born_host) > 8 else 0)
        head = head_struct(flags)
        body, properties = record.body, record.properties
        size = head.size + 2 + len(body) + len(queue.topic_part) + len(properties)
        position = self._make_room(size, len(body), len(properties))
        kind = flags & TRANSACTION_MASK
        queued = kind not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
        now, physical = self.now(), self._start + position
        offset = queue.next_offset if queued else 0
        self._chunks += (
            head.pack(
                size, queue.magic, crc32(body) & _CRC_MASK, record.queue_id, record.flag, offset, physical, flags,
                record.born_timestamp, record.born_host, now, self._host, record.reconsume_times,
                record.prepared_transaction_offset, len(body),
            ),
            body, queue.topic_part, _length(properties), properties,
        )  # fmt: skip
        self._position = position + size
        if queued:
            self._enqueue(queue, physical, size, record.tags_code, count)
        if kind != TRANSACTION_ROLLBACK:
            if record.uniq_key is not None:
                self._waiting += (queue.key_hash, record.uniq_key.encode(), physical, now)
            if record.keys:
                self._index.add_words(queue.key_hash, record.keys.encode(), physical, now)
        return Appended(offset, physical, now, size)

    def _enqueue(self, queue: ConsumeQueue, physical: int, size: int, tags_code: int, count: int) -> None:
        if not queue.pending:
            self.touched.append(queue)
        queue.add(physical, size, tags_code, count)

    # -- room

    def _make_room(self, size: int, body: int, properties: int) -> int:
        """Roll over and allocate disk space as needed; return the position of the next record in its file.

        :param size: bytes of the record, or of several records together.
        :param body: bytes of the largest body; ``properties`` likewise.
        :raises MessageIllegal: body or properties are too large, or the records do not fit into a file.
        :raises StoreNotWritable: the store refuses writes, or the log cannot grow.
        """
        self._check_refusal()
        end = self._log.file_size - BLANK_SIZE
        if body > self._config.max_message_size or properties > MAX_PROPERTIES or size > end:
            raise self._too_large(body, properties)
        try:
            if self._position + size > end:
                self._roll()
            if self._start not in self._log.buffers:
                self._log.create(self._start)
            room = self._log.allocate(self._start, self._position + size + BLANK_SIZE)
        except OSError as e:
            raise _cannot_grow(e) from e
        self._limit = min(room - BLANK_SIZE, end)
        return self._position

    def _too_large(self, body: int, properties: int) -> MessageIllegal:
        return MessageIllegal(
            f"a message of {body} bytes with {properties} bytes of properties is too large: the limits are "
            f"{self._config.max_message_size} (maxMessageSize) and {MAX_PROPERTIES}, and it must fit into a commit log "
            f"file of {self._log.file_size}"
        )

    def _roll(self) -> None:
        """Close this file with a blank record and continue in the next."""
        self.flush()
        following = self._start + self._log.file_size
        self._log.allocate(self._start, self._position + BLANK_SIZE)  # recovery may have cut it off
        self._log.create(following)
        self._log.close_file(self._start, self._position)
        self._start = following
        self._written = self._position = 0
        self._limit = -1
        self._log.end = following

    def flush(self) -> None:
        """Write buffered bytes to the log.

        :raises OSError: the disk fails; the bytes stay buffered, and the next call tries again.
        """
        if self._chunks:
            one = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            self._log.write(self._start, self._written, one)
            self._chunks.clear()
            self._written = self._position
            self._log.end = self._start + self._position
        self._now = 0
