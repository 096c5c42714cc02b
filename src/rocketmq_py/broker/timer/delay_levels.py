"""Messages that are to be seen later: where they wait, and how they come back (the fixed delay levels).

Knows the schedule topic, its queues and ``delayOffset.json`` (ScheduleMessageService, HookUtils). Refuses to know why a
message is delayed. Time comes in from whoever ticks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rocketmq_py.broker.metadata.java_files import bean, int_keys, version_of
from rocketmq_py.broker.send.message_properties import encode
from rocketmq_py.broker.send.stored_record import StoredRecord, read_stored
from rocketmq_py.core.paths import component_fault
from rocketmq_py.core.timer.delay_levels import DelayLevels, queue_of
from rocketmq_py.errors import CorruptRecord, StoreError
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.sys_flag import HOSTS_V6, TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketmq_py.store import MessageStore, NewRecord
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.wire.fastjson import BareKey
from rocketmq_py.wire.java_hash import tags_code

_log = logging.getLogger(__name__)

_BATCH = 1024
"""Consume queue entries looked at in one go."""
_AT_ONCE = 100
"""Messages of a level delivered in one go; more follow in the next turn of the loop, after who waits for an answer."""


class DelayService:
    """Sends messages to the schedule topic and delivers those that are due.

    :param file: ``delayOffset.json``.
    :param save: writes the file; called every few seconds, so it should not wait for the disk.
    :param version_step: the version of the offsets goes up every so many updates (delayOffsetUpdateVersionStep).
    :param clock: the time in milliseconds, for the version.
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
        self._updates = self._persisted = 0
        self._is_refused = False
        self.version = DataVersion(timestamp=clock())
        self.offsets: dict[int, int] = {}
        """Level to the offset of the first entry not delivered."""

    # -- the file

    def load(self) -> None:
        """Take over what the file holds."""
        tree = self._file.load() or {}
        self.version = version_of(tree, self.version)
        self.offsets = int_keys(tree.get("offsetTable"))

    def persist(self) -> None:
        """Write the file when anything changed since the last time."""
        if self._persisted != self._updates:
            self._persisted = self._updates
            self._save(self._file, self.tree())

    def take_over(self, tree: Any) -> None:
        """Have what a master has.

        :param tree: its answer, which looks as the file does.
        """
        offsets = int_keys(tree.get("offsetTable"))
        self.version = version_of(tree, self.version)
        if offsets != self.offsets:
            self.offsets = offsets
            self._updates += 1

    def catch_up(self, tree: Any) -> None:
        """Go on where a slave that has acted as master has come to, where that is ahead.

        :param tree: its answer, which looks as the file does.
        """
        for level, offset in int_keys(tree.get("offsetTable")).items():
            if offset > self.offsets.get(level, 0):
                self.passed(level, offset)

    def tree(self) -> dict[str, object]:
        """The content of the file, which is also what a slave asks for."""
        return {
            "dataVersion": bean(self.version),
            "offsetTable": {BareKey(level): self.offsets[level] for level in sorted(self.offsets)},
        }

    # -- in

    def redirect(self, record: NewRecord, properties: dict[str, str]) -> None:
        """Make a record wait when its properties ask for a delay level; both are changed then."""
        if not asks_for_level(properties) or record.sys_flag & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
            return
        level = self._levels.clamp(int(properties["DELAY"]))
        properties |= {"DELAY": str(level), "REAL_TOPIC": record.topic, "REAL_QID": str(record.queue_id)}
        record.topic, record.queue_id = names.SCHEDULE_TOPIC, queue_of(level)
        record.properties = encode(properties).encode()
        record.tags_code = self._levels.deliver_time(level, self._store.now())

    # -- out

    def deliver(self, now_ms: int) -> bool:
        """Deliver a part of what is due; whether there may be more."""
        delivered = [
            self._deliver_level(level, now_ms)
            for level in self._levels.levels
            if self._store.has_queue(names.SCHEDULE_TOPIC, queue_of(level))
        ]
        if any(delivered):
            self._store.settle()
        return _AT_ONCE in delivered

    @property
    def levels(self) -> range:
        """All levels."""
        return self._levels.levels

    def due(self, level: int, now_ms: int, most: int = _BATCH) -> Iterator[tuple[int, NewRecord | None]]:
        """The messages of a level whose time has come, each with its place; None for one that is lost.

        They are due until :meth:`passed` is told.

        :param most: how many of them.
        """
        queue_id = queue_of(level)
        offset = self._next_of(level)
        for physical, size, deliver_ms in self._store.tags_entries(names.SCHEDULE_TOPIC, queue_id, offset, most):
            if not self._levels.is_due(level, deliver_ms, now_ms):
                return
            yield offset, self._record(physical, size)
            offset += 1

    def passed(self, level: int, offset: int) -> None:
        """Everything of a level before ``offset`` has been delivered."""
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
        self.passed(level, following)
        return following - start

    def _record(self, physical: int, size: int) -> NewRecord | None:
        raw = self._store.message_at(physical, size)
        try:
            return None if raw is None else restored(read_stored(raw))
        except CorruptRecord as e:
            _log.error("the delayed message at %d cannot be read and is dropped: %s", physical, e)
            return None

    def _deliver(self, record: NewRecord | None) -> bool:
        """Put a message back where it belongs; False when the store refuses for now."""
        try:
            if record is not None:
                self._store.append(record)
        except StoreError as e:
            if not self._is_refused:  # once, and not ten times a second
                _log.warning("delayed messages wait, the store refuses them: %s", e)
            self._is_refused = True
            return False
        self._is_refused = False
        return True

    def _count_update(self) -> None:
        self._updates += 1
        if not self._updates % self._version_step:
            self.version = self.version.bump(self._clock())


def asks_for_level(properties: Mapping[str, str]) -> bool:
    """Whether a message asks for a delay level."""
    text = properties.get("DELAY", "")
    return text.isdecimal() and int(text) > 0


def restored(stored: StoredRecord) -> NewRecord | None:
    """The record of a delayed message at its real topic; None when it has none, or one nobody may send to.

    Properties stay as they are stored, the level included: Java leaves them so.
    """
    properties = decode_properties(stored.properties)
    topic = properties.get("REAL_TOPIC")
    if not topic or topic == names.HALF_TOPIC or component_fault(topic) is not None:
        _log.error("the delayed message at %d has no real topic and is dropped", stored.head.physical_offset)
        return None
    head = stored.head
    return NewRecord(
        topic, int(properties.get("REAL_QID", "0")), stored.body, stored.properties, tags_code(properties.get("TAGS")),
        head.sys_flag & ~HOSTS_V6, head.flag, head.born_timestamp, head.born_host, head.reconsume_times,
        head.prepared_transaction_offset, properties.get("UNIQ_KEY"), properties.get("KEYS"),
    )  # fmt: skip
