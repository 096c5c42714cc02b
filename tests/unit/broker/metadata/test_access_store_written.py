"""Changes of users and permissions are written in a thread, many together, and answered when they are on disk."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from rocketmq_py.broker.metadata.access_store import FILE, AccessWriter, SecretFileSystem
from rocketmq_py.core.access.permissions import User
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.access.table import AccessTable
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.wire import fastjson


class SlowDisk(SecretFileSystem):
    """Writes a file when the test says so, and counts the writes."""

    def __init__(self) -> None:
        self.writes = 0
        self.begun = threading.Event()
        self.go = threading.Event()
        self.failure: OSError | None = None

    def write(self, path: Path, data: bytes) -> None:
        if path.name == FILE:
            self.writes += 1
            self.begun.set()
            assert self.go.wait(30)
            if self.failure is not None:
                raise self.failure
        super().write(path, data)


def writer(path: Path, disk: SlowDisk) -> AccessTable:
    return AccessTable(AccessSettings(), lambda: None, AccessWriter(ConfigFile(path / FILE, disk)).save)


async def test_changes_wait_for_the_disk_in_a_thread_and_are_written_together(tmp_path: Path) -> None:
    disk = SlowDisk()
    table = writer(tmp_path, disk)
    table.create_user(User(name="first", password="p"))
    waiting = [asyncio.create_task(table.saved())]
    await asyncio.to_thread(disk.begun.wait)
    for number in range(20):
        table.create_user(User(name=f"u{number:02}", password="p"))
        waiting.append(asyncio.create_task(table.saved()))
        await asyncio.sleep(0)
    assert [task.done() for task in waiting] == [False] * 21
    disk.go.set()
    await asyncio.gather(*waiting)
    assert disk.writes == 2
    text = (tmp_path / FILE).read_bytes()
    saved = fastjson.loads(text)
    assert fastjson.dumps_pretty(saved) == text, "entries are laid out one by one, as they would be all together"
    assert [user["username"] for user in saved["users"]] == ["first", *(f"u{number:02}" for number in range(20))]


async def test_a_change_that_cannot_be_written_is_told_and_written_with_the_next_one(tmp_path: Path) -> None:
    disk = SlowDisk()
    table = writer(tmp_path, disk)
    disk.failure = OSError("full")
    disk.go.set()
    table.create_user(User(name="one", password="p"))
    with pytest.raises(OSError, match="full"):
        await table.saved()
    disk.failure = None
    table.create_user(User(name="two", password="p"))
    await table.saved()
    saved = fastjson.loads((tmp_path / FILE).read_bytes())
    assert [user["username"] for user in saved["users"]] == ["one", "two"]


async def test_a_write_goes_on_without_its_request(tmp_path: Path) -> None:
    disk = SlowDisk()
    table = writer(tmp_path, disk)
    table.create_user(User(name="one", password="p"))
    request = asyncio.create_task(table.saved())
    await asyncio.to_thread(disk.begun.wait)
    request.cancel()
    await asyncio.wait([request])
    disk.go.set()
    await table.saved()
    assert (tmp_path / FILE).exists()
