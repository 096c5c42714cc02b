"""Timers of a slave: they follow the master's progress; while the slave acts as master, due messages go to other
masters.

A slave that begins to act continues at its copy of the master's checkpoint, which is some seconds old: messages that
came due in these seconds are delivered twice, as by a Java slave. Entries whose messages another master took are
marked. A slave cannot store messages for the wheel's next round; another master gets them and keeps them waiting. The
entry of such a message goes to the slot of its store time; the master's entry is in the same slot, or a later one if
the master was slow. So everything in slots that the slave reports as delivered was sent to another master.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rocketmq_py.broker.timer.timed_message import QUEUE, TimedMessage
from rocketmq_py.broker.timer.timer_files import TimerFiles
from rocketmq_py.broker.timer.timers import AT_ONCE, Timers
from rocketmq_py.core.timer import timers as rules
from rocketmq_py.core.timer.progress import DeliveryProgress, LateEntries, UndeliveredEntries
from rocketmq_py.core.timer.timers import DELETE, ROLL, Agenda, TimerEntry
from rocketmq_py.protocol.headers.cluster import TimerCheckPointResponse
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.store import NewRecord
from rocketmq_py.store.timer.timer_wheel import ELSEWHERE, TimerUnit

_BEFORE_MS = 10_000
"""A slave that begins to act reads entries for the wheel's next round from this much earlier, because the master may
have written its entries this late.
"""
_VERSIONS_AHEAD = 10
"""Added to the checkpoint's version when a slave begins to act, so that it is newer than a Java master's own."""


class EscapedMessage(NamedTuple):
    """A timed message in the form in which another master gets it.

    :ivar queue_offset: its offset in the timer topic of this slave.
    :ivar key: messages with the same key go to the same master, so that a recall meets its message there.
    """

    record: NewRecord
    queue_offset: int
    key: str | None = None


class SlaveTimers(Timers):
    """The timers of a slave.

    While it acts as master, the caller sends the messages of the entries that :meth:`due` returns to other masters, and
    reports each entry by :meth:`mark_taken` (another master has stored it), :meth:`mark_untaken` (no master accepts it
    now) or :meth:`put_back` (unknown).
    """

    _is_acting = False
    _acted_from: int | None = None
    """The first slot for which this slave has acted, in milliseconds; None if it knows only what its master reported.
    """
    _from_ms = 0
    _untaken: UndeliveredEntries
    _to_mark: list[int]

    def load(self, messages_end: int) -> None:
        """Open the files and restore the state."""
        super().load(messages_end)
        self._untaken, self._to_mark = UndeliveredEntries(), []
        if self._files is not None:
            self._delivered_reports += (_reported_progress(self._files),)

    def close(self) -> None:
        """Close the files in a state with which this broker or a Java broker can continue."""
        if self._files is not None:
            self._mark(self._files)
        super().close()

    # -- following the master

    def tick(self, now: int) -> bool:
        """Write entries for new messages; return True if there may be more to do.

        While this slave acts as master, that is done for all messages, and entries due soon are loaded. Otherwise it is
        done only for messages that the master also has an entry for, and the result is False.

        :param now: milliseconds since the epoch.
        :raises OSError: the files cannot be written.
        """
        files = self._files
        if files is None:
            return False
        self._mark(files)
        if self._is_acting:
            return super().tick(now)
        self._queue_offset = max(self._queue_offset, self._store.queue_range(TIMER_TOPIC, QUEUE)[0])
        count = min(AT_ONCE, files.check.master_offset - self._queue_offset)
        if count > 0:
            self._enqueue(files, now, count)
        self._flush(files, now)
        return False

    def _mark(self, files: TimerFiles) -> None:
        """Mark entries in the timer log whose messages other masters have stored."""
        positions, self._to_mark = sorted(self._to_mark), []
        files.log.mark([(position, ELSEWHERE) for position in positions])

    def take_over(self, check: bytes, more: TimerCheckPointResponse | None = None) -> None:
        """Apply the master's checkpoint: messages that the master has delivered are not delivered here.

        Ignored while this slave acts as master: a returning master fetches the slave's checkpoint instead.
        """
        del more  # only slaves send it
        files = self._files
        if files is None or self._is_acting:
            return
        files.check.take_master_state(check)
        self._delivered_reports = (_reported_progress(files),)
        self._acted_from, self._untaken = None, UndeliveredEntries()
        self._restart_at(files.check.read_ms)

    def _restart_at(self, read_ms: int) -> None:
        self._agenda, self._reading, self._late = Agenda(), None, LateEntries()
        self._read_ms = self._loaded_ms = read_ms

    def _is_not_delivered_here(self, message: TimedMessage) -> bool:
        """Return False: an acting slave needs the entries of the revive log that a Java master has in its timer."""
        del message
        return False

    def _placement_time(self, message: TimedMessage, now: int) -> int:
        del now
        return message.head.store_timestamp

    def _write_check(self, files: TimerFiles) -> None:
        if self._is_acting:
            super()._write_check(files)
        else:  # it reports what its master has reported
            files.check.write()

    # -- acting as master

    def start_acting(self) -> None:
        """Begin to act as master: load due entries from the master's last reported progress on."""
        files = self._files
        if files is None:
            return
        oldest = self._clock() // self._precision * self._precision - self._horizon
        self._from_ms = max(files.check.read_ms, oldest)
        rounds_from = max(self._from_ms - _BEFORE_MS, oldest)
        if self._acted_from is None:
            self._acted_from = rounds_from
        self._is_acting, self._untaken = True, UndeliveredEntries()
        self._restart_at(self._from_ms)
        self._loaded_ms = rounds_from
        files.check.counter += _VERSIONS_AHEAD

    def stop_acting(self) -> None:
        """Stop acting as master. The reported progress stays valid until the master reports more."""
        files = self._files
        if files is not None and self._is_acting:
            self._is_acting = False
            self._restart_at(files.check.read_ms)

    def _load_entry(self, unit: TimerUnit, position: int) -> None:
        if unit.slot < self._from_ms:
            if not unit.magic & ROLL:
                return
            unit = unit._replace(delay=self._from_ms - unit.written)  # until then the first slot is not complete
        super()._load_entry(unit, position)

    def _deliver(self, files: TimerFiles, now: int) -> bool:
        """Do nothing: a slave cannot store messages."""
        del files, now
        return False

    def _record_progress(self, files: TimerFiles, now: int) -> None:
        """Record in the checkpoint up to which slot other masters have stored all messages.

        A Java master treats these messages as delivered.
        """
        first = self._untaken.first_slot
        read_ms = max(self._from_ms, self._read_ms if first is None else min(first, self._read_ms))
        if read_ms != files.check.read_ms:
            files.check.read_ms = read_ms
            files.check.timestamp, files.check.counter = now, files.check.counter + 1
        self._flush(files, now)

    def checkpoint_extension(self) -> TimerCheckPointResponse | None:
        """Return header fields for a master of this project: which due messages no other master has stored.

        None if this slave has not acted as master, or has not sent all messages that were due before it began.
        """
        if self._files is None or self._acted_from is None or self._read_ms <= self._from_ms:
            return None  # nothing was sent to others, or not everything that was due before the slave's first slot
        waiting = ",".join(map(str, self._untaken.places()))
        return TimerCheckPointResponse(delivered_before=self._read_ms, waiting=waiting, acted_from=self._acted_from)

    # -- messages for other masters

    def due(self, now: int, most: int) -> list[TimerEntry]:
        """Remove and return at most ``most`` entries that are due at ``now`` (ms).

        There are none with ``timerStopDequeue``, and while their messages are being loaded from disk.
        """
        if self._files is None or self._config.timer_stop_dequeue:
            return []
        return self._take_due(self._files, now, most)

    def untaken(self) -> list[TimerEntry]:
        """Return the due entries whose messages no other master has accepted yet; none with ``timerStopDequeue``."""
        return [] if self._config.timer_stop_dequeue else list(self._untaken)

    def escaped_message(self, entry: TimerEntry, now: int) -> EscapedMessage | None:
        """Build the message to send to another master for an entry; None if the message is deleted or recalled."""
        message = self._message(entry.physical, entry.size)
        if message is None:
            return None
        if entry.magic & ROLL:
            due_ms = rules.due_ms(message, message.out_ms, message.head.store_timestamp, self._precision)
            if entry.magic & DELETE and due_ms <= now:  # the recall is due, so its message was delivered
                return None
            return EscapedMessage(message.waiting_elsewhere(due_ms), message.head.queue_offset, message.unique_key)
        if self._agenda.is_cancelled(entry.slot, message.real_topic, message.unique_key):
            return None
        return EscapedMessage(message.delivered(entry.written, now), message.head.queue_offset)

    def mark_taken(self, entry: TimerEntry, topic: str | None, now: int) -> None:
        """Record that another master has stored the message of an entry.

        :param topic: the message's topic; None if the message is deleted or recalled.
        """
        if entry in self._untaken:
            self._untaken.done(entry)
        else:
            self._agenda.done([entry])
        if topic is not None:
            self.metrics.add(topic, -1, now)
            self.dequeued.count += 1
        self._to_mark.append(entry.position)

    def mark_untaken(self, entry: TimerEntry, retry_ms: int) -> None:
        """Record that no other master accepts the message of an entry for now; :meth:`untaken` returns it from then on.

        :param retry_ms: when the entry becomes due again instead, in milliseconds since the epoch, if :meth:`untaken`
            has too many entries already.
        """
        if entry in self._untaken:
            return
        message = self._message(entry.physical, entry.size)
        if message is None or self._untaken.add(entry, message.head.queue_offset):
            self._agenda.done([entry])
        else:
            self._agenda.back([entry._replace(due=retry_ms)])

    def put_back(self, entries: Iterable[TimerEntry]) -> None:
        """Make entries due again for which it is unknown whether another master has the message."""
        self._agenda.back(entry for entry in entries if entry not in self._untaken)


def _reported_progress(files: TimerFiles) -> DeliveryProgress:
    """Return the delivery progress last reported by the master, or by this slave while it acted as master."""
    return DeliveryProgress(files.check.master_offset, files.check.read_ms)
