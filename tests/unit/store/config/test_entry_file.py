"""Files of entries: a save encodes what has changed only, and the content equals a whole encoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.config.entry_file import EntryFile, grouped
from rocketmq_py.wire.fastjson import dumps_pretty, pretty, pretty_object
from tests.unit.store.memoryfs import MemoryFileSystem

PATH = Path("/config/entries.json")


class Bench:
    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.encoded: list[Any] = []
        self.file = self.open()

    def open(self) -> EntryFile[str, Any]:
        def encode(entry: Any) -> str:
            self.encoded.append(entry)
            return pretty(entry, 1)

        return EntryFile(ConfigFile(PATH, self.fs), encode, lambda texts: pretty_object(texts, 0))

    @property
    def content(self) -> bytes | None:
        return self.fs.read(PATH)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_only_changed_entries_are_encoded(bench: Bench) -> None:
    table: dict[str, Any] = {"a": {"x": 1}, "b": [1, None], "c": {}}
    bench.file.save(table)
    assert bench.content == dumps_pretty(table)
    bench.file.save({"b": 2, "c": None, "d": "new"})
    assert bench.content == dumps_pretty({"a": {"x": 1}, "b": 2, "d": "new"})
    assert bench.encoded == [*table.values(), 2, "new"]


def test_no_file_is_created_without_entries(bench: Bench) -> None:
    assert bench.file.load(dict) is None
    bench.file.save({"a": None})
    assert bench.content is None
    bench.file.save({"a": 1})
    bench.file.save({"a": None})
    assert bench.content == dumps_pretty({})


def test_a_loaded_file_is_emptied(bench: Bench) -> None:
    bench.file.save({"a": 1})
    again = bench.open()
    assert again.load(dict) == {"a": 1}
    again.save({"a": None})
    assert bench.content == dumps_pretty({})


def test_what_could_not_be_written_is_written_by_the_next_save(bench: Bench) -> None:
    bench.file.save({"a": 1})
    bench.fs.failing = {"replace"}
    with pytest.raises(OSError, match="No space left"):
        bench.file.save({"b": 2})
    bench.fs.failing = set()
    bench.file.save({"c": 3})
    assert bench.content == dumps_pretty({"a": 1, "b": 2, "c": 3})


def test_texts_are_grouped_by_the_first_part_of_their_keys() -> None:
    assert grouped({("t", 1): "a", ("u", 1): "b", ("t", 2): "c"}) == {"t": {1: "a", 2: "c"}, "u": {1: "b"}}
