"""Where the read of a store that a crash has left begins to look for messages without queue entries."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py.arrow.offline.directories import Directory
from rocketmq_py.arrow.options.stores import StoreDirectory
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.store.log.checkpoint import Checkpoint
from rocketmq_py.store.write.records import Appended
from tests.unit.store.helpers import NOW, Stores, fill, flush

LOG_FILE = 4096


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    opened = Stores(tmp_path / "store", None)
    yield opened
    opened.close()


def crashed(stores: Stores, flushed: int, later: int) -> tuple[Path, list[Appended]]:
    """A store that a killed process has left, and its messages, a second apart; the first ones were flushed."""
    store, appended = stores.open(), []
    for number in range(flushed + later):
        stores.clock.now = NOW + 1000 * number
        appended += fill(store, 1, start=number)
        if number == flushed - 1:
            flush(store)
    copy = stores.root.with_name("copy")
    shutil.copytree(stores.root, copy)
    return copy, appended


def indexed_to(root: Path) -> int:
    with Directory(StoreDirectory("a", str(root))) as directory:
        return directory.indexed_to()


def damage_body(root: Path, message: Appended) -> None:
    """Change the last byte of the body: 100 bytes, behind the 88 of the head."""
    begin = message.physical_offset % LOG_FILE
    file = root / "commitlog" / f"{message.physical_offset - begin:020}"
    data = bytearray(file.read_bytes())
    data[begin + 187] ^= 1
    file.write_bytes(data)


def forget_offset(root: Path) -> None:
    """Leave only timestamps in the checkpoint, as a Java broker does."""
    checkpoint = root / "checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-12] + bytes(12))


def test_entries_are_there_up_to_the_checkpoint_also_before_a_damaged_body(stores: Stores) -> None:
    root, messages = crashed(stores, 10, 5)
    assert indexed_to(root) == messages[10].physical_offset
    damage_body(root, messages[10])
    assert indexed_to(root) == messages[10].physical_offset


def test_entries_are_there_up_to_the_end_of_the_log(stores: Stores) -> None:
    root, messages = crashed(stores, 10, 0)
    assert indexed_to(root) == messages[-1].physical_offset + messages[-1].size


def test_without_an_offset_the_last_file_is_taken_that_began_three_seconds_before_the_checkpoint(
    stores: Stores,
) -> None:
    root, messages = crashed(stores, 45, 30)
    firsts = [messages[0], *(m for m in messages[1:] if m.physical_offset % LOG_FILE == 0)]
    assert len(firsts) > 4
    begin = [first for first in firsts if first.store_timestamp <= NOW + 44_000 - 3_000][-1]
    assert begin is not firsts[0]
    assert begin is not firsts[-1]
    forget_offset(root)
    assert indexed_to(root) == begin.physical_offset
    damage_body(root, begin)
    assert indexed_to(root) == begin.physical_offset


def test_an_offset_counts_more_than_timestamps(stores: Stores) -> None:
    root, _ = crashed(stores, 45, 0)
    checkpoint = Checkpoint(OsFileSystem(), root / "checkpoint")
    checkpoint.end = 0
    checkpoint.save()
    assert indexed_to(root) == 0


def test_without_an_old_file_everything_is_looked_at(stores: Stores) -> None:
    root, messages = crashed(stores, 2, 1)
    forget_offset(root)
    assert indexed_to(root) == messages[0].physical_offset == 0
