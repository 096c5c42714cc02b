"""Queues of a topic cut and read in the order of the log, whatever their entries say."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any, cast

import numpy as np
import pytest

from rocketmq_py.arrow.offline import log_order
from rocketmq_py.arrow.offline.log_order import Stored, log_parts, swept
from rocketmq_py.arrow.offline.records import ENTRY, Entries
from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.model import MessageQueue
from rocketmq_py.store.tools.store_files import QueueView

FILE = 1 << 30
PER_FILE = 100
MIB = 1 << 20


class View:
    """Entries in files of a hundred; ``gone`` files are missing."""

    def __init__(self, places: list[tuple[int, int]], gone: tuple[int, ...] = ()) -> None:
        self.raw_entries = np.array([(physical, size, 0) for physical, size in places], ENTRY)
        self.gone = gone
        self.reads = 0

    def raw(self, offset: int, count: int) -> bytes:
        self.reads += 1
        number = offset // PER_FILE
        end = min(offset + count, (number + 1) * PER_FILE)
        return b"" if number in self.gone else self.raw_entries[offset:end].tobytes()

    def read(self, offset: int, count: int) -> list[tuple[int, int, int]]:
        found = np.frombuffer(self.raw(offset, count), ENTRY)
        return [(int(physical), int(size), int(code)) for physical, size, code in found.tolist()]

    def next_file(self, offset: int) -> int:
        return offset - offset % PER_FILE + PER_FILE


def stored(places: list[tuple[int, int]], queue_id: int = 0, *, gone: tuple[int, ...] = (), start: int = 0) -> Stored:
    view = cast("QueueView", View(places, gone))
    return Stored(QueueRange(MessageQueue("T", "a", queue_id), start, len(places)), view)


def in_turn(queues: int, count: int, size: int = 1000, begin: int = 0) -> list[Stored]:
    return [stored([(begin + (at * queues + q) * size, size) for at in range(count)], q) for q in range(queues)]


def everything(entries: Entries) -> Any:
    return np.ones(len(entries.offsets), bool)


def pieces_of(ranges: list[Stored]) -> tuple[list[log_order.Piece], list[tuple[int, int]]]:
    held: list[tuple[int, int]] = []
    return list(swept(ranges, FILE, everything, lambda *place: held.append(place))), held


def assert_whole(ranges: list[Stored], pieces: list[log_order.Piece]) -> None:
    """The pieces of each queue are its range, in order, and their entries are within them."""
    for one in ranges:
        own = [piece.range for piece in pieces if piece.range.queue == one.range.queue]
        assert (own[0].start, own[-1].stop) == one.range[1:]
        assert all(before.stop == after.start for before, after in pairwise(own))
    for piece in pieces:
        assert set(piece.entries.offsets.tolist()) <= set(range(piece.range.start, piece.range.stop))


def test_queues_whose_records_take_turns_share_blocks() -> None:
    ranges = in_turn(4, 5000)
    pieces, held = pieces_of(ranges)
    assert_whole(ranges, pieces)
    assert (held[0][0], held[-1][1]) == (0, 4 * 5000 * 1000)
    assert all(before[1] == after[0] for before, after in pairwise(held)), "the log is read once"
    assert all(end - begin <= 3 * MIB for begin, end in held)
    assert len(pieces) == 4 * len(held)


def test_more_queues_have_larger_blocks_up_to_a_limit() -> None:
    _, held = pieces_of(in_turn(64, 200, 2000))
    assert 3 * MIB < held[0][1] < 5 * MIB
    _, held = pieces_of(in_turn(500, 300, 2000))
    assert 15 * MIB < held[0][1] < 17 * MIB


def test_what_is_rare_in_the_log_is_not_read_with_everything_between() -> None:
    ranges = [stored([(at * 50_000 + q * 500, 500) for at in range(2000)], q) for q in range(2)]
    pieces, held = pieces_of(ranges)
    assert_whole(ranges, pieces)
    assert held == []
    assert len(pieces) < 40, "blocks become wider"


def test_a_block_ends_with_its_file() -> None:
    ranges = in_turn(2, 3000, begin=FILE - 3_000_000)
    pieces, held = pieces_of(ranges)
    assert_whole(ranges, pieces)
    assert all(begin // FILE == (end - 1) // FILE for begin, end in held)


def test_offsets_whose_entries_are_missing_are_in_a_piece() -> None:
    places = [(at * 1000, 1000) for at in range(350)]
    for gone in ((0,), (1, 2), (3,), (0, 1, 2, 3)):
        ranges = [stored(places, 0, gone=gone), stored(places, 1), stored(places[:50], 2, start=50)]
        ranges = [one for one in ranges if one.range.size]
        pieces, _ = pieces_of(ranges)
        assert_whole(ranges, pieces)
        found = sum(len(piece.entries.offsets) for piece in pieces)
        assert found == 700 - sum(len(places[number * 100 : number * 100 + 100]) for number in gone)
    nothing = [Stored(ranges[0].range, None), ranges[1]]
    assert_whole(nothing, pieces_of(nothing)[0])


def test_entries_in_any_order_are_passed_through_in_the_order_of_offsets() -> None:
    odd = [(5_000_000, 100), (0, 0x7FFFFFFF), (-7, 100), (1 << 62, 100), (3, 100), ((1 << 63) - 1, 100), (4_000, -1)]
    for first, second in product([odd, odd[::-1]], repeat=2):
        ranges = [stored(first, 0), stored(second, 1)]
        pieces, _ = pieces_of(ranges)
        assert_whole(ranges, pieces)
        assert sum(len(piece.entries.offsets) for piece in pieces) == len(first) + len(second)


@pytest.mark.parametrize(("count", "small"), [(3000, 8192), (3000, 10), (90, 8192)])
def test_parts_have_as_many_messages_and_are_apart_in_the_log(
    count: int, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_order, "_SMALL", small)
    early = stored([(at * 1000, 1000) for at in range(count)], 0)
    late = stored([((count + at) * 1000, 1000) for at in range(count)], 1)
    for ranges in (in_turn(3, count), [early, late]):
        parts = log_parts(ranges, 4)
        assert len(parts) == 4
        for one in ranges:
            own = [piece for part in parts for piece in part if piece.queue == one.range.queue]
            assert (own[0].start, own[-1].stop) == one.range[1:]
            assert all(before.stop == after.start for before, after in pairwise(own))
        total = sum(one.range.size for one in ranges)
        sizes = [sum(piece.size for piece in part) for part in parts]
        assert all(abs(size - total / 4) < total / 50 for size in sizes), sizes


def test_parts_of_queues_without_entries() -> None:
    gone = stored([(at, 100) for at in range(300)], gone=(0, 1, 2))
    for ranges in ([gone], [gone, Stored(gone.range, None)], [gone, *in_turn(2, 300)]):
        parts = log_parts(ranges, 3)
        assert sum(piece.size for part in parts for piece in part) == sum(one.range.size for one in ranges)
