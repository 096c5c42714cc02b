"""Blocks of the log that were in memory a moment ago are not asked about again."""

from __future__ import annotations

import pytest

from rocketmq_py.store.log import known_blocks
from rocketmq_py.store.log.known_blocks import BLOCK, REGION, KnownBlocks, KnownRegions


class Asked:
    """A log of which some blocks are in memory; it notes what it is asked about."""

    def __init__(self, *resident: int) -> None:
        self.resident = set(resident)
        self.numbers: list[int] = []
        self.now = 100.0
        self.blocks = KnownBlocks(self._answer, lambda: self.now)

    def _answer(self, number: int) -> bool:
        self.numbers.append(number)
        return number in self.resident

    def absent(self, *records: tuple[int, int]) -> list[tuple[int, int]]:
        return list(self.blocks.absent([at for at, _ in records], [size for _, size in records]))


def test_records_of_one_block_are_one_question() -> None:
    log = Asked(0, 1)
    assert log.absent(*[(100 * number, 100) for number in range(100)]) == []
    assert log.absent((BLOCK - 100, 100), (5, 1)) == []
    assert log.numbers == [0]
    assert log.absent((BLOCK - 100, 101)) == []
    assert log.numbers == [0, 1]


def test_records_in_absent_blocks_are_named() -> None:
    log = Asked(0, 2)
    first, second = (BLOCK - 10, 20), (2 * BLOCK - 10, 20)
    inside, whole = (BLOCK + 5, 10), (2 * BLOCK, 10)
    assert log.absent((0, 10), first, inside, second, whole) == [first, inside, second]
    assert sorted(log.numbers) == [0, 1, 2]
    log.resident.add(1)
    assert log.absent(first, inside, second) == []
    assert sorted(log.numbers) == [0, 1, 1, 2], "only what was absent is asked about again"


def test_a_record_larger_than_a_block_is_always_named() -> None:
    log = Asked(0, 1, 2)
    assert log.absent((0, BLOCK)) == []
    assert log.absent((10, BLOCK)) == []
    assert log.absent((0, BLOCK + 1)) == [(0, BLOCK + 1)]
    assert log.absent((BLOCK - 1, BLOCK + 2), (0, 1)) == [(BLOCK - 1, BLOCK + 2)]


def test_answers_count_for_a_second() -> None:
    log = Asked(0)
    log.absent((0, 1))
    log.now += 0.999
    log.absent((0, 1))
    assert log.numbers == [0]
    log.now += 0.001
    log.absent((0, 1))
    assert log.numbers == [0, 0]


def test_the_number_of_known_blocks_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_blocks, "_MOST", 2)
    log = Asked(0, 1, 2)
    log.absent((0, 1), (BLOCK, 1))
    log.absent((0, 1))
    assert sorted(log.numbers) == [0, 1]
    log.absent((2 * BLOCK, 1))
    log.absent((0, 1))
    assert sorted(log.numbers) == [0, 0, 1, 2]


def test_nothing_is_asked_about_nothing() -> None:
    assert Asked().absent() == []


class AskedRegions:
    """As :class:`Asked`, with regions."""

    def __init__(self, *resident: int) -> None:
        self.resident = set(resident)
        self.numbers: list[int] = []
        self.now = 100.0
        self.regions = KnownRegions(self._answer, lambda: self.now)

    def _answer(self, number: int) -> bool:
        self.numbers.append(number)
        return number in self.resident

    def have(self, begin: float, end: float, more: int = 0) -> bool:
        """Ask about a part that begins and ends at multiples of a region, and ``more`` bytes."""
        return self.regions.have(int(begin * REGION), int(end * REGION) + more)


def test_a_region_is_asked_about_once_a_second() -> None:
    log = AskedRegions(2, 3)
    assert log.have(2, 3)
    assert log.have(2.5, 3)
    assert log.numbers == [2]
    assert log.have(2.5, 3, 1)
    assert log.numbers == [2, 3]
    log.now += 0.999
    assert log.have(2, 4)
    assert log.numbers == [2, 3]
    log.now += 0.001
    assert log.have(3, 4)
    assert log.numbers == [2, 3, 3]


def test_an_absent_region_is_asked_about_once_a_second_too() -> None:
    log = AskedRegions(0, 2)
    assert not log.have(0, 3)
    assert log.numbers == [0, 1]
    assert not log.have(0, 3)
    assert not log.have(1.1, 1.2)
    assert log.numbers == [0, 1], "neither about it, nor about others of a read that needs it"
    assert log.have(2, 3)
    log.resident.add(1)
    assert not log.have(1, 2)
    log.now += 1
    assert log.have(0, 3)
    assert log.numbers == [0, 1, 2, 0, 1, 2]


def test_a_read_asks_about_few_regions_and_a_later_one_about_the_next() -> None:
    log = AskedRegions(*range(10))
    assert not log.have(0, 10)
    assert log.numbers == [0, 1, 2, 3]
    assert not log.have(0, 10)
    assert log.have(0, 10)
    assert log.numbers == [*range(10)]


def test_no_bytes_and_too_many_are_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_blocks, "_MOST_REGIONS", 3)
    log = AskedRegions(*range(10))
    assert not log.have(0, 3, 1)
    assert not log.have(5, 4), "the entries are wrong"
    assert not log.have(5, 5)
    assert log.numbers == []
    assert log.have(0, 3)
