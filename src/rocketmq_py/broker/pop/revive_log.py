"""The revive log: the topic in which a broker records what was popped (check-points) and what was acked.

The table of pops in flight is rebuilt from it at the start.

A Java broker sends its entries through its timer, so that they reach the topic when they are due. This broker appends
them at once, with the time of writing as their delivery time: that is the form in which Java's timer delivers an entry
that is already due, and a Java broker that finds them waits until each check-point is due. Java revives each queue in
order, so entries with similar invisible times share a queue.

Other brokers write to the topic, too: a Java slave that acts as master of another name sends the pops it served here.
They are read as soon as they are in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.pop.reader import PopOffsets
from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.core.metrics.counters import ACK, CHECK_POINT, PopCounts, PopEntries
from rocketmq_py.core.pop.inflight import InflightPop, InflightPops, retry_check_point
from rocketmq_py.errors import BadHeader, CorruptRecord
from rocketmq_py.protocol.pop_checkpoint import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CK_TAG,
    REVIVE_GROUP,
    AckRecord,
    BatchAckRecord,
    CheckPoint,
    CkKey,
    decode_revive,
    revive_topic,
)  # fmt: skip
from rocketmq_py.store import Appended, MessageStore, NewRecord
from rocketmq_py.store.write.writer import EncodeRecord
from rocketmq_py.wire.java_hash import tags_code

_log = logging.getLogger(__name__)

_BATCH = 1024
_CODES = {tag: tags_code(tag) for tag in (CK_TAG, ACK_TAG, BATCH_ACK_TAG)}
_TAGS = {code: tag for tag, code in _CODES.items()}


class _Gap(NamedTuple):
    """Offsets, ``first`` to ``end`` (exclusive), of unread entries of other brokers before one of this broker."""

    queue_id: int
    first: int
    end: int


class ReviveLog:
    """Check-points and acks on disk, and the table of pops in flight.

    :param store_host: this broker's packed address.
    :param clock: returns the time in milliseconds since the epoch.
    :param accelerator: encodes most entries; None encodes all in Python.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        offsets: PopOffsets,
        store_host: bytes,
        clock: Callable[[], int],
        accelerator: Accelerator | None = None,
    ) -> None:
        self._accelerator = accelerator
        self._config = config
        self._store = store
        self._offsets = offsets
        self._host = store_host
        self._clock = clock
        self.topic = revive_topic(config.broker_cluster_name)
        self.inflight = InflightPops()
        self._following: dict[int, int] = {}
        self._unread: list[_Gap] = []
        self._offsets_lag_from_ms: int | None = None
        self.counts: PopCounts | None = None
        """What is counted for metrics; None: they are off."""

    # -- writing

    def check_point(self, check_point: CheckPoint, revive_queue: int) -> Appended | None:
        """Store a check-point, so that its messages are revived unless they are acked.

        :param revive_queue: id of the queue of the revive topic to store it in, see :func:`revive_queue`.
        :returns: where it was stored; None at a slave, which writes nothing.

        :raises StoreNotWritable: the store refuses writes.
        """
        ck, appended = check_point, None
        if self._accelerator is not None and ck.is_new:
            encode, now = self._accelerator.check_point_record, self._clock()
            record = partial(encode, ck.key, (ck.invisible_ms, ck.diffs), now)
            appended = self._append_encoded(revive_queue, CK_TAG, record)
        if appended is None:
            appended = self.append(revive_queue, CK_TAG, ck.unique_key, ck.encode())
        self.inflight.add(check_point, revive_queue, appended.queue_offset)
        if self.counts is not None:
            self.counts.enter(PopEntries(check_point.topic, check_point.group, revive_queue, CHECK_POINT))
        return appended

    def ack(self, key: CkKey, offsets: Collection[int]) -> Appended | None:
        """Store an ack of messages of a pop that a client sent.

        :returns: where it was stored; None if nothing was written, because none of the messages was in flight.
        :raises StoreNotWritable: the store refuses writes.
        """
        return self._settle(key, offsets, self.counts)

    def revived(self, key: CkKey, offsets: Collection[int]) -> None:
        """Store an ack of messages of a pop that were stored again, so that no reader of the log does that once more.

        :raises StoreNotWritable: the store refuses writes.
        """
        self._settle(key, offsets, None)

    def _settle(self, key: CkKey, offsets: Collection[int], counts: PopCounts | None) -> Appended | None:
        one = self.inflight.find(key)
        if one is None or not (bits := one.out(offsets)):
            return None
        out = one.at(bits)
        tag, appended = BATCH_ACK_TAG if len(out) > 1 else ACK_TAG, None
        if self._accelerator is not None:
            encode = partial(self._accelerator.ack_record, key, out, self._clock())
            appended = self._append_encoded(one.revive_queue, tag, encode)
        if appended is None:
            record = _ack_record(key, out)
            appended = self.append(one.revive_queue, tag, record.unique_key, record.encode())
        self.inflight.settle(key, one, bits)
        if counts is not None:
            one.acks += 1
            counts.enter(PopEntries(key.topic, key.group, one.revive_queue, ACK))
        return appended

    def try_again(self, one: InflightPop) -> None:
        """Store the check-point of a pop again with a later time, because its messages could not be fetched.

        :raises StoreNotWritable: the store refuses writes.
        """
        self.check_point(retry_check_point(one, self._clock()), one.revive_queue)

    def append(self, revive_queue: int, tag: str, unique_key: str, body: bytes) -> Appended:
        """Append an encoded check-point or ack to the log; the table of pops in flight is not changed.

        :param revive_queue: id of the queue of the revive topic.
        :param tag: the kind of entry: check-point, ack or acks of several messages.
        :raises StoreNotWritable: the store refuses writes.
        """
        now = self._clock()
        properties = encode({"UNIQ_KEY": unique_key, "TAGS": tag, "TIMER_DELIVER_MS": str(now)}).encode()
        appended = self._store.append(
            NewRecord(
                self.topic, revive_queue, body, properties, _CODES.get(tag) or tags_code(tag), born_timestamp=now,
                born_host=self._host, uniq_key=unique_key,
            )
        )  # fmt: skip
        self._follow(revive_queue, appended.queue_offset)
        return appended

    def _append_encoded(self, revive_queue: int, tag: str, encode: EncodeRecord) -> Appended | None:
        """As :meth:`append`, for an entry that the accelerator encodes; None if :meth:`append` has to do it."""
        appended = self._store.append_encoded(self.topic, revive_queue, _CODES[tag], encode)
        if appended is not None:
            self._follow(revive_queue, appended.queue_offset)
        return appended

    def _follow(self, revive_queue: int, offset: int) -> None:
        """Note that this broker has written the entry at an offset: what is missing before it is of other brokers."""
        following = self._following.get(revive_queue, 0)
        if offset > following:
            self._unread.append(_Gap(revive_queue, following, offset))
        self._following[revive_queue] = offset + 1

    def move_here(self, revive_queue: int, tag: str, unique_key: str, body: bytes) -> None:
        """Append an entry of a Java broker's timer to the log, and apply it to the table of pops in flight.

        Parameters and errors are those of :meth:`append`.
        """
        appended = self.append(revive_queue, tag, unique_key, body)
        self._apply(revive_queue, appended.queue_offset, tag, body)

    # -- reading back

    def load(self, offsets_lag_from_ms: int | None) -> None:
        """Build the table of pops in flight from the entries that are not yet processed.

        :param offsets_lag_from_ms: the time since which consumer offsets may lag behind pops, because the broker
            crashed before it wrote them; None if they do not. Offsets are raised above messages popped since then, so
            these are revived instead of popped again.
        """
        self._offsets_lag_from_ms = offsets_lag_from_ms
        for topic, queue_id in self._store.queues():
            if topic == self.topic:
                self._load_queue(queue_id)
        if self.inflight:
            _log.info("%d pops have messages that are not acked", len(self.inflight))

    def reload(self) -> None:
        """Build the table of pops in flight again, after replication has added entries to the log."""
        self.inflight = InflightPops()
        self.load(None)

    def catch_up(self) -> None:
        """Read new entries of other brokers: pops of slaves that act as masters of other names."""
        gaps, self._unread = self._unread, []
        for gap in gaps:
            if gap.end > self._end(gap.queue_id):
                self._unread.append(gap)  # not on disk yet
            else:
                self._read_queue(*gap)
                self.inflight.sort(gap.queue_id)
        for queue_id in range(self._config.revive_queue_num):
            following, end = self._following.get(queue_id, 0), self._end(queue_id)
            if end > following:
                self._following[queue_id] = end
                self._read_queue(queue_id, following, end)

    def _end(self, queue_id: int) -> int:
        """Return the offset behind the last readable entry of a queue."""
        return self._store.queue_range(self.topic, queue_id)[1]

    def _load_queue(self, queue_id: int) -> None:
        first, end = self._store.queue_range(self.topic, queue_id)
        self._following[queue_id] = end
        self._read_queue(queue_id, max(first, self._offsets.query(REVIVE_GROUP, self.topic, queue_id) + 1), end)

    def _read_queue(self, queue_id: int, at: int, end: int) -> None:
        while at < end:
            entries = self._store.queue_entries(self.topic, queue_id, at, min(_BATCH, end - at))
            if not entries:
                _log.error("%s queue %d cannot be read from %d on: pops may be lost", self.topic, queue_id, at)
                return
            for physical, size, code in entries:
                raw = self._store.message_at(physical, size)
                if raw is not None:
                    self._read(queue_id, at, _TAGS.get(code, ""), raw)
                at += 1

    def _read(self, queue_id: int, offset: int, tag: str, raw: bytes) -> None:
        try:
            self._apply(queue_id, offset, tag, read_stored(raw).body)
        except (CorruptRecord, BadHeader) as e:
            _log.error("skipping entry %d of %s queue %d, it cannot be read: %s", offset, self.topic, queue_id, e)

    def _apply(self, queue_id: int, offset: int, tag: str, body: bytes) -> None:
        entry = decode_revive(tag, body)
        if isinstance(entry, CheckPoint):
            self.inflight.add(entry, queue_id, offset)
            lag_from, is_ours = self._offsets_lag_from_ms, entry.broker_name == self._config.broker_name
            if is_ours and lag_from is not None and entry.pop_time >= lag_from:
                self._raise_offset(entry)
        elif entry is not None:
            self.inflight.ack(entry.key(self._config.broker_name), entry.offsets)

    def _raise_offset(self, ck: CheckPoint) -> None:
        following = max(ck.offsets, default=-1) + 1
        if following > self._offsets.query(ck.group, ck.topic, ck.queue_id):
            self._offsets.commit(ck.group, ck.topic, ck.queue_id, following, "a check-point")

    # -- progress

    def note_progress(self) -> None:
        """Commit the offset of the last processed entry of each queue, where the next :meth:`load` continues."""
        for queue_id in range(self._config.revive_queue_num):
            ends = [self._end(queue_id), self._following.get(queue_id, 0)]
            ends += [gap.first for gap in self._unread if gap.queue_id == queue_id]
            first = self.inflight.first_offset(queue_id)
            done = min(ends if first is None else [*ends, first]) - 1
            if done > self._offsets.query(REVIVE_GROUP, self.topic, queue_id):
                self._offsets.commit(REVIVE_GROUP, self.topic, queue_id, done, "revive")


def _ack_record(key: CkKey, offsets: list[int]) -> AckRecord:
    record = AckRecord(
        offset=offsets[0], broker_name=key.broker_name, group=key.group, pop_time=key.pop_time, queue_id=key.queue_id,
        start_offset=key.start_offset, topic=key.topic,
    )  # fmt: skip
    return BatchAckRecord.of(record, offsets) if len(offsets) > 1 else record


def revive_queue(invisible_ms: int, queues: int) -> int:
    """Return the revive queue for an invisible time: 0 below 1 s, 1 below 4 s, 2 below 16 s, up to the last queue."""
    return min(((invisible_ms // 1000).bit_length() + 1) // 2, queues - 1)
