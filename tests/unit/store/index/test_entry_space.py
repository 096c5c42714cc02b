"""Space for the entries of an index is made in a thread before they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.store import StoreConfig
from rocketmq_py.store.fs.layout import StoreLayout
from rocketmq_py.store.index import index_file
from rocketmq_py.store.index.entry_space import AHEAD, EntrySpace
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.index.index_file import IndexFile
from tests.unit.store.coldfs import ByHand
from tests.unit.store.helpers import NOW, Clock
from tests.unit.store.memoryfs import PAGE, MemoryFileSystem

STEP = 4 * 1024 * 1024
ENTRIES_AT = 40 + 4 * 8


def a_file(entries=1_000_000, path=Path("/i")):
    memory = MemoryFileSystem()
    return IndexFile(memory.open(path, ENTRIES_AT + 20 * entries), 8, entries), memory


def put(file, count):
    file.put([1] * count, list(range(count)), [NOW] * count)


def allocated(memory):
    found = [(at, at + length) for _, at, length in memory.allocated]
    memory.allocated.clear()
    return found


def test_entries_wait_for_the_first_space_and_find_later_space_made():
    file, memory = a_file()
    thread = ByHand()
    space = EntrySpace(memory, thread)
    assert not space.is_ready(file, 10)
    assert not space.is_ready(file, 10)
    assert len(thread.work) == 1, "one at a time"
    thread.finish()
    assert space.is_ready(file, 10)
    assert not thread.work
    end = ENTRIES_AT + 20 + STEP
    assert allocated(memory) == [(0, end)]
    fits = STEP // 20
    put(file, fits - AHEAD)
    assert space.is_ready(file, 0)
    assert not thread.work
    assert space.is_ready(file, 1)
    assert len(thread.work) == 1, "more of it is made when half is left"
    put(file, AHEAD)
    assert not space.is_ready(file, 1), "it was not made soon enough"
    assert len(thread.work) == 1
    thread.finish()
    assert space.is_ready(file, 1)
    assert allocated(memory) == [(end, end + (fits - AHEAD) * 20)], "nothing was allocated where entries are added"


def test_space_comes_with_its_pages(monkeypatch):
    file, memory = a_file()
    memory.resident = set()
    thread = ByHand()
    space = EntrySpace(memory, thread)
    put(file, 60)
    memory.allocated.clear()
    file._allocated = 0  # as after a start
    assert not space.is_ready(file, 10)
    thread.finish()
    assert space.is_ready(file, 10)
    ((_, end),) = allocated(memory)
    assert {page for _, page in memory.resident} == set(range((ENTRIES_AT + 60 * 20) // PAGE, (end - 1) // PAGE + 1))
    assert file.are_resident([]) is False, "its header is not"
    memory.resident.add((file.path, 0))
    assert file.are_resident([])
    memory.resident.remove((file.path, (ENTRIES_AT + 80 * 20) // PAGE))
    assert file.are_resident([1] * 10)
    assert not file.are_resident([1] * 30), "what they are written to has left the memory"
    file.load_slots(memory)
    assert file.are_resident([1] * 30)


def test_the_end_of_a_file_is_not_allocated_twice():
    file, memory = a_file(entries=50)
    thread = ByHand()
    space = EntrySpace(memory, thread)
    assert not space.is_ready(file, 10)
    thread.finish()
    assert space.is_ready(file, 10)
    put(file, 49)
    assert space.is_ready(file, 0)
    assert not thread.work
    assert allocated(memory) == [(0, ENTRIES_AT + 20 * 50)]


def test_without_space_the_error_comes_when_entries_are_added():
    file, memory = a_file()
    memory.failing.add("allocate")
    thread = ByHand()
    space = EntrySpace(memory, thread)
    assert not space.is_ready(file, 1)
    thread.finish()
    assert space.is_ready(file, 1)
    with pytest.raises(OSError, match="No space"):
        put(file, 1)
    assert not thread.work
    assert not space.is_ready(file, 1), "and the next attempt asks for it again"
    memory.failing.clear()
    thread.finish()
    assert space.is_ready(file, 1)
    put(file, 1)


def test_space_is_noted_for_the_file_it_was_made_for():
    old, memory = a_file()
    new = IndexFile(memory.open(Path("/j"), old._file.size), 8, 1_000_000)
    thread = ByHand()
    space = EntrySpace(memory, thread)
    assert not space.is_ready(old, 1)
    assert not space.is_ready(new, 1)
    thread.finish()
    assert not space.is_ready(new, 1)
    assert old.has_space(1)
    assert not space.is_ready(new, 1)
    thread.finish()
    assert space.is_ready(new, 1)


@pytest.mark.parametrize("tells", [True, False])
def test_keys_wait_for_space_where_the_platform_tells_what_is_in_memory(monkeypatch, tells):
    memory, thread = MemoryFileSystem(), ByHand()
    monkeypatch.setattr(memory, "tells_residency", tells)
    monkeypatch.setattr(index_file, "_ALLOCATE_AHEAD", 100)
    index = MessageIndex(
        memory, StoreLayout(Path("/store")), StoreConfig(max_hash_slot_num=8, max_index_num=50), Clock()
    )
    index.load_slots(thread)
    index.add_words(7, b"a b", 100, NOW)
    assert index.build() is not tells
    assert len(index.waiting) == 2 * tells
    if tells:
        thread.finish()
        assert index.build()
    assert index.end_physical == 100
