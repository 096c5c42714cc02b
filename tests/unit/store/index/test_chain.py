"""Chains of many entries: a thread reads them, and pauses so that the event loop gets Python's lock."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from rocketmq_py.store.fs.filesystem import File
from rocketmq_py.store.index import chain
from rocketmq_py.store.index.chain import Chain
from rocketmq_py.store.index.index_file import IndexFile
from tests.unit.store.helpers import NOW
from tests.unit.store.memoryfs import MemoryFileSystem

PATH = Path("/store/index/1")
SLOTS, ENTRIES = 8, 4000
KEY, OTHER = 3, 3 + SLOTS
"""Two hashes of one slot."""


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def file(fs: MemoryFileSystem) -> IndexFile:
    """One entry each second; every fourth one has the other hash."""
    made = IndexFile(fs.open(PATH, 40 + 4 * SLOTS + 20 * ENTRIES), SLOTS, ENTRIES)
    for number in range(1, ENTRIES):
        made.put([OTHER if number % 4 == 0 else KEY], [number], [NOW + 1000 * number])
    return made


def followed(file: IndexFile, fs: MemoryFileSystem, limit: int, begin: int, end: int) -> Chain:
    made = file.chain(KEY, limit, NOW + 1000 * begin, NOW + 1000 * end)
    made.load(fs)
    assert made.is_done
    return made


@pytest.mark.parametrize("block", [20, 50, 1000, 64 * 1024])
@pytest.mark.parametrize(
    ("limit", "begin", "end", "numbers"),
    [
        (64, 0, 6, [6, 5, 3, 2, 1]),
        (2, 0, 6, [6, 5]),
        (64, 5, 9, [9, 7, 6, 5]),
        (3, 0, 9999, [3999, 3998, 3997]),
        (64, 9000, 9999, []),
    ],
)
def test_a_thread_finds_what_the_loop_finds(
    monkeypatch: pytest.MonkeyPatch, file: IndexFile, fs: MemoryFileSystem, block: int, limit: int, begin: int,
    end: int, numbers: list[int],
) -> None:  # fmt: skip
    monkeypatch.setattr(chain, "_BLOCK", block)
    monkeypatch.setattr(chain, "sleep", lambda _: None)
    assert followed(file, fs, limit, begin, end).found == numbers
    assert file.select(KEY, limit, NOW + 1000 * begin, NOW + 1000 * end) == numbers


@pytest.mark.parametrize("block", [50, 1000, 64 * 1024])
def test_the_thread_pauses_after_each_slice(
    monkeypatch: pytest.MonkeyPatch, file: IndexFile, fs: MemoryFileSystem, block: int
) -> None:
    pauses: list[float] = []
    taken: list[int] = []
    since_pause: list[int] = []
    take = Chain._take

    def counted(self: Chain, data: bytes, start: int, most: int) -> int:
        count = take(self, data, start, most)
        taken.append(count)
        return count

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        since_pause.append(sum(taken))
        taken.clear()

    monkeypatch.setattr(chain, "_BLOCK", block)
    monkeypatch.setattr(chain, "_SLICE", 100)
    monkeypatch.setattr(chain, "sleep", pause)
    monkeypatch.setattr(Chain, "_take", counted)
    assert followed(file, fs, 64, 0, 1).found == [1]
    assert since_pause == [100] * 39
    assert sum(taken) == 99
    assert set(pauses) == {chain._PAUSE}
    assert chain._PAUSE > 0


def test_a_block_is_read_once(monkeypatch: pytest.MonkeyPatch, file: IndexFile, fs: MemoryFileSystem) -> None:
    monkeypatch.setattr(chain, "_BLOCK", 20_000)
    monkeypatch.setattr(chain, "sleep", lambda _: None)
    before = fs.operations
    followed(file, fs, 64, 0, 1)
    assert fs.operations - before == 4, "80 kB of entries"


class Partly:
    """A file of which the pages from a position on are in memory."""

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.asked: list[int] = []

    def is_resident(self, position: int, length: int) -> bool:
        self.asked.append(position)
        return position >= self.begin


@pytest.mark.parametrize(
    ("count", "hot_from", "begin", "found"),
    [(100, 100, 0, 75), (100, 100, 1 << 20, 0), (100, 0, 1 << 20, 75), (100, 60, 1 << 20, 30), (500, 500, 4096, 224)],
    ids=["in memory", "on disk", "hot", "partly hot", "partly in memory"],
)
def test_the_loop_reads_entries_that_are_in_memory(count: int, hot_from: int, begin: int, found: int) -> None:
    fs = MemoryFileSystem()
    file = IndexFile(fs.open(PATH, 40 + 4 * SLOTS + 20 * ENTRIES), SLOTS, ENTRIES)
    for number in range(1, count + 1):
        file.put([OTHER if number % 4 == 0 else KEY], [number], [NOW + 1000 * number])
    made, pages = file.chain(KEY, 5000, NOW, NOW + 10**9), Partly(begin)
    made.follow_resident(file._entry, cast(File, pages), hot_from)
    assert len(made.found) == found
    assert len(pages.asked) <= 5, "a page is asked for once"
