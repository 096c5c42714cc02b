"""The file of offsets has the bytes of a whole encoding, and a save encodes only what has changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.metadata import offset_file
from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.broker.metadata.offset_file import OffsetChanges, OffsetFile
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.wire.fastjson import dumps_pretty
from tests.unit.store.memoryfs import MemoryFileSystem

PATH = Path("/config/consumerOffset.json")


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


def opened(fs: MemoryFileSystem, saved: list[OffsetChanges] | None = None) -> ConsumerOffsets:
    def save(file: OffsetFile, changes: OffsetChanges) -> None:
        if saved is not None:
            saved.append(changes)
        file.save(changes)

    offsets = ConsumerOffsets(OffsetFile(ConfigFile(PATH, fs)), 3, lambda: 5, save)
    offsets.load()
    return offsets


def whole(offsets: ConsumerOffsets) -> bytes:
    return dumps_pretty({
        "dataVersion": bean(offsets.version),
        "groupTopicMap": offsets.topics_by_group(),
        "offsetTable": dict(offsets.entries()),
    })  # fmt: skip


def written(fs: MemoryFileSystem) -> bytes:
    return bytes(fs.nodes[PATH].content)


def changes(offsets: ConsumerOffsets) -> Iterator[None]:
    """Change the table in every way there is."""
    for queue in (10, 9, 0):
        offsets.commit("g", 'a"\n', queue, queue, "c")
    offsets.commit("h", "t", 0, 1, "c")
    yield
    offsets.commit("h", "t", 0, 2, "c")
    offsets.commit("g", "t", 1, 2, "c")
    yield
    offsets.clone("g", "copy", "t")
    offsets.reset("h", "t", 4, 0)
    yield
    offsets.remove_group("g")
    yield
    offsets.commit("g", "t", 1, 2, "c")
    deque(offsets.take_over({"offsetTable": {"u@m": {"1": 3}, "t@h": {}}}, keeps_larger=False))
    yield
    offsets.remove_topic("t")
    yield


def test_every_save_has_the_bytes_of_a_whole_encoding(fs: MemoryFileSystem) -> None:
    offsets = opened(fs)
    for _ in changes(offsets):
        offsets.persist()
        assert written(fs) == whole(offsets)
        again = opened(fs)
        assert again.table == offsets.table
        again.commit("last", "t", 0, 7, "c")
        again.persist()
        assert written(fs) == whole(again)
        fs.write(PATH, whole(offsets))


def test_a_save_encodes_what_has_changed_only(fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    first, saved = opened(fs), list[OffsetChanges]()
    for number in range(50):
        first.commit(f"g{number}", "t", 0, 1, "c")
    first.persist()
    offsets, encoded = opened(fs, saved), list[Any]()
    offsets.commit("g7", "t", 0, 2, "c")
    offsets.persist()
    pretty = offset_file.pretty
    monkeypatch.setattr(offset_file, "pretty", lambda value, depth: (encoded.append(value), pretty(value, depth))[1])
    offsets.commit("g8", "t", 0, 3, "c")
    offsets.persist()
    assert [list(one.queues) for one in saved] == [["t@g7"], ["t@g8"]]
    assert encoded == [{0: 3}, bean(offsets.version)]
    offsets.persist()
    assert len(saved) == 2


def test_a_failed_save_is_made_up_for_by_the_next(fs: MemoryFileSystem) -> None:
    offsets = opened(fs)
    offsets.commit("g", "t", 0, 1, "c")
    fs.failing.add("replace")
    with pytest.raises(OSError, match="No space"):
        offsets.persist()
    fs.failing.clear()
    offsets.commit("h", "t", 0, 1, "c")
    offsets.persist()
    assert written(fs) == whole(offsets)
