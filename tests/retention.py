"""What a running broker's clean-up does, done at once to the store of one that is stopped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rocketmq_py.store import MessageStore, StoreConfig
from rocketmq_py.store.queue.consume_queue import ENTRY
from rocketmq_py.wire.record import pack_host

SECONDS = 300.0
"""Longer than it takes; only what fails waits for it."""


def trim(store: Path, **sizes: Any) -> int:
    """Removes the older half of the commit log; where the log begins now.

    :param sizes: of the store's files, as its broker has them.
    """
    config = StoreConfig(**sizes, file_reserved_time=0, delete_file_batch_max=1)
    opened = MessageStore(store, config, store_host=pack_host("127.0.0.1", 10911))
    opened.open()
    half, deadline = opened.max_physical_offset // 2, time.monotonic() + SECONDS
    while opened.min_physical_offset < half:
        assert time.monotonic() < deadline
        opened.delete_expired()
        opened.clean(opened.now() + 1)
        opened.tick(opened.now())
    while not all(is_trimmed(opened, directory) for directory in (store / "consumequeue").glob("*/*")):
        assert time.monotonic() < deadline
        opened.tick(opened.now())
    begin = opened.min_physical_offset
    opened.close()
    return begin


def is_trimmed(store: MessageStore, directory: Path) -> bool:
    """True if a consume queue begins with a message that is there, and has no file below it.

    A thread removes the files of the log; the queues follow when it is done. A Java broker that finds a queue before
    that answers MESSAGE_WAS_REMOVING for a minute.
    """
    topic, queue_id = directory.parent.name, int(directory.name)
    low, high = store.queue_range(topic, queue_id)
    starts = sorted(int(file.name) // ENTRY for file in directory.iterdir())
    has_first = low == high or store.record_at_queue(topic, queue_id, low) is not None
    return has_first and all(start > low for start in starts[1:])
