"""Timed messages: messages that are delivered at a time that the producer sets (TimerMessageStore, HookUtils).

A timed message is stored in the timer topic. For each message of its queue an entry is appended to the timer log and
linked into the timer wheel. Some seconds before its slot begins, the entry is loaded onto the agenda; when it is due,
the message is stored in its real topic. Times in the files are whole slots, as in Java; the agenda is exact to the
millisecond.

A crash loses nothing: the entry of each delivered message has its position in the log, which is valid only if the
message is there. A half-delivered slot is therefore finished after a restart, not repeated. A Java broker does not know
these marks; a clean shutdown rewrites half-delivered slots for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rocketmq_py.broker import remarks
from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.broker.stats import Meter
from rocketmq_py.broker.timer.delay_levels import DelayService, asks_for_level
from rocketmq_py.broker.timer.timed_columns import Together, deliver_together
from rocketmq_py.broker.timer.timed_message import QUEUE, TimedMessage, read_timed
from rocketmq_py.broker.timer.timer_faults import MOST_CHECKED, check_fault, log_fault
from rocketmq_py.broker.timer.timer_files import TimerFiles, parse_checkpoint
from rocketmq_py.broker.timer.timer_metrics import TimerMetrics
from rocketmq_py.core.metrics.counters import MessageCounts
from rocketmq_py.core.timer import timers as rules
from rocketmq_py.core.timer.progress import DeliveryProgress, LateEntries
from rocketmq_py.core.timer.timers import DEFAULT, DELETE, ROLL, Agenda, TimerEntry
from rocketmq_py.errors import BrokerError, CorruptRecord, StoreError
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.headers.cluster import TimerCheckPointResponse
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketmq_py.store import FileSystem, MessageStore, NewRecord, UniformBatch
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.timer.timer_wheel import ELSEWHERE, NOWHERE, TimerCheckpoint, TimerLog, TimerUnit
from rocketmq_py.wire.java_hash import string_hash

_log = logging.getLogger(__name__)

_LEAD_MS = 10_000
"""How long before a slot begins its entries are loaded onto the agenda."""
AT_ONCE = 200
"""Maximum number of messages that each kind of work processes per tick; if there are more, the next tick follows at
once.
"""
_SLOTS_AT_ONCE = 5_000
_LONGER = 1024
"""How many bytes a delivered message may be longer than it was in the timer topic: its topic and two times."""
_SAMPLES = 64
RATE_MS = 10_000
"""The time window of the rates in the runtime information."""


class _Reading(NamedTuple):
    """A slot whose entries are being read, newest first; ``position`` is the log position of the next one."""

    slot: int
    position: int


class Timers:
    """Stores timed messages until they are due, and delivers them.

    :param delay: stores messages with a delay level.
    :param revive_topic: the topic of the revive log, whose entries are not delayed. Those that a Java broker has
        delayed are moved at the start (``java_timers``).
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self, store: MessageStore, delay: DelayService, metrics: TimerMetrics, revive_topic: str, fs: FileSystem,
        clock: Callable[[], int],
    ) -> None:  # fmt: skip
        self._store, self._delay, self._fs, self._clock = store, delay, fs, clock
        self._config = store.config
        self._revive_topic = revive_topic
        self._precision: int = self._config.timer_precision_ms
        self._window = rules.window_slots(self._config.timer_roll_window_slot)
        self._files: TimerFiles | None = None
        self._read_ahead = store.read_ahead("timer-read")
        self._agenda = Agenda()
        self._reading: _Reading | None = None
        self._read_ms = self._loaded_ms = self._queue_offset = 0
        self._delivered = (0, 0)
        self._delivered_reports: tuple[DeliveryProgress, ...] = ()
        """Progress reported by other brokers of this name: messages they delivered, which these files don't show."""
        self._late = LateEntries()
        self._flushed_ms = 0
        self._is_refused = False
        self.metrics = metrics
        self.counts: MessageCounts | None = None
        """What is counted for metrics; None: they are off."""
        self.enqueued, self.dequeued = Meter(_SAMPLES), Meter(_SAMPLES)
        """Meters of written entries and of delivered messages."""

    # -- life

    def load(self, messages_end: int) -> None:
        """Open the files and restore the state.

        :param messages_end: the end offset of the commit log when the store was opened.
        :raises OSError: the disk fails.
        """
        self.metrics.load()
        if not self._config.timer_wheel_enable:
            return
        now = self._clock()
        thread = self._store.workers.executor("rocketmq-timer")
        files = self._files = TimerFiles(self._fs, self._store.layout, self._config, messages_end, thread, self._fault)
        self._read_ms = self._loaded_ms = self._first_slot(files, now)
        self._queue_offset = self._first_offset(files)
        if files.is_new:
            self._delivered_reports = (DeliveryProgress(files.check.queue_offset, files.check.read_ms),)
            self.metrics.reset()
        self._delivered = (self._read_ms, self._store.max_physical_offset)
        files.check.read_ms = self._read_ms
        self._write_check(files)

    def _fault(self, log: TimerLog, check: TimerCheckpoint) -> str | None:
        """Return what is wrong with the timer log or its checkpoint, which is then reset."""
        end = self._store.queue_range(TIMER_TOPIC, QUEUE)[1]
        fault = check_fault(check, self._clock(), end, self._precision)
        if fault is not None:
            check.reset()
        return fault or log_fault(log, check, self._precision, self._are_timed)

    def _are_timed(self, units: Iterable[TimerUnit]) -> bool:
        """True if all entries are of messages in the timer topic, as far as the log still has them."""
        places = {(unit.physical, unit.size) for unit in units if unit.physical >= self._store.min_physical_offset}
        offset, end = self._store.queue_range(TIMER_TOPIC, QUEUE)
        offset = max(offset, end - 4 * MOST_CHECKED)
        entries = self._store.queue_entries(TIMER_TOPIC, QUEUE, offset, end - offset) if places else []
        known = {(physical, size) for physical, size, _ in entries}
        oldest = min((physical for physical, _ in known), default=0)
        return all(place in known for place in places if place[0] >= oldest)

    def _first_slot(self, files: TimerFiles, now: int) -> int:
        current = now // self._precision * self._precision
        if not files.check.exists:
            return current if files.is_new else current - self._horizon
        return max(files.check.read_ms // self._precision * self._precision, current - self._horizon)

    @property
    def _horizon(self) -> int:
        """The time span before now whose slots are still in the wheel, in milliseconds; older slots are not read."""
        return (rules.WHEEL_SLOTS - rules.BLANK_SLOTS) * self._precision

    def _first_offset(self, files: TimerFiles) -> int:
        """Return the offset in the timer topic of the first message without an entry."""
        first, end = self._store.queue_range(TIMER_TOPIC, QUEUE)
        offset = 0 if files.is_new else files.check.queue_offset
        messages = (self._message(unit.physical, unit.size) for unit in reversed(files.newest))
        newest = next((message for message in messages if message is not None), None)
        if newest is not None:
            offset = max(offset, newest.head.queue_offset + 1)
        return min(max(offset, first), end)

    def close(self) -> None:
        """Close the files in a state with which this broker or a Java broker can continue."""
        self._read_ahead.close()
        files, self._files = self._files, None
        if files is None:
            return
        try:
            if self._store.flush():  # otherwise delivered messages may be lost at the next start
                self._finish_slots(files)
                files.check.read_ms = self._read_ms
            self._late = LateEntries()  # with it, a Java broker would write all later entries again
            self._write_check(files)
        finally:
            files.close(self._queue_offset)
            self.metrics.persist()

    def _finish_slots(self, files: TimerFiles) -> None:
        """Rewrite half-delivered slots so that they contain only undelivered entries."""
        reading = self._reading.slot if self._reading is not None else None
        whole = [slot for slot in self._agenda.begun() if reading is None or slot < reading]
        if not whole:
            return
        over = self._read_ms - self._precision
        files.write_rewrite_mark(over)
        for slot in whole:
            units = (files.log.read(entry.position) for entry in self._agenda.rest(slot))
            files.rewrite(slot, [unit for unit in units if unit is not None])
        files.write_rewrite_mark(over)

    # -- storing

    def redirect(self, record: NewRecord, properties: dict[str, str]) -> None:
        """Change the topic of a record with a delivery time or a delay level to the timer or schedule topic.

        Changes both arguments, or neither. Entries of the revive log keep their topic.

        :raises BrokerError: the time is invalid or too far away, or timers are disabled.
        """
        if record.sys_flag & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
            return
        if asks_for_level(properties):
            for name in rules.ASKING:
                properties.pop(name, None)
            self._delay.redirect(record, properties)
        elif rules.is_timer(properties) and record.topic == self._revive_topic:
            properties[Property.TIMER_DELIVER_MS] = str(self._clock())
            record.properties = encode(properties).encode()
        elif rules.is_timer(properties) and record.topic != TIMER_TOPIC:
            self._redirect(record, properties)

    def _redirect(self, record: NewRecord, properties: dict[str, str]) -> None:
        if self._files is None:
            raise BrokerError.of(Code.SYSTEM_ERROR, remarks.TIMER_NOT_ENABLED)
        longest, now = self._config.timer_max_delay_sec * 1000, self._clock()
        try:
            deliver_ms = rules.requested_time(properties, now)
        except ValueError as e:
            raise BrokerError.of(Code.MESSAGE_ILLEGAL, remarks.timer_illegal(longest)) from e
        takes_out = Property.TIMER_DEL_UNIQKEY in properties
        if deliver_ms - now > longest or (deliver_ms <= now and takes_out):
            raise BrokerError.of(Code.MESSAGE_ILLEGAL, remarks.timer_illegal(longest))
        if deliver_ms <= min(now, self._store.now()):  # its store time is that of the first record of this read
            return
        out_ms = rules.slot_of(deliver_ms, self._precision)
        slot, most = self._files.wheel.get(out_ms), self._config.timer_congest_num_each_slot
        if slot is not None and slot.number > most:
            raise BrokerError.of(Code.SYSTEM_ERROR, remarks.timer_congested(most))
        properties |= {
            Property.TIMER_OUT_MS: str(out_ms),
            Property.REAL_TOPIC: record.topic, Property.REAL_QUEUE_ID: str(record.queue_id),
        }  # fmt: skip
        record.topic, record.queue_id = TIMER_TOPIC, QUEUE
        record.properties = encode(properties).encode()

    # -- work

    def tick(self, now: int) -> bool:
        """Write entries for new messages and deliver due ones, up to a limit; return True if there may be more.

        What is not in memory is loaded in a thread, and processed by a later call.

        Call it many times a second, and again at once if it returns True.

        :param now: milliseconds since the epoch.
        :raises OSError: the timer files cannot be written.
        :raises StoreError: the commit log cannot be written.
        """
        files = self._files
        if files is None:
            return False
        more = []
        if not self._config.timer_stop_enqueue:
            more.append(self._enqueue(files, now))
        if not self._config.timer_stop_dequeue:
            more += [self._load_due_slots(files, now), self._deliver(files, now)]
            self._advance_read_time(now)
        self._record_progress(files, now)
        return any(more)

    def take_over(self, check: bytes, more: TimerCheckPointResponse | None = None) -> None:
        """Apply the progress of another broker of this name: messages it has delivered are not delivered here.

        A slave that acted as master may not have received some messages; these are delivered here, even if late.

        :param check: the bytes of the other broker's checkpoint.
        :param more: header fields that brokers of this project send with it.
        :raises ValueError: they cannot be decoded.
        """
        if self._files is not None:
            self._delivered_reports += (parse_checkpoint(check, more),)

    def clean(self) -> None:
        """Remove files of the timer log whose messages have all been deleted from the commit log."""
        if self._files is not None:
            self._files.log.remove_before(self._store.min_physical_offset)

    def _enqueue(self, files: TimerFiles, now: int, count: int = AT_ONCE) -> bool:
        """Write entries for new messages of the timer topic; True if there may be more."""
        entries = self._read_ahead.read("new timed messages", lambda residency: self._new_entries(count, residency))
        if entries is None:
            return False
        for physical, size, _ in entries:
            message = self._message(physical, size)
            if message is not None and not self._is_delivered(message):
                self._write(files, message, physical, size, now)
                if self.counts is not None:
                    self.counts.delayed(message.real_topic, (message.out_ms - message.head.born_timestamp) // 1000)
            self._queue_offset += 1
        return len(entries) == count

    def _new_entries(self, count: int, residency: Residency | None) -> list[tuple[int, int, int]]:
        """Return the queue's entries of at most ``count`` messages without an entry in the timer log.

        :raises NotInMemory: the entries or their messages are not in memory.
        """
        topic, offset = TIMER_TOPIC, self._queue_offset
        self._store.checks.entries(topic, QUEUE, offset, count, residency)
        entries = self._store.queue_entries(topic, QUEUE, offset, count)
        self._store.checks.records(((physical, size) for physical, size, _ in entries), residency)
        return entries

    def _is_delivered(self, message: TimedMessage) -> bool:
        """True if a message without an entry has been delivered, or is not to be delivered by this broker."""
        return self._is_not_delivered_here(message) or self._was_reported_delivered(message)

    def _is_not_delivered_here(self, message: TimedMessage) -> bool:
        """True if a message is not delivered by timers of this broker: an entry of the revive log."""
        return message.real_topic == self._revive_topic

    def _was_reported_delivered(self, message: TimedMessage) -> bool:
        head, out_ms = message.head, message.out_ms
        for one in self._delivered_reports:
            if one.covers(head.queue_offset, out_ms, head.store_timestamp, self._window, self._precision):
                return True
        return False

    def _placement_time(self, message: TimedMessage, now: int) -> int:
        """Return the time (ms) from which a message's delay is counted when its slot is chosen: here ``now``."""
        del message
        return now

    def _write(self, files: TimerFiles, message: TimedMessage, physical: int, size: int, now: int) -> None:
        placed = rules.wheel_position(message.out_ms, self._placement_time(message, now), self._window, self._precision)
        slot, rolls = max(placed.slot, self._read_ms), placed.rolls
        if slot != placed.slot:
            self._late.add(message.head.queue_offset, slot)
        takes_out = _is_recall(message)
        magic = DEFAULT | (ROLL if rolls else 0) | (DELETE if takes_out else 0)
        written = now // self._precision * self._precision
        position = files.write(slot, magic, written, physical, size, string_hash(message.real_topic))
        self.metrics.add(message.real_topic, -1 if takes_out else 1, now)
        self.enqueued.count += 1
        if slot < self._loaded_ms:
            self._schedule(message, TimerEntry(0, position, slot, physical, size, magic, written))

    def _schedule(self, message: TimedMessage, entry: TimerEntry) -> None:
        """Add an entry to the agenda (the entries in memory that are due soon).

        If it is a recall, remove the entry of the recalled message from the agenda instead.
        """
        if entry.magic & DELETE and not entry.magic & ROLL:
            self._agenda.cancel(message.real_topic, message.get(Property.TIMER_DEL_UNIQKEY) or "", entry)
            return
        due = entry.slot + self._precision
        if not entry.magic & ROLL and message.out_ms <= entry.slot:
            stored_ms = message.head.store_timestamp
            due = rules.due_ms(message, message.out_ms, stored_ms, self._precision)
        self._agenda.add(entry._replace(due=due))

    def _load_due_slots(self, files: TimerFiles, now: int) -> bool:
        """Load entries due soon from the timer log onto the agenda; True if a limit stopped it before it was done."""
        if not self._read_ahead.is_ready("timer wheel", lambda residency: self._check_slots(files, now, residency)):
            return False
        left = AT_ONCE
        for _ in range(_SLOTS_AT_ONCE):
            if self._reading is None:
                if self._loaded_ms > now + _LEAD_MS:
                    return False
                slot = files.wheel.get(self._loaded_ms)
                if slot is not None:
                    self._reading = _Reading(self._loaded_ms, slot.last)
                    self._agenda.hold(self._loaded_ms)
                self._loaded_ms += self._precision
            if self._reading is not None:
                read = self._read_chain(files, self._reading, left)
                if read is None:
                    return False
                left -= read
                if not left:
                    return True
        return True

    def _check_slots(self, files: TimerFiles, now: int, residency: Residency) -> None:
        """Check that the slots that are due soon are in memory.

        :raises NotInMemory: they are not.
        """
        count = (now + _LEAD_MS - self._loaded_ms) // self._precision + 1
        files.wheel.check(self._loaded_ms, min(count, _SLOTS_AT_ONCE), residency)

    def _read_chain(self, files: TimerFiles, reading: _Reading, most: int) -> int | None:
        """Load up to ``most`` entries of a slot, newest first; return the number of entries read.

        Returns None while they are being loaded from disk.
        """
        chain = self._read_ahead.read("the timer log", lambda residency: self._chain(files, reading, most, residency))
        if chain is None:
            return None
        following = reading.position
        for position, unit in chain:
            if unit is None or unit.slot != reading.slot:
                _log.error("the timer log has no entry of slot %d at %d", reading.slot, position)
                following = NOWHERE
                break
            self._load_entry(unit, position)
            following = unit.previous
        self._reading = reading._replace(position=following)
        if following == NOWHERE:
            self._reading = None
            self._agenda.release(reading.slot)
        return len(chain)

    def _chain(
        self, files: TimerFiles, reading: _Reading, most: int, residency: Residency | None
    ) -> list[tuple[int, TimerUnit | None]]:
        """Return up to ``most`` entries of a slot with their positions, newest first, up to a wrong or missing one.

        :raises NotInMemory: the entries or their messages are not in memory.
        """
        chain, places = list[tuple[int, TimerUnit | None]](), list[tuple[int, int]]()
        position, checked = reading.position, range(0)
        while position != NOWHERE and len(chain) < most:
            if residency is not None and position not in checked:
                checked = files.log.needs(position, residency)
                residency.check()
            unit = files.log.read(position)
            chain.append((position, unit))
            if unit is None or unit.slot != reading.slot:
                break
            places.append((unit.physical, unit.size))
            if unit.mark > 0:
                places.append((unit.mark, unit.size + _LONGER))
            position = unit.previous
        self._store.checks.records(places, residency)
        return chain

    def _load_entry(self, unit: TimerUnit, position: int) -> None:
        message = self._message(unit.physical, unit.size)
        if message is None or self._is_not_delivered_here(message) or self._was_delivered(unit, message):
            return
        # No checksum covers an entry: what the message itself tells holds.
        takes_out, rolls = _is_recall(message), message.out_ms > unit.slot
        if self._was_reported_delivered(message):
            self.metrics.add(message.real_topic, 0 if takes_out else -1, self._clock())
            return
        magic = unit.magic & ~DELETE | (DELETE if takes_out else 0) | (ROLL if rolls else 0)
        entry = TimerEntry(0, position, unit.slot, unit.physical, unit.size, magic, unit.written)
        self._schedule(message, entry)

    def _was_delivered(self, unit: TimerUnit, message: TimedMessage) -> bool:
        """True if an entry is marked as delivered and the delivered message is still in the log after a crash."""
        if unit.mark in (0, ELSEWHERE):
            return unit.mark == ELSEWHERE
        raw = self._store.message_at(unit.mark)
        if raw is None:
            return False
        try:
            stored = read_stored(raw)
        except CorruptRecord:
            return False
        if stored.topic != (TIMER_TOPIC if unit.magic & ROLL else message.real_topic):
            return False
        properties = decode_properties(stored.properties)
        same = (Property.UNIQUE_KEY, Property.TIMER_OUT_MS)
        return all(properties.get(name) == message.get(name) for name in same)

    def _message(self, physical: int, size: int) -> TimedMessage | None:
        """Read a message of the timer topic by commit log offset and size; None if it is deleted or invalid."""
        raw = self._store.message_at(physical, size) if physical >= 0 and size > 0 else None
        if raw is None:
            return None
        try:
            message = read_timed(raw)
        except CorruptRecord as e:
            _log.error("dropping the timed message at %d, it cannot be read: %s", physical, e)
            return None
        if message is None:
            _log.error("dropping the timed message at %d, it has no valid real topic or time", physical)
        return message

    # -- delivery

    def _deliver(self, files: TimerFiles, now: int) -> bool:
        """Deliver due messages; True if there may be more."""
        entries = self._take_due(files, now, AT_ONCE)
        places: list[int] = []
        try:
            batches = self._build_together(entries, now)
            if batches is None:
                places.extend(self._put(entry, now) for entry in entries)  # keeps the positions from before an error
            else:
                entries = [entries[i] for members, _ in batches for i in members]
                for _, batch in batches:
                    places += self._put_together(batch, now)
            self._is_refused = False
        except StoreError as e:
            if places or not self._is_refused:  # log once, not many times a second
                _log.warning("timed messages wait, the store refuses writes: %s", e)
            self._is_refused = True
        finally:
            self._agenda.back(entries[len(places) :])
        if not places:
            return False
        done = entries[: len(places)]
        try:
            self._store.commit_pending()
        finally:  # appended records are kept and written with a later settle
            files.log.mark(sorted((entry.position, place) for entry, place in zip(done, places, strict=True) if place))
            self._agenda.done(done)
        return len(done) == AT_ONCE

    def _take_due(self, files: TimerFiles, now: int, most: int) -> list[TimerEntry]:
        """Remove at most ``most`` due entries from the agenda; none while their messages are being loaded from disk."""
        entries = self._agenda.take(now, most)
        if not self._read_ahead.is_ready(
            "due timed messages", lambda residency: self._check_due(files, entries, residency)
        ):
            self._agenda.back(entries)
            return []
        return entries

    def _check_due(self, files: TimerFiles, entries: list[TimerEntry], residency: Residency) -> None:
        """Check that messages, and their entries in the timer log, which get marks, are in memory.

        :raises NotInMemory: they are not.
        """
        checked = range(0)
        for entry in reversed(entries):
            if entry.position not in checked:
                checked = files.log.needs(entry.position, residency)
        self._store.checks.records([(entry.physical, entry.size) for entry in entries], residency)

    def _build_together(self, entries: list[TimerEntry], now: int) -> list[Together] | None:
        """Build the records of entries together; None if they have to be built one by one."""
        if any(
            entry.size != entries[0].size or entry.magic != DEFAULT or self._agenda.has_cancelled(entry.slot)
            for entry in entries
        ):
            return None
        raws = [raw for entry in entries if (raw := self._store.message_at(entry.physical, entry.size)) is not None]
        return deliver_together(raws, [entry.written for entry in entries], now) if len(raws) == len(entries) else None

    def _put_together(self, batch: UniformBatch, now: int) -> list[int]:
        places = self._store.append_uniform(batch).physical_offsets
        self.metrics.add(batch.topic, -len(places), now)
        self.dequeued.count += len(places)
        return places

    def _put(self, entry: TimerEntry, now: int) -> int:
        """Store an entry's message in its real topic, or again in the timer topic if it is due too far ahead.

        :returns: its commit log offset; 0 if it is not stored, because it is deleted, invalid or recalled.
        """
        message = self._message(entry.physical, entry.size)
        if message is None:
            return 0
        if entry.magic & ROLL:
            record = message.next_round(entry.written, now)
        elif self._agenda.is_cancelled(entry.slot, message.real_topic, message.unique_key):
            return 0
        else:
            record = message.delivered(entry.written, now)
        went = self._store.append(record).physical_offset
        self.metrics.add(message.real_topic, -1, now)
        self.dequeued.count += 1
        return went

    def _advance_read_time(self, now: int) -> None:
        """Advance ``_read_ms`` past slots that are over and whose messages are all delivered."""
        for _ in range(_SLOTS_AT_ONCE):
            slot = self._read_ms
            if slot + self._precision > now or slot >= self._loaded_ms or not self._agenda.is_complete(slot):
                return
            self._agenda.forget(slot)
            self._read_ms = slot + self._precision

    # -- checkpoint

    def _record_progress(self, files: TimerFiles, now: int) -> None:
        """Record delivery progress in the checkpoint as soon as the delivered messages are on disk."""
        read_ms, end = self._delivered
        if self._store.flushed_offset >= end:
            files.check.read_ms = max(files.check.read_ms, read_ms)
            self._delivered = (self._read_ms, self._store.max_physical_offset)
        self._flush(files, now)

    def _flush(self, files: TimerFiles, now: int) -> None:
        """Start a flush of the timer files every ``timerFlushIntervalMs``, and write the checkpoint."""
        files.poll_flush()
        if now - self._flushed_ms >= self._config.timer_flush_interval_ms:
            self._flushed_ms = now
            files.flush(self._queue_offset)
            self.enqueued.sample(now)
            self.dequeued.sample(now)
            self.metrics.persist()
        self._write_check(files)

    def _write_check(self, files: TimerFiles) -> None:
        check, offset = files.check, self._late.limit(self._queue_offset, files.check.read_ms)
        if check.master_offset != offset:
            check.timestamp, check.counter = self._clock(), check.counter + 1
            check.master_offset = offset
        check.write()

    # -- status

    def checkpoint(self) -> bytes | None:
        """Return the checkpoint as the bytes of its file, for slaves; None if ``timerWheelEnable`` is off."""
        return self._files.check.encode() if self._files is not None else None

    def checkpoint_extension(self) -> TimerCheckPointResponse | None:
        """Return header fields that a slave sends with the checkpoint after it acted as master; None at a master."""
        return None

    @property
    def is_enabled(self) -> bool:
        return self._files is not None

    @property
    def behind_ms(self) -> int:
        """The lag of delivery behind the clock, in milliseconds; 0 if ``timerWheelEnable`` is off."""
        return max(0, self._clock() - self._read_ms) if self._files is not None else 0

    def check_spans(self, now: int, spans: Sequence[int], residency: Residency | None) -> None:
        """Check that :meth:`in_spans` would not wait for the disk.

        :raises NotInMemory: it would.
        """
        if self._files is not None and residency is not None:
            self._files.wheel.check(now, spans[-1] * 1000 // self._precision, residency)

    def in_spans(self, now: int, spans: Sequence[int]) -> Iterator[list[int]]:
        """Count the entries of the wheel by how far they are ahead, in short steps.

        :param spans: seconds, ascending; the first count is that of entries up to the first of them, and so on.
        :returns: the counts so far; they are complete with the last step.
        """
        if self._files is not None:
            yield from self._files.wheel.counts(now, [span * 1000 // self._precision for span in spans])

    @property
    def first_unread(self) -> list[tuple[str, int, int]]:
        """Topic, queue and offset of the first message in the timer topic without an entry; empty if all have one."""
        return [(TIMER_TOPIC, QUEUE, self._queue_offset)] if self.unread > 0 else []

    @property
    def unread(self) -> int:
        """The number of messages in the timer topic without an entry; 0 if ``timerWheelEnable`` is off."""
        return self._store.queue_range(TIMER_TOPIC, QUEUE)[1] - self._queue_offset if self._files is not None else 0


def _is_recall(message: TimedMessage) -> bool:
    """True if a message cancels another one."""
    return message.get(Property.TIMER_DEL_UNIQKEY) is not None
