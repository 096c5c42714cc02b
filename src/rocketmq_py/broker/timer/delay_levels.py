"""Delayed messages with fixed delay levels: how they wait and how they are delivered (ScheduleMessageService,
HookUtils).

A delayed message waits in the schedule topic, in the queue of its level; ``delayOffset.json`` has the delivery progress
of each level.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rocketmq_py.broker.metadata.java_files import bean, int_keys, version_of
from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.broker.records.stored_record import StoredRecord, read_stored
from rocketmq_py.core.paths import component_fault
from rocketmq_py.core.queue_limits import parse_queue_id
from rocketmq_py.core.timer.delay_levels import DelayLevels, queue_of
from rocketmq_py.errors import CorruptRecord, StoreError
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.sys_flag import HOSTS_V6, TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketmq_py.store import MessageStore, NewRecord
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.wire.fastjson import BareKey
from rocketmq_py.wire.java_hash import tags_code

_log = logging.getLogger(__name__)

_LEVEL_DIGITS = 19
_BATCH = 1024
"""Maximum number of consume queue entries read at once."""
_AT_ONCE = 100
"""Maximum number of messages of a level that one call delivers; more follow in a later turn of the event loop."""


class DelayService:
    """Stores delayed messages in the schedule topic and delivers those that are due.

    :param file: ``delayOffset.json``.
    :param save: writes the file; it is called every few seconds and should not block on the disk.
    :param version_step: the version of the offsets is raised every ``version_step`` updates
        (delayOffsetUpdateVersionStep).
    :param clock: returns the time in milliseconds, for the version.
    """

    def __init__(
        self,
        store: MessageStore,
        levels: DelayLevels,
        file: ConfigFile,
        version_step: int,
        clock: Callable[[], int],
        save: Callable[[ConfigFile, Any], None] = ConfigFile.save,
    ) -> None:
        self._store = store
        self._levels = levels
        self._file = file
        self._save = save
        self._version_step = version_step
        self._clock = clock
        self._read_ahead = store.read_ahead("delay-read")
        self._updates = self._persisted = 0
        self._is_refused = False
        self.version = DataVersion(timestamp=clock())
        self.offsets: dict[int, int] = {}
        """By delay level: the offset of its first undelivered entry in the schedule topic."""

    # -- the file

    def load(self) -> None:
        """Read the file."""
        found = self._file.load(lambda tree: (version_of(tree, self.version), int_keys(tree.get("offsetTable"))))
        if found is not None:
            self.version, self.offsets = found

    def persist(self) -> None:
        """Write the file if anything changed since the last time."""
        if self._persisted != self._updates:
            self._persisted = self._updates
            self._save(self._file, self.tree())

    def close(self) -> None:
        """Stop the thread that loads messages; no message may be delivered afterwards."""
        self._read_ahead.close()

    def take_over(self, tree: Any) -> None:
        """Replace the offsets by those of the master.

        :param tree: the master's answer, in the form of the file.
        """
        offsets = int_keys(tree.get("offsetTable"))
        self.version = version_of(tree, self.version)
        if offsets != self.offsets:
            self.offsets = offsets
            self._updates += 1

    def raise_offsets(self, tree: Any) -> None:
        """Raise offsets to those of a slave that has acted as master, where these are larger.

        :param tree: the slave's answer, in the form of the file.
        """
        for level, offset in int_keys(tree.get("offsetTable")).items():
            if offset > self.offsets.get(level, 0):
                self.commit(level, offset)

    def tree(self) -> dict[str, object]:
        """Return the content of the file, which is also the answer to a slave."""
        return {
            "dataVersion": bean(self.version),
            "offsetTable": {BareKey(level): self.offsets[level] for level in sorted(self.offsets)},
        }

    # -- storing

    def redirect(self, record: NewRecord, properties: dict[str, str]) -> None:
        """Change the topic of a record with a delay level to the schedule topic; changes both arguments, or neither."""
        if not asks_for_level(properties) or record.sys_flag & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
            return
        level = self._levels.clamp(int(properties["DELAY"]))
        properties |= {"DELAY": str(level), "REAL_TOPIC": record.topic, "REAL_QID": str(record.queue_id)}
        record.topic, record.queue_id = names.SCHEDULE_TOPIC, queue_of(level)
        record.properties = encode(properties).encode()
        record.tags_code = self._levels.deliver_time(level, self._store.now())

    # -- delivery

    def deliver(self, now_ms: int) -> bool:
        """Deliver due messages, at most 100 of each level; return True if there may be more.

        A level whose messages are not in memory waits until they are loaded; a later call delivers them.
        """
        delivered = [self._deliver_level(level, now_ms) for level in self.used_levels()]
        if any(delivered):
            self._store.commit_pending()
        return _AT_ONCE in delivered

    def used_levels(self) -> list[int]:
        """The levels that have or had messages, ascending."""
        used = self._store.queue_ids(names.SCHEDULE_TOPIC, map(queue_of, self._levels.levels))
        if not used:
            return []
        return [level for level in self._levels.levels if queue_of(level) in used]

    @property
    def levels(self) -> range:
        """All delay levels."""
        return self._levels.levels

    def due(self, level: int, now_ms: int, most: int = _BATCH) -> Iterator[tuple[int, NewRecord | None]]:
        """Iterate over the due messages of a level with their offsets; None for one that is deleted or damaged.

        They stay due until :meth:`commit` is called. There are none while they are being loaded from disk.

        :param most: the maximum number of messages.
        """
        start = self._next_of(level)
        entries = self._read_ahead.read(
            f"delay level {level}", lambda residency: self._due_entries(level, start, now_ms, most, residency)
        )
        for offset, (physical, size) in enumerate(entries or (), start):
            yield offset, self._record(physical, size)

    def _due_entries(
        self, level: int, start: int, now_ms: int, most: int, residency: Residency | None
    ) -> list[tuple[int, int]]:
        """Return offset in the log and size of the due messages of a level, from queue offset ``start`` on.

        :raises NotInMemory: the messages or their entries are not in memory.
        """
        topic, queue_id, due = names.SCHEDULE_TOPIC, queue_of(level), list[tuple[int, int]]()
        self._store.check_entries(topic, queue_id, start, most, residency)
        for physical, size, deliver_ms in self._store.queue_entries(topic, queue_id, start, most):
            if not self._levels.is_due(level, deliver_ms, now_ms):
                break
            due.append((physical, size))
        self._store.check_records(due, residency)
        return due

    def commit(self, level: int, offset: int) -> None:
        """Mark all messages of a level before ``offset`` as delivered."""
        if offset != self.offsets.get(level):
            self.offsets[level] = offset
            self._count_update()

    def _next_of(self, level: int) -> int:
        first, end = self._store.queue_range(names.SCHEDULE_TOPIC, queue_of(level))
        return min(max(self.offsets.get(level, 0), first), end)

    def _deliver_level(self, level: int, now_ms: int) -> int:
        following = start = self._next_of(level)
        for offset, record in self.due(level, now_ms, _AT_ONCE):
            if not self._deliver(record):
                break
            following = offset + 1
        self.commit(level, following)
        return following - start

    def _record(self, physical: int, size: int) -> NewRecord | None:
        raw = self._store.message_at(physical, size)
        try:
            return None if raw is None else restored(read_stored(raw))
        except CorruptRecord as e:
            _log.error("dropping the delayed message at %d, it cannot be read: %s", physical, e)
            return None

    def _deliver(self, record: NewRecord | None) -> bool:
        """Store a message in its real topic; return False if the store refuses writes. None is skipped."""
        try:
            if record is not None:
                self._store.append(record)
        except StoreError as e:
            if not self._is_refused:  # log once, not ten times a second
                _log.warning("delayed messages wait, the store refuses writes: %s", e)
            self._is_refused = True
            return False
        self._is_refused = False
        return True

    def _count_update(self) -> None:
        self._updates += 1
        if not self._updates % self._version_step:
            self.version = self.version.bump(self._clock())


def asks_for_level(properties: Mapping[str, str]) -> bool:
    """True if the property DELAY is a positive number."""
    text = properties.get("DELAY", "")
    return text.isdecimal() and len(text) <= _LEVEL_DIGITS and int(text) > 0


def restored(stored: StoredRecord) -> NewRecord | None:
    """Build the record of a delayed message for its real topic; None if that is missing, illegal or the half topic.

    Stored properties, the level included, stay as they are, as in Java.
    """
    properties = decode_properties(stored.properties)
    topic, queue_id = properties.get("REAL_TOPIC"), parse_queue_id(properties.get("REAL_QID", "0"))
    if not topic or topic == names.HALF_TOPIC or component_fault(topic) is not None or queue_id is None:
        _log.error(
            "dropping the delayed message at %d, it has no valid real topic or queue", stored.head.physical_offset
        )
        return None
    head = stored.head
    return NewRecord(
        topic, queue_id, stored.body, stored.properties, tags_code(properties.get("TAGS")),
        head.sys_flag & ~HOSTS_V6, head.flag, head.born_timestamp, head.born_host, head.reconsume_times,
        head.prepared_transaction_offset, properties.get("UNIQ_KEY"), properties.get("KEYS"),
    )  # fmt: skip
