"""Which ranges an archive takes, and how they are divided into files."""

from __future__ import annotations

from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange
from rocketmq_py.cli.archive.archiving import rounds, stretches
from rocketmq_py.cli.archive.manifest import Manifest, Part, Stretch
from rocketmq_py.model import MessageQueue

Q = [MessageQueue("t", "a", number) for number in range(3)]
AT = Addresses("h:1")


def located(*spans: tuple[int, int, int]) -> list[LocatedRange]:
    return [LocatedRange(QueueRange(Q[queue], start, stop), AT, (queue, 9)) for queue, start, stop in spans]


def divided(rows: int, *spans: tuple[int, int, int]) -> list[list[tuple[int, int, int]]]:
    found = list(rounds(located(*spans), rows))
    assert all(one.addresses == AT and one.span == (one.range.queue.queue_id, 9) for group in found for one in group)
    return [[(one.range.queue.queue_id, one.range.start, one.range.stop) for one in group] for group in found]


def test_a_file_has_at_most_so_many_offsets() -> None:
    assert divided(10) == []
    assert divided(10, (0, 5, 8), (1, 0, 7)) == [[(0, 5, 8), (1, 0, 7)]]
    assert divided(10, (0, 5, 8), (1, 0, 8)) == [[(0, 5, 8)], [(1, 0, 8)]]
    assert divided(10, (0, 0, 25)) == [[(0, 0, 8)], [(0, 8, 16)], [(0, 16, 25)]]
    assert divided(10, (0, 0, 1), (1, 0, 20)) == [[(0, 0, 1)], [(1, 0, 10)], [(1, 10, 20)]]


def test_the_manifest_names_adjacent_ranges_as_one() -> None:
    ranges = [one.range for one in located((1, 4, 6), (0, 0, 3), (0, 3, 5), (0, 6, 7))]
    assert stretches(ranges) == [Stretch("a", 0, 0, 5), Stretch("a", 0, 6, 7), Stretch("a", 1, 4, 6)]


def test_the_next_run_begins_where_the_last_one_ended() -> None:
    parts = [
        Part("part-000000.parquet", 5, 9, [Stretch("a", 0, 2, 5), Stretch("a", 1, 0, 2)]),
        Part("part-000001.parquet", 3, 9, [Stretch("a", 0, 5, 8)]),
    ]
    manifest = Manifest("t", parts)
    assert manifest.ends() == {Q[0]: 8, Q[1]: 2}
    assert manifest.rows == 8
    assert Manifest("t").ends() == {}


def test_a_range_continues_the_one_before_it_of_its_queue() -> None:
    pieces = [(0, 0, 5), (1, 4, 6), (1, 6, 8), (1, 8, 9)]
    ranges = [QueueRange(MessageQueue("t", "a", queue), start, stop) for queue, start, stop in pieces]
    assert stretches(ranges) == [Stretch("a", 0, 0, 5), Stretch("a", 1, 4, 9)]
