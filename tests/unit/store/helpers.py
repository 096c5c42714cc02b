"""Small stores, messages for them, and everything that can be read from them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from rocketmq_py.model import MessageExt
from rocketmq_py.store import Appended, GetStatus, MessageStore, NewRecord, StoreConfig, Workers
from rocketmq_py.wire.java_hash import tags_code
from rocketmq_py.wire.record import decode_records, pack_host
from tests.unit.broker.workers import AtOnce
from tests.unit.store.memoryfs import MemoryFileSystem

HOST = pack_host("127.0.0.1", 10911)
CLIENT = pack_host("10.1.2.3", 40000)
SMALL = StoreConfig(
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=400,
    mapper_file_size_batch_consume_queue=920,
    max_hash_slot_num=16,
    max_index_num=64,
    max_message_size=2000,
)
NOW = 1_700_000_000_000


class Clock:
    """Milliseconds that pass when told to."""

    def __init__(self, now: int = NOW) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


AT_ONCE = ("rocketmq-index-read", "rocketmq-log-space")


class SpaceAtOnce(Workers):
    """Threads, but what makes space for messages and keys does it at once, so that no tick finds it still at work."""

    def executor(self, name: str) -> Executor:
        return AtOnce() if name in AT_ONCE else super().executor(name)


class Stores:
    """Opens and reopens one store directory."""

    def __init__(self, root: Path, fs: MemoryFileSystem | None) -> None:
        self.root = root
        self.fs = fs
        self.clock = Clock()
        self._open: list[MessageStore] = []

    def open(
        self, config: StoreConfig = SMALL, is_topic: Callable[[str], bool] = lambda _: True, **changes: Any
    ) -> MessageStore:
        workers = changes.pop("workers", None) or SpaceAtOnce()
        store = MessageStore(
            self.root, config, store_host=HOST, fs=self.fs, clock=self.clock, workers=workers, **changes
        )
        store.open(is_topic)
        self._open.append(store)
        return store

    def crash(self, fs: MemoryFileSystem | None = None) -> None:
        """Forget what is open, as a killed process does; ``fs`` is what the disk has afterwards."""
        assert self.fs is not None
        self.fs = fs or self.fs.after_kill()
        for store in self._open:
            store._flusher.stop()
        self._open.clear()

    def close(self) -> None:
        for store in self._open:
            if self.fs is not None:
                self.fs.failing.clear()
            store.close()


def record(i: int = 0, topic: str = "T", queue_id: int = 0, size: int = 100, **changes: Any) -> NewRecord:
    """The i-th message: body, unique key, key and tag can be told from ``i``."""
    tag = "even" if i % 2 == 0 else "odd"
    properties = f"UNIQ_KEY\x01U{i:06d}\x02KEYS\x01k{i} all\x02TAGS\x01{tag}\x02".encode()
    fields: dict[str, Any] = {
        "topic": topic, "queue_id": queue_id, "body": f"{i}|".encode().ljust(size, b"."), "properties": properties,
        "tags_code": tags_code(tag), "born_timestamp": NOW - 5, "born_host": CLIENT, "uniq_key": f"U{i:06d}",
        "keys": f"k{i} all",
    }  # fmt: skip
    return NewRecord(**{**fields, **changes})


def fill(store: MessageStore, count: int, start: int = 0, **changes: Any) -> list[Appended]:
    appended = [store.append(record(i, **changes)) for i in range(start, start + count)]
    store.commit_pending()
    return appended


def flush(store: MessageStore) -> None:
    """Flush everything, as a round does: the checkpoint says then what is on disk."""
    store._schedule.everything(store._readable())
    assert store.flush()


def read_queue(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[MessageExt]:
    """Every message of a queue; checks that offsets are dense and that reads agree with the range."""
    offset, end = store.queue_range(topic, queue_id)
    messages: list[MessageExt] = []
    while offset < end:
        result = store.get(topic, queue_id, offset, 32)
        assert result.status is GetStatus.FOUND, result
        found = decode_records(result.body)
        assert [m.queue_offset for m in found] == list(range(offset, result.next_offset))
        assert len(found) == result.count > 0
        messages += found
        offset = result.next_offset
    return messages


def numbers(messages: list[MessageExt]) -> list[int]:
    """The ``i`` of each message made by :func:`record`."""
    return [int(m.body.split(b"|")[0]) for m in messages]
