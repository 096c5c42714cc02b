"""Content of a store on disk as plain values that a tool can print: a summary, its queues, its records.

The functions read an :class:`~rocketmq_py.store.tools.offline.OfflineStore` and show its content without a check;
``verify`` checks it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

from rocketmq_py.errors import CorruptRecord, StoreError
from rocketmq_py.model import MessageExt
from rocketmq_py.store.log.scan import LogScan
from rocketmq_py.store.queue.consume_queue import is_blank
from rocketmq_py.store.tools.offline import OfflineStore, QueueView
from rocketmq_py.wire.record import decode_record

Row = dict[str, Any]

_PREVIEW = 64


def overview(store: OfflineStore) -> Row:
    """Summary of a store. Times are milliseconds since the epoch, None in an empty store."""
    log = store.log
    times = [next(iter(LogScan(log, start)), None) for start in log.starts]
    first = next((found.store_timestamp for found in times if found is not None), None)
    end, newest = _end(store)
    return {
        "store": str(store.layout.root),
        "state": store.state,
        "logBegin": log.min_offset,
        "logEnd": end,
        "logFiles": len(log.starts),
        "logFileSize": log.file_size,
        "oldestMessage": first,
        "newestMessage": newest,
        "topics": len({topic for topic, _ in store.queues}),
        "queues": len(store.queues),
        "indexFiles": len(store.indexes),
        "configFiles": [name for name in store.fs.names(store.layout.config) if name.endswith(".json")],
    }


def _end(store: OfflineStore) -> tuple[int, int | None]:
    """End of the log and store timestamp of its newest record, found by a scan of the last file that has records."""
    for start in reversed(store.log.starts):
        scan, newest = LogScan(store.log, start, check_crc=False), None
        for found in scan:
            newest = found.store_timestamp
        if newest is not None:
            return scan.end, newest
    return store.log.min_offset, None


def queues(store: OfflineStore, topic: str | None = None) -> list[Row]:
    """Topic, id, offset range and number of messages of all queues, or of those of a topic.

    :raises StoreError: there is no such topic.
    """
    found = [view for key, view in sorted(store.queues.items()) if topic in (None, key[0])]
    if topic is not None and store.has_batch_queues(topic):
        raise StoreError(f"topic {topic!r} has batch consume queues, which cannot be shown yet; its records can")
    if topic is not None and not found:
        known = ", ".join(sorted({name for name, _ in store.queues})) or "none"
        raise StoreError(f"the store has no consume queue of topic {topic!r}; it has those of {known}")
    return [
        {"topic": view.topic, "queue": view.queue_id, "min": view.min, "max": view.end, "messages": view.end - view.min}
        for view in found
    ]


def messages(store: OfflineStore, topic: str, queue_id: int, offset: int | None, count: int) -> Iterator[Row]:
    """Iterate over the messages of a queue; a row has ``error`` if its record is missing or damaged.

    :param offset: offset of the first message; None starts at the oldest.
    :param count: maximum number of messages.
    :raises StoreError: there is no such queue.
    """
    view = store.queues.get((topic, queue_id))
    if view is None:
        ids = ", ".join(str(row["queue"]) for row in queues(store, topic))
        raise StoreError(f"topic {topic!r} has no queue {queue_id} in this store; it has {ids}")
    return _messages(store, view, view.min if offset is None else offset, count)


def _messages(store: OfflineStore, view: QueueView, offset: int, count: int) -> Iterator[Row]:
    first = max(offset, view.begin)
    for number, (physical, size, code) in enumerate(view.read(first, count), first):
        row: Row = {"offset": number, "physical": physical, "size": size, "tagsCode": code}
        if is_blank((physical, size, code)):
            yield {**row, "error": "no message: a filler entry"}
        else:
            yield {**row, **record(store, physical)}


def record(store: OfflineStore, physical: int) -> Row:
    """Fields of the record at an offset of the log; the row has ``error`` if there is none or it is damaged."""
    raw = store.record(physical)
    if raw is None:
        return {"physical": physical, "error": _why_none(store, physical)}
    try:
        return _message(decode_record(raw), len(raw))
    except CorruptRecord as e:
        return {"physical": physical, "size": len(raw), "error": str(e)}


def _why_none(store: OfflineStore, physical: int) -> str:
    if store.log.start_at_or_before(physical) is None:
        return f"it has expired: the log begins at {store.log.min_offset}"
    if physical >= store.log.end:
        return "the log has no such offset"
    scan = LogScan(store.log, physical)
    found = next(iter(scan), None)
    if found is not None:
        return f"the file ends before this offset: the next record is at {found.physical_offset}"
    return scan.reason or "nothing was written there"


def _message(message: MessageExt, size: int) -> Row:
    head = message.head
    return {
        "physical": head.physical_offset,
        "size": size,
        "topic": message.topic,
        "queue": head.queue_id,
        "offset": head.queue_offset,
        "msgId": message.msg_id,
        "offsetMsgId": message.offset_msg_id,
        "stored": head.store_timestamp,
        "born": head.born_timestamp,
        "bornHost": _host(head.born_host),
        "storeHost": _host(head.store_host),
        "sysFlag": head.sys_flag,
        "flag": head.flag,
        "reconsumeTimes": head.reconsume_times,
        "preparedTransactionOffset": head.prepared_transaction_offset,
        "properties": dict(message.properties),
        "bodySize": len(message.body),
        "body": preview(message.body),
    }


def _host(packed: bytes) -> str:
    """Return ``ip:port`` of a packed host: 4 or 16 bytes of address, 4 bytes of port."""
    address, port = packed[:-4], int.from_bytes(packed[-4:], "big")
    if len(address) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, address)}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, address)}]:{port}"


def preview(body: bytes) -> str:
    """First bytes of a body as text, or in hexadecimal if they are not text."""
    part = body[:_PREVIEW]
    more = "…" if len(body) > _PREVIEW else ""
    try:
        text = part.decode()
    except UnicodeDecodeError as e:
        # The last character may be cut; the rest is still text.
        text = part[: e.start].decode() if more and e.start > _PREVIEW - 4 else ""
    return text + more if text.isprintable() and (text or not body) else f"0x{part.hex()}{more}"
