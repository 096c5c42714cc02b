"""Repair of a store on disk, of this broker or of Apache RocketMQ, so that either serves everything that is whole.

What is damaged in the commit log is taken from a replica if one is given (``heal``). The rest is replaced by filler
records, which no queue has, so that every broker can read from the first record to the last. Consume queues, index and
checkpoint are rebuilt from the log. Every file that changes is first kept below ``replaced`` in the store, which is
renamed to ``replaced-1`` and so on in the end. A repair that was interrupted continues when it is started again.
"""

from __future__ import annotations

import itertools
import mmap
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import msgspec

from rocketmq_py.errors import StoreError, StoreLocked
from rocketmq_py.model import RecordHead
from rocketmq_py.protocol.sys_flag import TRANSACTION_ROLLBACK
from rocketmq_py.store.fs.layout import StoreLayout, segment_name, segment_start
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.lost_parts import lost_parts
from rocketmq_py.store.log.pieces import Piece
from rocketmq_py.store.message_store import MessageStore
from rocketmq_py.store.queue.queue_ends import QueueEndsFile
from rocketmq_py.store.settings import StoreConfig
from rocketmq_py.store.tools.heal import Part, Read, Replica
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.scanned_log import Gap, Key, Lost, Progress, ScannedLog, left, missing
from rocketmq_py.wire.record import MAGIC_BLANK, MIN_SIZE, encode_record

REPLACED = "replaced"
_PLAN = "plan.json"
FILLER_TOPIC = "RMQ_SYS_DAMAGED"
_BLANK = Struct(">ii")
_HOST = bytes(8)
_DERIVED = ("consumequeue", "batchconsumequeue", "index", "checkpoint", "queueends", "queueends.bak")


class Saved(msgspec.Struct):
    """The parts of a plan that an interrupted repair needs again, because it has moved what they were read from."""

    ends: list[tuple[str, int, int]]
    deleted: set[str]
    config: StoreConfig


class Plan(NamedTuple):
    """What a repair does, and what it cannot bring back.

    :ivar records: number of whole records in the commit log, with those of the replica.
    :ivar gaps: the damaged parts that the replica does not have.
    :ivar ends: the next offset of each queue.
    :ivar deleted: topics whose records are in the log but whose queues were deleted.
    :ivar end: offset after the last whole record.
    :ivar healed: parts that the replica has: damaged ones, and those behind the end of this log.
    """

    records: int
    gaps: list[Gap]
    lost: list[Lost]
    ends: dict[Key, int]
    deleted: set[str]
    config: StoreConfig
    end: int
    healed: list[Part]


def make_plan(
    root: Path, commit_log: Path | None = None, progress: Progress | None = None, read: Read | None = None
) -> Plan:
    """Read a whole store and plan its repair; nothing is changed.

    :param progress: called with the offset of the commit log that is reached, and its end.
    :param read: reads records of a replica, a broker with the same log.
    :raises StoreError: there is no store, or the replica has another log.
    """
    with OfflineStore(root, commit_log=commit_log) as store:
        log = ScannedLog(store, progress)
        gaps = [*_lost_files(store)]  # the scan reads the other files as they are after this
        gaps = sorted([*gaps, *log.gaps()])
        seen = log.seen
        ends = {key: view.end for key, view in store.queues.items() if _is_in_log(store, view.read(view.end - 1, 1))}
        saved = _saved(store.layout)
        for topic, queue_id, end in saved.ends if saved is not None else ():
            ends[topic, queue_id] = max(end, ends.get((topic, queue_id), 0))
        for one in QueueEndsFile(store.fs, store.layout.queue_ends).load().queues:
            ends[one.topic, one.queue_id] = max(one.next_offset, ends.get((one.topic, one.queue_id), 0))
        topics = {topic for topic, _ in ends} | {topic for topic, _ in store.queues}
        topics |= set(store.fs.names(store.layout.batch_consume_queue))
        deleted = {topic for topic, _ in seen if topic not in topics} if topics else set()
        config = _sizes(store)
        if saved is not None:
            deleted, config = saved.deleted, saved.config
        healed: list[Part] = []
        if read is not None:
            known = {gap.begin for gap in gaps}
            first = [gap for gap in _first_files(store) if gap.begin not in known]
            healed = log.heal([*first, *gaps], Replica(store.log, read, log.expects), _lost(seen, ends))
            gaps = list(left(gaps, healed))
        lost = [one for one in _lost(seen, ends) if one.topic not in deleted] if gaps else []
        return Plan(log.records, gaps, lost, ends, deleted, config, log.end, healed)


def _lost(seen: dict[Key, list[int]], ends: dict[Key, int]) -> list[Lost]:
    return [one for key in sorted(seen) for one in missing(key, seen[key], ends.get(key, 0))]


def _saved(layout: StoreLayout) -> Saved | None:
    """What an interrupted repair has saved; None if there is none."""
    path = layout.root / REPLACED / _PLAN
    return msgspec.json.decode(path.read_bytes(), type=Saved) if path.exists() else None


def _save(layout: StoreLayout, fs: OsFileSystem, plan: Plan) -> None:
    ends = [(topic, queue_id, end) for (topic, queue_id), end in plan.ends.items()]
    fs.write(layout.root / REPLACED / _PLAN, msgspec.json.encode(Saved(ends, plan.deleted, plan.config)))


def _lost_files(store: OfflineStore) -> Iterator[Gap]:
    """Whole files that are missing or empty. Files of another size are read as if they ended with zeros."""
    directory, size = store.layout.commit_log, store.log.file_size
    sizes = {int(name): store.fs.size(directory / name) or 0 for name in store.fs.names(directory) if name.isdecimal()}
    for part in lost_parts(sizes, size, was_closed=True):
        if part.begin % size == 0 and part.end - part.begin >= size:
            for start in range(part.begin, part.end, size):
                yield Gap(start, start + size, part.what)
        else:
            start = (part.end - 1) // size * size
            content = store.fs.read(store.log.path(start)) or b""
            padded = store.log.buffers[start] = mmap.mmap(-1, size)
            padded[: min(size, len(content))] = content[:size]
            store.log.starts = sorted({*store.log.starts, start})
    store.log.end = store.log.starts[-1] + size if store.log.starts else 0


def _first_files(store: OfflineStore) -> Iterator[Gap]:
    """Files before the first one that were there when the queues were flushed: they have expired since, or are lost."""
    begin = QueueEndsFile(store.fs, store.layout.queue_ends).load().log_begin
    for start in range(begin, store.log.min_offset, store.log.file_size) if begin >= 0 else ():
        yield Gap(start, start + store.log.file_size, "missing")


def _is_in_log(store: OfflineStore, entries: list[tuple[int, int, int]]) -> bool:
    return bool(entries) and entries[0][0] >= 0 and entries[0][0] + entries[0][1] <= store.log.end


def _sizes(store: OfflineStore) -> StoreConfig:
    """The file sizes of the store."""
    usual = StoreConfig()
    layout, fs = store.layout, store.fs
    found = [fs.size(path) or 0 for path in layout.consume_queue.glob("*/*/*")]
    recorded = QueueEndsFile(fs, layout.queue_ends).load()
    queue = recorded.file_size or max(set(found), key=found.count, default=0) or usual.mapped_file_size_consume_queue
    found = [fs.size(path) or 0 for path in layout.batch_consume_queue.glob("*/*/*")]
    batch = recorded.batch_file_size or max(set(found), key=found.count, default=0)
    index = max((fs.size(path) or 0 for path in layout.index.glob("*")), default=0)
    slots = max(1, (index - 40) // 84)  # four entries for each slot, as by default
    return StoreConfig(
        store_path_commit_log="" if layout.commit_log == layout.root / "commitlog" else str(layout.commit_log),
        mapped_file_size_commit_log=store.log.file_size,
        mapped_file_size_consume_queue=queue,
        mapper_file_size_batch_consume_queue=batch or usual.mapper_file_size_batch_consume_queue,
        message_index_enable=index > 0,
        max_hash_slot_num=slots if index else usual.max_hash_slot_num,
        max_index_num=(index - 40 - 4 * slots) // 20 if index else usual.max_index_num,
    )


def apply(root: Path, plan: Plan, commit_log: Path | None = None, read: Read | None = None) -> Path:
    """Repair a store: the plan must be of its present state. Returns the folder of what was replaced.

    :param read: reads records of the replica with which the plan was made.
    :raises StoreLocked: a broker uses the store.
    :raises StoreError: the replica does not have the records of the plan any more.
    :raises OSError: the disk is full or fails; start the repair again.
    """
    layout, fs = StoreLayout(root, commit_log), OsFileSystem()
    try:
        lock = fs.lock(layout.lock)
    except BlockingIOError as e:
        raise StoreLocked(f"{root} is in use by a broker: stop it first") from e
    try:
        _save(layout, fs, plan)
        _resize(layout, fs, plan.config.mapped_file_size_commit_log)
        size = plan.config.mapped_file_size_commit_log
        for part in plan.healed:
            assert read is not None
            _heal(layout, fs, part, Replica(CommitLog(fs, layout.commit_log, size), read), size)
        for gap in plan.gaps:
            data = filler(*gap[:2], _file_end(gap.begin, size)) if gap.end <= plan.end else bytes(gap.end - gap.begin)
            _replace(layout, fs, gap.begin, gap.end, [data], size)
        # Whoever opens the store before the repair has ended is to rebuild everything, as after a crash.
        fs.write(layout.abort, b"repair")
        for name in _DERIVED:
            _set_aside(layout.root, name)
    finally:
        lock.release()
    _rebuild(layout, plan)
    numbers = itertools.count(1)
    kept = next(path for number in numbers if not (path := root / f"{REPLACED}-{number}").exists())
    return (root / REPLACED).rename(kept)


def _file_end(offset: int, file_size: int) -> int:
    return offset - offset % file_size + file_size


def _heal(layout: StoreLayout, fs: OsFileSystem, part: Part, replica: Replica, file_size: int) -> None:
    """Write what the replica has over a part of the log."""
    _replace(layout, fs, part.begin, part.end, _same(part, replica.pieces(part.begin, part.end)), file_size)


def _same(part: Part, pieces: Iterable[Piece]) -> Iterator[bytes]:
    """The bytes of a part, which must be complete."""
    at = part.begin
    for piece in pieces:
        yield piece.data
        at = piece.end
    if at != part.end:
        raise StoreError(f"the replica does not have the record at {at} of the commit log any more: start again")


def _replace(
    layout: StoreLayout, fs: OsFileSystem, begin: int, end: int, contents: Iterable[bytes], file_size: int
) -> None:
    """Write over a part of a log file; what was there is kept."""
    start = begin - begin % file_size
    path = layout.commit_log / segment_name(start)
    kept = layout.root / REPLACED / "commitlog" / f"{begin}-{end}"
    if path.exists() and not kept.exists():
        with path.open("rb") as file:
            file.seek(begin - start)
            fs.write(kept, file.read(end - begin))
    opened = fs.open(path, file_size)
    try:
        at = begin - start
        for content in contents:
            opened.write(at, content)
            at += len(content)
        opened.sync()
    finally:
        opened.close()


def _resize(layout: StoreLayout, fs: OsFileSystem, file_size: int) -> None:
    """Give all log files the size of the others: cut ones get zeros, and what is too much is kept elsewhere."""
    for name in fs.names(layout.commit_log):
        path = layout.commit_log / name
        size = fs.size(path) or 0
        if segment_start(name) is None or size in (0, file_size):
            continue
        if size > file_size:
            with path.open("rb") as file:
                file.seek(file_size)
                fs.write(layout.root / REPLACED / "commitlog" / f"{name}-end", file.read())
        fs.open(path, file_size).close()


def filler(begin: int, end: int, file_end: int) -> bytes:
    """A record that fills a gap and that no queue has; the blank record if the gap ends with its file."""
    if end == file_end:
        return _BLANK.pack(end - begin, MAGIC_BLANK)
    topic = FILLER_TOPIC[: end - begin - MIN_SIZE]
    body = bytes(end - begin - MIN_SIZE - len(topic))
    head = RecordHead(0, 0, 0, 0, 0, 0, begin, TRANSACTION_ROLLBACK, 0, _HOST, 0, _HOST, 0, 0, 0)
    return encode_record(head, topic, body, b"")


def _set_aside(root: Path, name: str) -> None:
    """Move a derived file or folder below ``replaced``; remove it if an earlier repair has moved the original."""
    path, kept = root / name, root / REPLACED / name
    if not path.exists():
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    if not kept.exists():
        path.rename(kept)
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _rebuild(layout: StoreLayout, plan: Plan) -> None:
    """Rebuild queues, index and checkpoint by opening and closing the store."""
    store = MessageStore(layout.root, plan.config, store_host=_HOST)
    store.open()
    try:
        for topic in plan.deleted | {FILLER_TOPIC}:
            store.delete_topic(topic)
        store.keep_ends(plan.ends)
    finally:
        store.close()
