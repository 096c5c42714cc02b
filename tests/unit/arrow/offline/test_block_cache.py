"""Which parts of a file are fetched for a read, and that the bytes are those of the file."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from threading import Event

import pytest

from rocketmq_py.arrow.offline import block_cache
from rocketmq_py.arrow.offline.block_cache import BLOCK, WIDEST, BlockCache, Part, Pattern

MIB = 1 << 20


class Content:
    """A file that notes what is fetched, in blocks."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.data = random.Random(seed).randbytes(size)
        self.fetched: list[tuple[int, float]] = []

    def fetch(self, position: int, length: int) -> bytes:
        assert position % BLOCK == 0
        assert 0 < length <= len(self.data) - position
        self.fetched.append((position // BLOCK, length / BLOCK))
        return self.data[position : position + length]


@pytest.fixture
def cache() -> Iterator[BlockCache]:
    made = BlockCache()
    yield made
    made.close()


def read(cache: BlockCache, file: Content, position: int, length: int, name: str = "f") -> bytes:
    found = cache.read(name, len(file.data), file.fetch, position, length)
    assert found == file.data[position : position + length]
    return found


def test_what_was_fetched_is_not_fetched_again(cache: BlockCache) -> None:
    file = Content(40 * BLOCK)
    for position in (20 * BLOCK + 5, 20 * BLOCK, 21 * BLOCK - 1):
        read(cache, file, position, 1)
    assert file.fetched == [(20, 1)]
    read(cache, file, 19 * BLOCK, 3 * BLOCK)
    assert file.fetched == [(20, 1), (19, 3)], "one request, also where its middle is there"
    other = Content(40 * BLOCK, 1)
    read(cache, other, 20 * BLOCK, 1, "g")
    assert other.fetched == [(20, 1)]


def test_reads_at_the_end_are_short(cache: BlockCache) -> None:
    file = Content(3 * BLOCK + 7)
    assert read(cache, file, 3 * BLOCK + 5, 100) == file.data[-2:]
    assert read(cache, file, 3 * BLOCK + 7, 100) == b""
    assert read(cache, file, 9 * BLOCK, 100) == b""
    assert read(cache, file, 0, 9 * BLOCK) == file.data
    assert BlockCache().read("empty", 0, file.fetch, 0, 10) == b""


def test_a_file_read_in_order_is_fetched_in_ever_larger_parts_and_ahead(cache: BlockCache) -> None:
    file = Content(32 * MIB)
    for position in range(0, len(file.data), 100_000):
        read(cache, file, position, 100_000)
    assert [first for first, _ in file.fetched] == [0, 2, 6, 14, 30, 62, 126, 254, 382, 510]
    assert [count for _, count in file.fetched] == [2, 4, 8, 16, 32, 64, 128, 128, 128, 2]
    assert sum(count for _, count in file.fetched) * BLOCK == len(file.data), "nothing twice"


def test_large_reads_are_single_requests(cache: BlockCache) -> None:
    file = Content(64 * MIB)
    for position in range(0, len(file.data), 16 * MIB):
        read(cache, file, position, 16 * MIB)
    assert [count for _, count in file.fetched if count >= WIDEST] == [count for _, count in file.fetched]
    assert sum(count for _, count in file.fetched) * BLOCK == len(file.data)


def test_the_next_part_is_fetched_while_one_is_used(cache: BlockCache) -> None:
    file, both = Content(16 * MIB), Event()

    def fetch(position: int, length: int) -> bytes:
        if position >= 4 * MIB:
            both.set()
        return file.fetch(position, length)

    assert cache.read("f", len(file.data), fetch, 0, 4 * MIB) == file.data[: 4 * MIB]
    assert both.wait(60), "although nobody has read it"


def test_parts_of_a_mib_are_fetched_ahead() -> None:
    for wanted, is_long in ((15, False), (16, True), (17, True)):
        pattern = Pattern()
        assert pattern.part(0, wanted) == (0, wanted)
        assert pattern.is_long is is_long


def test_a_read_is_in_order_if_it_begins_in_the_part_that_would_follow() -> None:
    def second(first: int) -> Part:
        pattern = Pattern()
        assert pattern.part(0, 4) == (0, 4)
        return pattern.part(first, 1)

    assert [second(first) for first in (3, 4, 8, 9)] == [(3, 1), (4, 8), (8, 8), (9, 1)]
    assert Pattern().part(0, 1) == Pattern().following() == (0, 2)
    pattern = Pattern()
    assert [pattern.part(first, 1) for first in (50, 51, 53)] == [(50, 1), (51, 2), (53, 4)]


@pytest.mark.parametrize(("more", "ahead"), [(0, []), (1, [(4 * MIB, 1)])])
def test_only_what_a_file_has_is_fetched_ahead(cache: BlockCache, more: int, ahead: list[tuple[int, int]]) -> None:
    file, asked = bytes(4 * MIB + more), []

    def fetch(position: int, length: int) -> bytes:
        if threading.current_thread() is not threading.main_thread():
            asked.append((position, length))
        return file[position : position + length]

    cache.read("f", len(file), fetch, 0, 4 * MIB)
    assert len(cache.read("f", len(file), fetch, 4 * MIB, 9)) == more
    assert asked == ahead


def test_what_is_fetched_ahead_of_a_file_that_is_closed_is_not_fetched(cache: BlockCache) -> None:
    file, begun, goes_on, fetched = Content(16 * MIB), Event(), Event(), []

    def read_ahead(name: str) -> None:
        def fetch(position: int, length: int) -> bytes:
            if position:
                fetched.append(name)
                begun.set()
                assert goes_on.wait(60)
            return file.fetch(position, length)

        cache.read(name, len(file.data), fetch, 0, 4 * MIB)

    read_ahead("a")
    assert begun.wait(60)
    read_ahead("b")
    cache.forget_ahead("a")
    assert cache._ahead is not None
    cache.forget_ahead("b")
    assert cache._ahead is None
    goes_on.set()
    cache.close()
    assert fetched == ["a"]


def test_a_read_elsewhere_drops_what_is_fetched_ahead(cache: BlockCache) -> None:
    file = Content(32 * MIB)
    read(cache, file, 0, 4 * MIB)
    assert cache._ahead is not None
    read(cache, file, 400 * BLOCK, 1)
    assert cache._ahead is None


def test_nothing_stays_of_a_closed_cache(cache: BlockCache) -> None:
    file = Content(16 * MIB)
    read(cache, file, 0, 4 * MIB)
    cache.close()
    cache.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("store-read-ahead")]
    file.fetched.clear()
    for block in (64, 0):
        read(cache, file, block * BLOCK, 1)
    assert file.fetched == [(64, 1), (0, 1)], "blocks and what was fetched ahead are forgotten"


def test_reads_here_and_there_fetch_a_block_each(cache: BlockCache) -> None:
    file, chance = Content(64 * MIB), random.Random(3)
    positions = [chance.randrange(len(file.data)) // BLOCK * BLOCK for _ in range(30)]
    for position in positions:
        read(cache, file, position, 76)
    assert sum(count for _, count in file.fetched) < 3 * len(set(positions))


def test_what_is_kept_is_bounded() -> None:
    cache, file = BlockCache(most=8), Content(64 * BLOCK)
    for at in (50, 40, 30, 20, 10, 60, 45, 35):
        read(cache, file, at * BLOCK, BLOCK)
    read(cache, file, 50 * BLOCK, BLOCK)
    assert len(file.fetched) == 8
    read(cache, file, 0, 64 * BLOCK)
    assert len(cache._blocks) <= 8
    read(cache, file, 50 * BLOCK, BLOCK)
    cache.close()


def test_a_file_that_has_shrunk_gives_what_it_has(cache: BlockCache) -> None:
    file = Content(10 * BLOCK)

    def fetch(position: int, length: int) -> bytes:
        return file.data[position : min(position + length, 3 * BLOCK + 9)]

    assert cache.read("f", 10 * BLOCK, fetch, BLOCK, 5 * BLOCK) == file.data[BLOCK : 3 * BLOCK + 9]
    assert cache.read("f", 10 * BLOCK, fetch, 2 * BLOCK, 8 * BLOCK) == file.data[2 * BLOCK : 3 * BLOCK + 9]
    assert cache.read("f", 10 * BLOCK, fetch, 7 * BLOCK, BLOCK) == b""


def test_an_error_is_that_of_the_read_that_needs_the_bytes(cache: BlockCache) -> None:
    file = Content(16 * MIB)

    def fetch(position: int, length: int) -> bytes:
        if position >= 8 * MIB:
            raise OSError("gone")
        return file.fetch(position, length)

    assert cache.read("f", len(file.data), fetch, 0, 8 * MIB) == file.data[: 8 * MIB]
    assert cache.read("f", len(file.data), fetch, 0, 5) == file.data[:5]
    with pytest.raises(OSError, match="gone"):
        cache.read("f", len(file.data), fetch, 8 * MIB, 1)


def test_any_reads_give_the_bytes_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_cache, "BLOCK", 16)
    monkeypatch.setattr(block_cache, "WIDEST", 8)
    monkeypatch.setattr(block_cache, "_AHEAD_FROM", 4)
    for seed in range(200):
        chance = random.Random(seed)
        cache = BlockCache(most=chance.randrange(1, 20))
        files = {name: chance.randbytes(chance.randrange(500)) for name in "ab"}
        position = 0
        for _ in range(40):
            name = chance.choice("ab")
            data = files[name]
            position = chance.choice([position, chance.randrange(520)])
            length = chance.randrange(60)

            def fetch(begin: int, count: int, data: bytes = data) -> bytes:
                return data[begin : begin + count]

            assert cache.read(name, len(data), fetch, position, length) == data[position : position + length]
            if chance.random() < 0.1:
                cache.forget_ahead(name)
            position += length
        cache.close()
