"""What a crash leaves of transactions: copies that checks have stored, and commits whose op message was lost.

A check stores an open half message again, and the progress of checks is persisted later. After a crash in between, both
are in the half topic; Java's broker asks for each of them, so a transaction can be committed twice. A copy is known by
its properties and is in everything else like its original; so :func:`join_copies` makes one transaction of them again.

A commit stores the real message at once, and the op message, together with those of other transactions, up to
transactionOpBatchInterval later. After a crash in between, the real message is delivered but its half message looks
open; Java's broker checks such a transaction and delivers it again. The real message contains the position of its half
message (preparedTransactionOffset) and follows it in the log; so this module scans the log from the first half message
that looks open. That is not far: a check stores open half messages again at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from rocketmq_py.broker.records.stored_record import StoredRecord, read_stored
from rocketmq_py.core.transaction.table import OPEN, TransactionTable
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol import names
from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketmq_py.store import MessageStore

_log = logging.getLogger(__name__)

_QUEUE = 0


def committed(store: MessageStore, table: TransactionTable) -> list[int]:
    """Return queue offsets of the half messages that look open although their real messages are in the log."""
    end = store.queue_range(names.HALF_TOPIC, _QUEUE)[1]
    first = table.next_open(end)
    start = store.physical_offset(names.HALF_TOPIC, _QUEUE, first) if first < end else None
    if start is None:
        return []
    ends: list[int] = []
    places: dict[str, int] = {}
    for place in _finals(store, start):
        half = _half(store, place)
        if half is None:
            continue
        offset = half.head.queue_offset
        if offset >= table.base:
            if table.outcome(offset) != OPEN:
                continue
            ends.append(offset)
        places[decode_properties(half.properties).get(Property.UNIQUE_KEY, "")] = place
    if places:
        ends += _copies(store, table, places, range(first, end))
    if ends:
        _log.info("recovered %d transactions that were committed just before the crash", len(ends))
    return ends


def join_copies(store: MessageStore, table: TransactionTable) -> None:
    """Let the latest copy of each half message stand for all earlier ones that look open."""
    end = store.queue_range(names.HALF_TOPIC, _QUEUE)[1]
    known: dict[_Identity, int] = {}
    for offset in range(table.next_open(end), end):
        raw = store.record_at_queue(names.HALF_TOPIC, _QUEUE, offset)
        if raw is None:
            continue
        is_copy = any(name in raw for name in _COPIED_BYTES)
        if not is_copy and table.outcome(offset) != OPEN:
            continue
        half = _read(raw)
        if half is None:
            continue
        identity, is_copy = _identity(half)
        earlier = known.get(identity) if is_copy else None
        if earlier is not None:
            table.replace(earlier, offset)
        known[identity] = offset


_Identity = tuple[str, int, bytes, bytes]


def _identity(half: StoredRecord) -> tuple[_Identity, bool]:
    """What a half message has in common with its copies only, and whether it is a copy."""
    properties = decode_properties(half.properties)
    head = half.head
    key = properties.get(Property.UNIQUE_KEY, "")
    return (key, head.born_timestamp, head.born_host, half.body), not _COPIED.isdisjoint(properties)


def _finals(store: MessageStore, start: int) -> Iterable[int]:
    """Yield the log offsets of the half messages of all real messages (committed ones) in the log from ``start`` on."""
    for found in store.scan(start):
        if found.sys_flag & TRANSACTION_MASK != TRANSACTION_COMMIT:
            continue
        raw = store.message_at(found.physical_offset, found.size)
        if raw is not None:
            yield read_stored(raw).head.prepared_transaction_offset


def _half(store: MessageStore, place: int) -> StoredRecord | None:
    """Read the half message at a commit log offset; None if there is none."""
    raw = store.message_at(place)
    # None: its file was deleted, or the message that refers to it is no real message
    half = None if raw is None else _read(raw)
    return half if half is not None and half.topic == names.HALF_TOPIC else None


def _read(raw: bytes) -> StoredRecord | None:
    """A stored half message; None for one that is damaged."""
    try:
        return read_stored(raw)
    except CorruptRecord:
        return None


def _copies(store: MessageStore, table: TransactionTable, committed: dict[str, int], halves: range) -> Iterable[int]:
    """Yield the queue offsets of open half messages that are copies, stored by checks, of committed ones.

    :param committed: log offsets of the committed half messages by unique key.
    :param halves: the queue offsets to search.
    """
    for offset in halves:
        raw = store.record_at_queue(names.HALF_TOPIC, _QUEUE, offset) if table.outcome(offset) == OPEN else None
        if raw is None:
            continue
        half = read_stored(raw)
        properties = decode_properties(half.properties)
        place = committed.get(properties.get(Property.UNIQUE_KEY, ""))
        if place is not None and place < half.head.physical_offset and not _COPIED.isdisjoint(properties):
            yield offset


_COPIED = frozenset({Property.TRANSACTION_CHECK_TIMES, Property.TRANSACTION_PREPARED_OFFSET})
"""Properties that only a copy stored by a check has."""
_COPIED_BYTES = [name.encode() for name in _COPIED]
