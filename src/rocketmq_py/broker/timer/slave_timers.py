"""The timers of a slave: they follow its master's, and while it acts for it what is due goes to other masters.

Knows up to where a slave may write entries, where it begins when it begins to act, what it says of how far it has come,
and what becomes of messages nobody takes. Refuses to know who takes them (``timerescape``) and when it acts (``role``).

A slave that acts goes on at its copy of its master's checkpoint, which is some seconds old, so what came due in these
seconds comes twice, as from a Java slave. What others have taken is marked in its entry. For the wheel's next round no
message can be stored here: what is to go round once more is given to another master to wait there. A slave writes such
an entry into the slot of the time the message was stored: its master's is the same, or a later one if it was slow. So
all that a master has in slots the slave calls delivered was given away.
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
"""How much earlier a slave begins with entries of another round: its master may have been so slow to write its own."""
_VERSIONS_AHEAD = 10
"""A Java master goes by the version of its slave's checkpoint, and has gone on since it was last asked for its own."""


class HandedOn(NamedTuple):
    """A message as another master is to get it.

    :ivar queue_offset: where it waits here.
    :ivar key: what keeps a message and its recall together, where both are to wait there.
    """

    record: NewRecord
    queue_offset: int
    key: str | None = None


class SlaveTimers(Timers):
    """While it acts, every entry that is :meth:`due` is :meth:`taken`, taken by nobody, or comes :meth:`back`."""

    _acts = False
    _acted_from: int | None = None
    """Since when, in slots; None when all this slave knows is what its master has told it."""
    _from_ms = 0
    _untaken: UndeliveredEntries
    _to_mark: list[int]

    def load(self, messages_end: int) -> None:
        """Open the files and find out where things stand, as far as they tell."""
        super().load(messages_end)
        self._untaken, self._to_mark = UndeliveredEntries(), []
        if self._files is not None:
            self._told += (_known(self._files),)

    def close(self) -> None:
        """Leave files with which this broker, or a Java broker, goes on."""
        if self._files is not None:
            self._mark(self._files)
        super().close()

    # -- following

    def tick(self, now: int) -> bool:
        """Write entries as far as the master has; while it acts, write all there are and look what is due.

        :raises OSError: the files cannot be written.
        """
        files = self._files
        if files is None:
            return False
        self._mark(files)
        if self._acts:
            return super().tick(now)
        self._queue_offset = max(self._queue_offset, self._store.queue_range(TIMER_TOPIC, QUEUE)[0])
        count = min(AT_ONCE, files.check.master_offset - self._queue_offset)
        if count > 0:
            self._enqueue(files, now, count)
        self._flush(files, now)
        return False

    def _mark(self, files: TimerFiles) -> None:
        """Note in entries that others have their messages."""
        positions, self._to_mark = sorted(self._to_mark), []
        files.log.mark([(position, ELSEWHERE) for position in positions])

    def take_over(self, check: bytes, more: TimerCheckPointResponse | None = None) -> None:
        """The master's checkpoint has come: what it has delivered will not be delivered here.

        Of no interest while this slave acts: a master that is back asks it.
        """
        del more  # what only slaves tell
        files = self._files
        if files is None or self._acts:
            return
        files.check.follow(check)
        self._told = (_known(files),)
        self._acted_from, self._untaken = None, UndeliveredEntries()
        self._go_on(files.check.read_ms)

    def _go_on(self, read_ms: int) -> None:
        self._agenda, self._reading, self._late = Agenda(), None, LateEntries()
        self._read_ms = self._loaded_ms = read_ms

    def _is_left_out(self, message: TimedMessage) -> bool:
        """What a Java master knows of pops waits in its timer, and is needed when it does not come back."""
        del message
        return False

    def _placed_at(self, message: TimedMessage, now: int) -> int:
        del now
        return message.head.store_timestamp

    def _write_check(self, files: TimerFiles) -> None:
        if self._acts:
            super()._write_check(files)
        else:  # it says what its master has said
            files.check.write()

    # -- acting

    def begin(self) -> None:
        """This slave acts for its master from now on."""
        files = self._files
        if files is None:
            return
        oldest = self._clock() // self._precision * self._precision - self._horizon
        self._from_ms = max(files.check.read_ms, oldest)
        rounds_from = max(self._from_ms - _BEFORE_MS, oldest)
        if self._acted_from is None:
            self._acted_from = rounds_from
        self._acts, self._untaken = True, UndeliveredEntries()
        self._go_on(self._from_ms)
        self._loaded_ms = rounds_from
        files.check.counter += _VERSIONS_AHEAD

    def end(self) -> None:
        """It does not act any more. What it has said stays true until its master says more."""
        files = self._files
        if files is not None and self._acts:
            self._acts = False
            self._go_on(files.check.read_ms)

    def _take_over(self, unit: TimerUnit, position: int) -> None:
        if unit.slot < self._from_ms:
            if not unit.magic & ROLL:
                return
            unit = unit._replace(delay=self._from_ms - unit.written)  # the first slot is not over without it
        super()._take_over(unit, position)

    def _deliver(self, files: TimerFiles, now: int) -> bool:
        """Nothing can be stored here."""
        del files, now
        return False

    def _note(self, files: TimerFiles, now: int) -> None:
        """Tell in the checkpoint what others have taken; a Java broker takes all of it for delivered."""
        first = self._untaken.first_slot
        read_ms = max(self._from_ms, self._read_ms if first is None else min(first, self._read_ms))
        if read_ms != files.check.read_ms:
            files.check.read_ms = read_ms
            files.check.timestamp, files.check.counter = now, files.check.counter + 1
        self._flush(files, now)

    def more_of_checkpoint(self) -> TimerCheckPointResponse | None:
        """What lets a master of this project go on without all that others have taken."""
        if self._files is None or self._acted_from is None or self._read_ms <= self._from_ms:
            return None  # nothing was given to others, or not all that was due before the first slot of its own
        waiting = ",".join(map(str, self._untaken.places()))
        return TimerCheckPointResponse(delivered_before=self._read_ms, waiting=waiting, acted_from=self._acted_from)

    # -- what others take

    def due(self, now: int, most: int) -> list[TimerEntry]:
        """The next entries that are due."""
        return [] if self._config.timer_stop_dequeue else self._agenda.take(now, most)

    def untaken(self) -> list[TimerEntry]:
        """Entries that are due, and nobody has taken them so far. It does no harm not to try again."""
        return [] if self._config.timer_stop_dequeue else list(self._untaken)

    def handed_on(self, entry: TimerEntry, now: int) -> HandedOn | None:
        """What another master gets for an entry; None when its message is gone, or taken back."""
        message = self._message(entry.physical, entry.size)
        if message is None:
            return None
        if entry.magic & ROLL:
            due_ms = rules.due_ms(message, message.out_ms, message.head.store_timestamp, self._precision)
            if entry.magic & DELETE and due_ms <= now:  # nobody takes it any more, and nothing is left to take back
                return None
            return HandedOn(message.elsewhere(due_ms), message.head.queue_offset, message.unique_key)
        if self._agenda.is_cancelled(entry.slot, message.real_topic, message.unique_key):
            return None
        return HandedOn(message.delivered(entry.written, now), message.head.queue_offset)

    def taken(self, entry: TimerEntry, topic: str | None, now: int) -> None:
        """Another master has a message of this topic, or there is no message any more."""
        if entry in self._untaken:
            self._untaken.done(entry)
        else:
            self._agenda.done([entry])
        if topic is not None:
            self.metrics.add(topic, -1, now)
            self.dequeued.count += 1
        self._to_mark.append(entry.position)

    def nobody_takes(self, entry: TimerEntry, again_ms: int) -> None:
        """No other master takes a message for now. Of very many, those of the next slots wait for a better time."""
        if entry in self._untaken:
            return
        message = self._message(entry.physical, entry.size)
        if message is None or self._untaken.add(entry, message.head.queue_offset):
            self._agenda.done([entry])
        else:
            self._agenda.back([entry._replace(due=again_ms)])

    def back(self, entries: Iterable[TimerEntry]) -> None:
        """Nobody knows whether another master has these messages."""
        self._agenda.back(entry for entry in entries if entry not in self._untaken)


def _known(files: TimerFiles) -> DeliveryProgress:
    """What the master has said last, or this slave when it acted."""
    return DeliveryProgress(files.check.master_offset, files.check.read_ms)
