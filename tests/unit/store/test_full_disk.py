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


@pytest.mark.parametrize("full", [True, False])
def test_the_blank_record_behind_a_recovered_log_needs_room(stores: Stores, full: bool) -> None:
    """Written through the mapping without it, it would kill the process."""
    [done] = fill(stores.open(), 1, size=1900)
    assert stores.fs is not None
    stores.crash()
    store, end = stores.open(), done.physical_offset + done.size
    path = store.layout.commit_log / f"{0:020d}"
    stores.fs.allocated.clear()
    stores.fs.fails = lambda operation, _: full and operation == "allocate"
    large = [record(i, size=1000) for i in (1, 2)]
    if not full:
        assert store.append_many(large)[0].physical_offset == 4096
        assert stores.fs.allocated[0][0] == path
        assert stores.fs.allocated[0][2] >= end + 8
        return
    with pytest.raises(StoreNotWritable, match="No space left on device"):
        store.append_many(large)
    assert stores.fs.read(path)[end:] == bytes(4096 - end)
    assert len(stores.fs.names(store.layout.commit_log)) == 1, "no file follows"
    stores.fs.fails = lambda *_: False
    assert store.append_many(large)[0].physical_offset == 4096
    store.commit_pending()
    stores.crash()
    assert numbers(read_queue(stores.open())) == [0, 1, 2]


def test_a_full_disk_is_not_reported_as_a_running_broker(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    lock = OsFileSystem().lock(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        OsFileSystem().lock(tmp_path / "lock")
    lock.release()
