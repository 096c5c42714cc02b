"""Check-points and acks a Java broker has left in its timer: they move to the revive topic.

Knows the topic of Java's timer, what its messages carry, and from Java's timer checkpoint up to when they have been
delivered. Refuses to know the timer's own files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.pop.revive_log import ReviveLog
from rocketmq_py.broker.send.stored_record import read_stored
from rocketmq_py.errors import BadHeader, CorruptRecord
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.pop_checkpoint import REVIVE_GROUP, CheckPoint, decode_revive
from rocketmq_py.store import MessageStore

_log = logging.getLogger(__name__)

_BATCH = 1024


def take_over_timers(store: MessageStore, offsets: ConsumerOffsets, log: ReviveLog, timer_check: Path) -> None:
    """Write what waits in Java's timer for the revive topic to that topic, once.

    Where this has got to is kept as an offset of the revive group in the timer's topic, which Java leaves alone.

    :param timer_check: Java's ``config/timercheck``.
    """
    first, end = store.queue_range(TIMER_TOPIC, 0)
    at = max(first, offsets.query(REVIVE_GROUP, TIMER_TOPIC, 0))
    if at >= end:
        return
    delivered = _delivered_until(timer_check)
    moved = sum(_move(log, properties, body, delivered) for properties, body in _messages(store, at, end))
    offsets.commit(REVIVE_GROUP, TIMER_TOPIC, 0, end, "revive")
    store.commit_pending()
    offsets.persist()  # at once: after a crash they would be moved again
    if moved:
        _log.info("%d check-points and acks were waiting in the timer of a Java broker", moved)


def _delivered_until(timer_check: Path) -> int:
    """Up to when Java's timer has delivered, in milliseconds; 0 when it never ran."""
    try:
        with timer_check.open("rb") as file:
            return int.from_bytes(file.read(8), "big")
    except FileNotFoundError:
        return 0


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
                _log.error("the timer's message at %d cannot be read and is skipped: %s", physical, e)


def _move(log: ReviveLog, properties: dict[str, str], body: bytes, delivered: int) -> bool:
    """Move one message if it is for the revive topic and Java has not delivered it; whether it was."""
    if properties.get("REAL_TOPIC") != log.topic or int(properties.get("TIMER_OUT_MS", "0")) < delivered:
        return False
    tag, key = properties.get(Property.TAGS, ""), properties.get(Property.UNIQUE_KEY, "")
    try:
        entry = decode_revive(tag, body)
    except BadHeader as e:
        _log.error("an entry of the revive log in Java's timer cannot be read and is skipped: %s", e)
        return False
    if entry is None or (isinstance(entry, CheckPoint) and entry.key in log.ledger):
        return False
    log.take_over(int(properties.get("REAL_QID", "0")), tag, key, body)
    return True
