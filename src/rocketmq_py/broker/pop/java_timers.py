"""Moves check-points and acks that a Java broker left in its timer to the revive topic.

A Java broker sends both through its timer topic. Its timer checkpoint says up to when they were delivered.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.pop.revive_log import ReviveLog
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.core.queue_limits import parse_queue_id
from rocketmq_py.core.transaction.check import int_property
from rocketmq_py.errors import BadHeader, CorruptRecord
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.pop_checkpoint import REVIVE_GROUP, CheckPoint, decode_revive
from rocketmq_py.store import FileSystem, MessageStore

_log = logging.getLogger(__name__)

_BATCH = 1024


def move_java_timers(
    store: MessageStore, offsets: ConsumerOffsets, log: ReviveLog, fs: FileSystem, timer_check: Path
) -> None:
    """Append the check-points and acks that Java's timer has not delivered to the revive topic, each one once.

    The next call continues behind the last one moved; that offset is stored as the revive group's offset in the timer
    topic, which Java does not use.

    :param fs: the file system of the store.
    :param timer_check: Java's ``config/timercheck``.
    """
    first, end = store.queue_range(TIMER_TOPIC, 0)
    at = max(first, offsets.query(REVIVE_GROUP, TIMER_TOPIC, 0))
    if at >= end:
        return
    delivered = _delivered_until(fs.read(timer_check))
    moved = sum(_move(log, properties, body, delivered) for properties, body in _messages(store, at, end))
    offsets.commit(REVIVE_GROUP, TIMER_TOPIC, 0, end, "revive")
    store.commit_pending()
    offsets.persist()  # now: after a crash they would be moved again
    if moved:
        _log.info("moved %d check-points and acks from the timer of a Java broker to the revive topic", moved)


def _delivered_until(timer_check: bytes | None) -> int:
    """Return the time up to which Java's timer has delivered, in milliseconds since the epoch; 0 if it never ran."""
    return int.from_bytes((timer_check or b"")[:8], "big")


def _messages(store: MessageStore, at: int, end: int) -> Iterator[tuple[dict[str, str], bytes]]:
    while at < end:
        entries = store.queue_entries(TIMER_TOPIC, 0, at, _BATCH)
        if not entries:
            return
        at += len(entries)
        for physical, size, _ in entries:
            raw = store.message_at(physical, size)
            try:
                if raw is not None:
                    stored = read_stored(raw)
                    yield decode_properties(stored.properties), stored.body
            except CorruptRecord as e:
                _log.error("skipping the timer message at %d, it cannot be read: %s", physical, e)


def _move(log: ReviveLog, properties: dict[str, str], body: bytes, delivered: int) -> bool:
    """Move one message if it is for the revive topic and Java has not delivered it; return True if it was moved.

    :param delivered: the time up to which Java has delivered, in milliseconds.
    """
    if properties.get("REAL_TOPIC") != log.topic or max(0, int_property(properties.get("TIMER_OUT_MS"))) < delivered:
        return False
    tag, key = properties.get(Property.TAGS, ""), properties.get(Property.UNIQUE_KEY, "")
    try:
        entry = decode_revive(tag, body)
    except BadHeader as e:
        _log.error("skipping an entry of the revive log in Java's timer, it cannot be read: %s", e)
        return False
    if entry is None or (isinstance(entry, CheckPoint) and entry.key in log.inflight):
        return False
    log.move_here(parse_queue_id(properties.get("REAL_QID")) or 0, tag, key, body)
    return True
