"""What a running broker's clean-up does, done at once to the store of one that is stopped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rocketmq_py.store import MessageStore, StoreConfig
from rocketmq_py.wire.record import pack_host

SECONDS = 30.0
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
    for _ in range(10):  # queues and index follow
        opened.tick(opened.now())
    begin = opened.min_physical_offset
    opened.close()
    return begin
