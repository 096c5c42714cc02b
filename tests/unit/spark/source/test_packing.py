"""Small ranges share a task, large ones do not."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from pyspark.sql.datasource import InputPartition

from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange
from rocketmq_py.arrow.source.plan import split
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.source.packing import (
    LEAST,
    MOST,
    MOST_PROBES,
    PER_RANGE,
    ROW_BYTES,
    TASKS,
    enough_for_a_task,
    estimated,
    pack,
    parts_of_topics,
    probes,
)
from rocketmq_py.spark.source.partitions import members, partition


def ranges(*sizes: int, topic: str = "t", broker: str = "a") -> list[QueueRange]:
    return [QueueRange(MessageQueue(topic, broker, i), 10, 10 + size) for i, size in enumerate(sizes)]


def sizes(tasks: Sequence[Sequence[QueueRange]]) -> list[list[int]]:
    return [[one.size for one in task] for task in tasks]


def cost(task: Sequence[QueueRange], of_a_row: float = 1) -> int:
    return sum(PER_RANGE + int(one.size * of_a_row) for one in task)


def test_a_few_messages_of_many_queues_are_one_task() -> None:
    assert sizes(pack(ranges(3, 2, 3, 2), {})) == [[3, 2, 3, 2]]


def test_a_large_range_has_a_task_of_its_own_and_small_ones_share() -> None:
    assert sizes(pack(ranges(2000, 9000, 2000, 1, 2000), {})) == [[2000, 2000, 1], [9000], [2000]]


def test_messages_of_some_size_fill_a_task_sooner() -> None:
    assert sizes(pack(ranges(100, 100), {"t": ROW_BYTES})) == [[100, 100]]
    assert sizes(pack(ranges(100, 100), {"t": 40 * ROW_BYTES})) == [[100], [100]]


def test_a_million_rows_take_the_same_number_of_tasks_in_any_number_of_queues() -> None:
    for queues in (1000, 8000):
        tasks = pack(ranges(*[1_000_000 // queues] * queues), {})
        assert TASKS <= len(tasks) <= TASKS * 1.1


def test_the_ranges_of_a_broker_are_neighbours() -> None:
    mixed = [one for pair in zip(ranges(1, 2), ranges(3, 4, broker="b"), strict=True) for one in pair]
    assert sizes(pack(mixed, {})) == [[1, 2, 3, 4]]


def test_nothing_gives_no_task() -> None:
    assert pack([], {}) == []


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("tu"), st.integers(1, 30_000)), max_size=60),
    st.one_of(st.none(), st.integers(1, 80)),
    st.one_of(st.none(), st.integers(1, 9000)),
    st.floats(0, 8 * ROW_BYTES),
)
def test_every_range_is_in_one_task_in_order_and_no_task_is_too_large(
    parts: list[tuple[str, str, int]], at_least: int | None, at_most: int | None, row_bytes: float
) -> None:
    queues = [QueueRange(MessageQueue(t, b, i), 7, 7 + size) for i, (b, t, size) in enumerate(parts)]
    pieces = split(queues, at_least, at_most)
    tasks = pack(pieces, {"t": row_bytes}, at_least, at_most)
    assert sorted(one for task in tasks for one in task) == sorted(pieces)
    for task in tasks:
        assert task == sorted(task, key=lambda one: (one.queue.broker_name, one.queue.topic, one.queue, one.start))
    if at_least is not None:
        assert len(tasks) >= min(at_least, sum(one.size for one in queues))

    def weight(task: Sequence[QueueRange]) -> int:
        return sum(cost([one], max(row_bytes / ROW_BYTES, 1) if one.queue.topic == "t" else 1) for one in task)

    enough = enough_for_a_task(weight(pieces), at_least)
    for task in tasks:
        assert len(task) == 1 or weight(task) <= enough
        assert at_most is None or sum(one.size for one in task) <= at_most
    if at_least is None and at_most is None:
        shared = [weight(task) for task in tasks if weight(task) < enough]
        assert all(first + second > enough for first, second in pairwise(shared)), "no two could be one"


@given(st.integers(0, 10**12))
def test_what_is_enough_for_a_task_keeps_its_limits(total: int) -> None:
    assert LEAST <= enough_for_a_task(total, None) <= MOST
    assert enough_for_a_task(total, 7) <= total // 7


# -- how large messages are


def test_one_range_of_each_topic_is_looked_at_the_longest() -> None:
    wanted = [*ranges(400, 500), *ranges(700, topic="u"), *ranges(5, topic="few"), *ranges(900, topic="known")]
    assert sizes([probes(wanted, {"known": 1.0})]) == [[500, 700]]


def test_what_has_tasks_of_its_own_is_not_looked_at() -> None:
    assert probes(ranges(MOST, MOST), {}) == []
    assert probes(ranges(MOST - 1), {}) == []


def test_a_limited_number_of_topics_is_looked_at_and_the_others_are_as_these() -> None:
    many = [one for number in range(MOST_PROBES + 9) for one in ranges(1000, topic=f"t{number}")]
    assert len(probes(many, {})) == MOST_PROBES
    assert estimated(["a", "b", "c"], {"a": 10.0, "b": 30.0}) == {"a": 10.0, "b": 30.0, "c": 20.0}
    assert estimated(["a"], {}) == {"a": ROW_BYTES}


# -- partitions


def test_a_partition_knows_its_brokers_and_can_be_pickled() -> None:
    wanted = ranges(1, 2)
    at = Addresses("10.0.0.1:10911")
    shared = partition([LocatedRange(wanted[0], at), LocatedRange(wanted[1], Addresses())])
    copies = members(pickle.loads(pickle.dumps(shared)))
    assert [(one.range, one.addresses) for one in copies] == [(wanted[0], at), (wanted[1], Addresses())]
    (alone,) = members(partition([LocatedRange(wanted[0], at)]))
    assert alone == LocatedRange(wanted[0], at)


def test_only_the_placeholder_of_spark_has_no_ranges() -> None:
    assert members(InputPartition(None)) == []
    with pytest.raises(TypeError, match="a partition of this source is expected"):
        members(InputPartition("another"))


def test_a_topic_of_several_queues_and_tasks_can_be_cut_in_another_way() -> None:
    four = ranges(250_000, 250_000, 250_000, 250_000)
    assert parts_of_topics(four, {}, None, None) == [(four, 4)]
    assert parts_of_topics(ranges(*[1000] * 1000), {}, None, None) == [(sorted(ranges(*[1000] * 1000)), 8)]
    assert parts_of_topics(ranges(1_000_000), {}, None, None) == []
    assert parts_of_topics(ranges(10, 10), {}, None, None) == []
    assert parts_of_topics([], {}, None, None) == []
    halves = [half for one in four for half in (one._replace(stop=one.stop // 2), one._replace(start=one.stop // 2))]
    assert parts_of_topics(halves, {}, 8, None) == [(four, 8)]
    ((_, number),) = parts_of_topics(four, {}, None, 100_000)
    assert number >= 10
    both = parts_of_topics([*four, *ranges(10, 10, topic="u"), *ranges(*[10**6] * 2, broker="b")], {}, None, None)
    assert [whole[0].queue[:2] for whole, _ in both] == [("t", "a"), ("t", "b")]
