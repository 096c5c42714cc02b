"""CPU time of what a start rebuilds from the commit log: ``python -m benchmarks.micro_rebuild [--messages N]``.

A store has messages of 1 KiB with three keys in 4 queues. Each round removes some of its files, opens it and reports
the records and bytes of the log that a second of CPU time reads; the time of a start without damage is subtracted. The
best of several rounds. The last figure is that of the check of the whole store while a broker serves.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rocketmq_py.accelerator import installed
from rocketmq_py.store import MessageStore, NewRecord, StoreConfig
from rocketmq_py.wire.record import pack_host

HOST = pack_host("127.0.0.1", 10911)
QUEUES = 4
BODY = b"x" * 1024
ROUNDS = 3
LOG_FILE = 1 << 28
_AT_ONCE = 500


def config() -> StoreConfig:
    """Return settings with which every rebuild is done before the store is open."""
    return StoreConfig(mapped_file_size_commit_log=LOG_FILE, rebuild_bytes_before_start=1 << 62)


def opened(root: Path) -> MessageStore:
    """Open the store."""
    store = MessageStore(root, config(), store_host=HOST, accelerator=installed())
    store.open()
    return store


def fill(root: Path, count: int) -> int:
    """Make the store; return the bytes of its log."""
    store = opened(root)
    for number in range(count):
        unique = f"7F00000100002A9F{number // 65536:08X}0000{number % 65536:04X}"
        keys = f"order{number} user{number % 1000}"
        store.append(NewRecord(
            topic="T", queue_id=number % QUEUES, body=BODY,
            properties=f"UNIQ_KEY\x01{unique}\x02KEYS\x01{keys}\x02".encode(), tags_code=0, born_timestamp=1,
            born_host=HOST, uniq_key=unique, keys=keys,
        ))  # fmt: skip
        if number % _AT_ONCE == 0:
            store.commit_pending()
            store.tick(time.time_ns() // 1_000_000)
    end = store.max_physical_offset
    store.close()
    return end


def lose(*names: str) -> Callable[[Path], None]:
    """Return what removes files or folders of a store."""

    def remove(root: Path) -> None:
        for name in names:
            path = root / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    return remove


LOSSES = {
    "one queue of 4": lose("consumequeue/T/1"),
    "all queues": lose("consumequeue"),
    "the index": lose("index"),
    "all queues compared": lose("queueends", "queueends.bak"),
}


def start(root: Path, loss: Callable[[Path], None]) -> float:
    """Return the CPU time of a start after a loss."""
    loss(root)
    begin = time.process_time()
    store = opened(root)
    took = time.process_time() - begin
    store.close()
    return took


def check(root: Path) -> float:
    """Return the CPU time of a check of the whole store."""
    store = opened(root)
    scrub, begin = store.new_scrub(), time.thread_time()
    while not scrub.counts.passes:
        part = scrub.begin()
        if part is not None:
            store.load([part])
            list(scrub.records())
        while entries := scrub.entries():
            store.load(entries)
            list(scrub.queues())
    took = time.thread_time() - begin
    assert scrub.counts.damages == 0
    store.close()
    return took


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro_rebuild", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, help="where the store is made")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="rebuild-", dir=options.directory))
    try:
        root = work / "store"
        size = fill(root, options.messages)
        usual = min(start(root, lambda _: None) for _ in range(ROUNDS))
        print(f"a start without damage: {usual:.2f} s of CPU time; log: {size / 1e9:.2f} GB")
        for name, loss in LOSSES.items():
            took = min(start(root, loss) for _ in range(ROUNDS)) - usual
            print(f"{name}: {options.messages / took:,.0f} records/s, {size / took / 1e9:.3f} GB/s", flush=True)
        took = min(check(root) for _ in range(ROUNDS))
        print(f"check while a broker serves: {options.messages / took:,.0f} records/s, {size / took / 1e9:.3f} GB/s")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
