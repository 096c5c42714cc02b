"""CPU time of the store alone, in microseconds of its thread: ``python -m benchmarks.micro_store [DIRECTORY]``.

Measures appends with one commit_pending for 64 of them, as on a busy connection; batches of 32 x 128 bytes; reads of 32
records of 1 KiB that are interleaved with those of seven other queues. Every message has a unique key for the index,
which is built within the measured time. A figure is the best of several rounds. Pages of the log are written
beforehand, because the time for a new page depends more on the machine than on the store.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rocketmq_py.accelerator import installed
from rocketmq_py.store import MessageStore, NewBatch, NewRecord, StoreConfig
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.record import pack_host

HOST = pack_host("127.0.0.1", 10911)
QUEUES = 8
RUN = 64
MESSAGES = 10_000
LOG_SIZE = 320 << 20
INDEX_SLOTS = 5_000_000
BATCH = 32
ROUNDS = 7


def cpu(work: Callable[[], int]) -> float:
    """Return microseconds of thread CPU time per unit of work, the best of several rounds.

    :param work: does the work of a round and returns the number of its units.
    """
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.thread_time_ns()
        units = work()
        best = min(best, (time.thread_time_ns() - begin) / units / 1000)
    return best


def unique_keys(count: int) -> list[str]:
    """Return unique keys like those of producers of one host."""
    return [f"7F00000100002A9F{i // 65536:08X}0000{i % 65536:04X}" for i in range(count)]


def touch(path: Path, size: int) -> None:
    """Create a file of zeros by writing all of it, so that its pages exist."""
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))


class Bench:
    """A store and the loads to measure; the methods that run a load return the number of its units."""

    def __init__(self, root: Path) -> None:
        config = StoreConfig(mapped_file_size_commit_log=LOG_SIZE, max_hash_slot_num=INDEX_SLOTS)
        touch(root / "commitlog" / f"{0:020d}", LOG_SIZE)
        self.store = MessageStore(root, config, store_host=HOST, accelerator=installed())
        self.store.open()
        keys = unique_keys(MESSAGES)
        self._records = [self._record(i, key) for i, key in enumerate(keys)]
        self._batches = [self._batch(keys[i : i + BATCH]) for i in range(0, len(keys) - BATCH, BATCH)]
        self._varied = [self._batch(keys[i : i + BATCH], 1) for i in range(0, len(keys) - BATCH, BATCH)]

    def _record(self, i: int, key: str) -> NewRecord:
        properties = b"UNIQ_KEY\x01%b\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA\x02WAIT\x01true\x02" % key.encode()
        return NewRecord("bench", i % QUEUES, b"x" * 1024, properties, 2598919, 0, 0, 1, HOST, 0, 0, key)

    def _batch(self, keys: list[str], varied: int = 0) -> bytes:
        return encode_batch(
            (0, b"y" * (128 + varied * i), b"UNIQ_KEY\x01%b\x02WAIT\x01true\x02TAGS\x01TagA" % key.encode())
            for i, key in enumerate(keys)
        )

    def runs(self) -> int:
        store = self.store
        for i in range(0, len(self._records), RUN):
            for record in self._records[i : i + RUN]:
                store.append(record)
            store.commit_pending()
        store.tick(0)
        return len(self._records)

    def singles(self) -> int:
        store = self.store
        for record in self._records:
            store.append(record)
            store.commit_pending()
        store.tick(0)
        return len(self._records)

    def construct(self) -> int:
        for r in self._records:
            NewRecord(r.topic, r.queue_id, r.body, r.properties, 1, 0, 0, 1, HOST, 0, 0, r.uniq_key)
        return len(self._records)

    def batches(self, bodies: list[bytes]) -> int:
        store = self.store
        for body in bodies:
            store.append_batch(NewBatch("small", 0, body, b"", 0, 1, HOST))
            store.commit_pending()
        store.tick(0)
        return len(bodies) * BATCH

    def reads(self) -> int:
        store = self.store
        for i in range(2000):
            store.get("bench", i % QUEUES, 32 * (i // QUEUES % 50), 32)
        return 2000

    def report(self) -> None:
        rows = {
            "append + commit_pending, 1 KiB, runs of 64": self.runs,
            "append + commit_pending, 1 KiB, one by one": self.singles,
            "(making the NewRecord)": self.construct,
            "batch of 32 x 128 B, per message": lambda: self.batches(self._batches),
            "batch of 32, bodies of 32 lengths": lambda: self.batches(self._varied),
            "get 32 x 1 KiB, 8 queues interleaved": self.reads,
        }
        for name, work in rows.items():
            print(f"{name:40} {cpu(work):7.2f} µs")


def main() -> None:
    """Measure in a temporary directory, below the directory that is the first argument if there is one."""
    root = Path(tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else None, prefix="micro-store-"))
    try:
        bench = Bench(root)
        bench.report()
        bench.store.close()
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
