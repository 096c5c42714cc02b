"""Commits whose op message a crash kept from being written: the real messages in the log tell of them.

A commit stores the real message at once and the op message, together with those of other transactions, up to
transactionOpBatchInterval later. A broker that dies in between has delivered a message whose half message looks open.
Apache RocketMQ's broker asks about it and delivers it once more. The real message says where its half message lies
(preparedTransactionOffset), and lies behind it in the log; so what has ended is found again by looking through the log
from the first half message on that seems open. That is not far: a check stores what stays open again at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from rocketmq_py.broker.send.stored_record import StoredRecord, read_stored
from rocketmq_py.core.transaction.table import OPEN, TransactionTable
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol import names
from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketmq_py.store import MessageStore

_log = logging.getLogger(__name__)

_QUEUE = 0


def committed(store: MessageStore, ledger: TransactionTable) -> list[int]:
    """Queue offsets of the half messages that seem open although their messages are in the log."""
    end = store.queue_range(names.HALF_TOPIC, _QUEUE)[1]
    first = ledger.next_open(end)
    start = store.place(names.HALF_TOPIC, _QUEUE, first) if first < end else None
    if start is None:
        return []
    ends: list[int] = []
    places: dict[str, int] = {}
    for place in _finals(store, start):
        half = _half(store, place)
        if half is None:
            continue
        offset = half.head.queue_offset
        if offset >= ledger.base:
            if ledger.outcome(offset) != OPEN:
                continue
            ends.append(offset)
        places[decode_properties(half.properties).get(Property.UNIQUE_KEY, "")] = place
    if places:
        ends += _copies(store, ledger, places, range(first, end))
    if ends:
        _log.info("%d transactions were committed before the crash, though it was not written down yet", len(ends))
    return ends


def _finals(store: MessageStore, start: int) -> Iterable[int]:
    """Where the half messages lie of which real messages follow in the log."""
    for found in store.scan(start):
        if found.sys_flag & TRANSACTION_MASK != TRANSACTION_COMMIT:
            continue
        raw = store.message_at(found.physical_offset, found.size)
        if raw is not None:
            yield read_stored(raw).head.prepared_transaction_offset


def _half(store: MessageStore, place: int) -> StoredRecord | None:
    """The half message there, if there is one."""
    raw = store.message_at(place)
    try:
        half = read_stored(raw) if raw is not None else None
    except CorruptRecord:
        return None  # its file has been removed, or what says so is no real message
    return half if half is not None and half.topic == names.HALF_TOPIC else None


def _copies(store: MessageStore, ledger: TransactionTable, committed: dict[str, int], halves: range) -> Iterable[int]:
    """The copies, made by checks, of half messages that were committed by an earlier place."""
    for offset in halves:
        raw = store.record_at_queue(names.HALF_TOPIC, _QUEUE, offset) if ledger.outcome(offset) == OPEN else None
        if raw is None:
            continue
        half = read_stored(raw)
        properties = decode_properties(half.properties)
        place = committed.get(properties.get(Property.UNIQUE_KEY, ""))
        if place is not None and place < half.head.physical_offset and not _COPIED.isdisjoint(properties):
            yield offset


_COPIED = frozenset({Property.TRANSACTION_CHECK_TIMES, Property.TRANSACTION_PREPARED_OFFSET})
"""What only a half message has that was stored again."""
