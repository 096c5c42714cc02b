"""A store that is opened on a full disk: everything is readable, and messages are refused until there is room."""

from __future__ import annotations

import errno
import os

import pytest

from rocketmq_py.errors import StoreNotWritable
from rocketmq_py.store.fs.os_files import OsFileSystem
from tests.unit.store.helpers import Stores, fill, numbers, read_queue, record

GROWS = {"write", "create", "allocate", "replace"}
"""Operations that need room."""


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_store_opens_on_a_full_disk(stores: Stores, caplog: pytest.LogCaptureFixture, clean: bool) -> None:
    store = stores.open()
    fill(store, 50)
    if clean:
        store.close()
    else:
        stores.crash()
    assert stores.fs is not None
    stores.fs.fails = lambda operation, _: operation in GROWS
    store = stores.open()
    assert numbers(read_queue(store)) == list(range(50))
    assert "No space left on device" in caplog.text
    with pytest.raises(StoreNotWritable, match="No space left on device"):
        store.append(record(50))
    store.tick(stores.clock.now)
    assert not store.is_writable
    stores.fs.fails = lambda *_: False
    store.tick(stores.clock.now)
    assert store.is_writable
    assert stores.fs.size(store.layout.abort) is not None
    fill(store, 1, start=50)
    stores.crash()
    assert numbers(read_queue(stores.open())) == list(range(51))


def test_a_full_disk_is_not_reported_as_a_running_broker(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    lock = OsFileSystem().lock(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        OsFileSystem().lock(tmp_path / "lock")
    lock.release()
