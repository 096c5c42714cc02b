"""Lag of groups, from ranges of queues, offsets and pops."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metrics.lag import (
    NEVER,
    Lag,
    LagCalculator,
    Place,
    Popped,
    QueueLag,
    QueueState,
    lag_of,
    lag_with_pops,
)
from rocketmq_py.core.pop.inflight import InflightPops
from tests.unit.broker.harness import broker
from tests.unit.store.memoryfs import MemoryFileSystem


def states(*ranges: tuple[int, int]) -> list[QueueState]:
    """Queues whose messages were stored at 100 times their offset, plus the queue."""
    return [
        QueueState(queue, first, end, {offset: offset * 100 + queue for offset in range(first, end)})
        for queue, (first, end) in enumerate(ranges)
    ]


@pytest.mark.parametrize(
    ("ranges", "committed", "pulled", "expected"),
    [
        ([(0, 10)], {0: 4}, {}, (0, 6, 400, 400)),
        ([(0, 10)], {0: 4}, {0: 7}, (3, 3, 400, 700)),
        ([(0, 10)], {0: 4}, {0: 12}, (6, 0, 400, NEVER)),
        ([(0, 10)], {0: 4}, {0: 10}, (6, 0, 400, NEVER)),
        ([(0, 10)], {0: 4}, {0: 2}, (0, 6, 400, 400)),
        ([(5, 10)], {0: 2}, {}, (0, 5, 500, 500)),
        ([(5, 10)], {0: 2}, {0: 6}, (1, 4, 500, 600)),
        ([(0, 10)], {0: 10}, {0: 4}, (0, 0, NEVER, NEVER)),
        ([(0, 10)], {0: 30}, {}, (0, 0, NEVER, NEVER)),
        ([(0, 10)], {}, {}, (0, 0, NEVER, NEVER)),
        ([(0, 3), (0, 4)], {0: 1, 1: 0}, {1: 1}, (1, 5, 1, 100)),
        ([(0, 3), (0, 4)], {1: 3}, {2: 1}, (0, 1, 301, 301)),
    ],
    ids=["ready", "pulled", "pulled too far", "all pulled", "old pull", "expired", "expired, pulled", "consumed",
         "ahead", "no offset", "two queues", "one of two queues"],
)  # fmt: skip
def test_lag_of_a_group(ranges, committed, pulled, expected) -> None:
    missing: list[Place] = []
    assert lag_of(states(*ranges), committed, pulled, "t", missing) == expected
    assert missing == []


@pytest.mark.parametrize(
    ("ranges", "committed", "popped", "expected"),
    [
        ([(0, 10)], {0: 8}, ({0: 3}, {0: 5}), (3, 2, 500, 800)),
        ([(0, 10)], {0: 10}, ({0: 3}, {0: 5}), (3, 0, 500, NEVER)),
        ([(0, 10), (0, 5)], {0: 10, 1: 2}, ({0: 3}, {0: 5}), (3, 3, 201, 201)),
        ([(6, 10)], {0: 2}, ({0: 1}, {0: 9}), (1, 4, 900, 600)),
        ([(0, 10)], {}, ({0: 3}, {0: 5}), (0, 0, NEVER, NEVER)),
    ],
    ids=["popped", "all popped", "another queue", "expired", "no offset"],
)
def test_lag_of_a_group_with_pops(ranges, committed, popped, expected) -> None:
    missing: list[Place] = []
    assert lag_with_pops(states(*ranges), committed, Popped(*popped), "t", missing) == expected
    assert missing == []


def test_store_times_that_are_not_known_are_named() -> None:
    missing: list[Place] = []
    queues = [QueueState(0, 0, 10, {}), QueueState(1, 0, 10, {4: 400}), QueueState(2, 0, 10, {})]
    assert lag_of(queues, {0: 3, 1: 4, 2: 10}, {1: 7}, "t", missing) == (3, 10, 400, NEVER)
    assert missing == [("t", 0, 3), ("t", 1, 7)]
    missing.clear()
    for pulled, offsets in ((7, [3, 7]), (3, [3]), (10, [3]), (11, [3]), (2, [3]), (8, [3])):  # both of a queue at once
        assert lag_of([QueueState(0, 0, 10, {8: 800})], {0: 3}, {0: pulled}, "t", missing)[2:] == (NEVER, NEVER)
        assert missing == [("t", 0, offset) for offset in offsets], pulled
        missing.clear()
    assert lag_with_pops(queues, {0: 8, 2: 10}, Popped({0: 2, 2: 1}, {0: 5, 2: 9}), "t", missing)[:2] == (3, 2)
    assert set(missing) == {("t", 0, 5), ("t", 0, 8), ("t", 2, 9)}


class Counting:
    """A store of one queue of ten messages, which counts how often store times are read."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def queue_range(self, topic: str, queue: int) -> tuple[int, int]:
        return 0, 10

    def store_time(self, topic: str, queue: int, offset: int) -> int:
        self.read.append(offset)
        return 1_000 + offset if offset != 5 else -1


class Topics:
    """Topics with one queue."""

    def __init__(self, *names: str, queues: int = 1) -> None:
        self.table = {name: SimpleNamespace(read_queue_nums=queues) for name in names}
        self.get = self.table.get


def calculator(store: object, topics: Topics, offsets: ConsumerOffsets) -> LagCalculator:
    return LagCalculator(cast(Any, store), cast(Any, topics), offsets)


def computed(made: LagCalculator, pops: object = None) -> dict[str, Lag]:
    """Lags by topic and group."""
    list(made.all(cast(Any, pops or InflightPops())))
    return dict(zip(made.keys, made.lags, strict=True))


def test_store_times_are_read_once_while_groups_stand_still(tmp_path: Path) -> None:
    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        offsets, store = running.services.offsets, Counting()
        made = calculator(store, Topics("t"), offsets)
        for group, offset in (("a", 3), ("b", 3), ("c", 5), ("d", 10)):
            offsets.commit(group, "t", 0, offset, "a test")
        offsets.commit("a", "gone", 0, 1, "a test")
        assert list(computed(made)) == ["t@a", "t@b", "t@c", "t@d"]
        assert made.missing == [("t", 0, 3), ("t", 0, 3), ("t", 0, 5)]
        list(made.learn())
        list(made.again())
        expected = {
            "t@a": (0, 7, 1_003, 1_003), "t@b": (0, 7, 1_003, 1_003), "t@c": (0, 5, NEVER, NEVER),
            "t@d": (0, 0, NEVER, NEVER),
        }  # fmt: skip
        assert dict(zip(made.keys, made.lags, strict=True)) == expected
        assert made.missing == []
        assert computed(made) == expected
        assert (made.missing, store.read) == ([], [3, 5])
        assert made.queues("t@a") == [QueueLag(0, 7, 1_003)]


def test_store_times_where_no_group_stands_any_more_are_forgotten(tmp_path: Path) -> None:
    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        made = calculator(Counting(), Topics("t"), running.services.offsets)
        kept = []
        for offset in range(10):
            running.services.offsets.commit("g", "t", 0, offset, "a test")
            computed(made)
            list(made.learn())
            kept.append(len(made._by_name["t"].states[0].times))
        assert kept == [1, 2, 3, 4, 5, 6, 7, 8, 9, 1]


def test_a_topic_that_is_created_again_has_other_store_times(tmp_path: Path) -> None:
    class Shrinking(Counting):
        end = 10

        def queue_range(self, topic: str, queue: int) -> tuple[int, int]:
            return 0, self.end

    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        store = Shrinking()
        made = calculator(store, Topics("t"), running.services.offsets)
        running.services.offsets.commit("g", "t", 0, 3, "a test")
        for end, read in ((10, [3]), (10, [3]), (11, [3]), (9, [3, 3])):
            store.end = end
            computed(made)
            list(made.learn())
            assert store.read == read


def test_topics_that_lose_their_last_offsets_are_forgotten(tmp_path: Path) -> None:
    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        offsets = running.services.offsets
        made = calculator(Counting(), Topics("t", "u"), offsets)
        for topic in ("t", "u"):
            offsets.commit("a", topic, 0, 3, "a test")
        computed(made)
        offsets.remove_topic("u")
        computed(made)
        assert (list(made._by_name), list(made._by_key)) == (["t"], ["t@a"])


def test_a_group_that_goes_on_while_times_are_read_is_computed_once_more(tmp_path: Path) -> None:
    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        offsets, store = running.services.offsets, Counting()
        made = calculator(store, Topics("t"), offsets)
        for group in ("a", "b", "c"):
            offsets.commit(group, "t", 0, 3, "a test")
        computed(made)
        offsets.commit("b", "t", 0, 4, "a test")
        offsets.remove_group("c")
        list(made.learn())
        list(made.again())
        assert made.lags == [(0, 7, 1_003, 1_003), (0, 6, NEVER, NEVER), (0, 0, NEVER, NEVER)]
        assert made.missing == [("t", 0, 4)]
        list(made.learn())
        list(made.again())
        assert made.lags[1:] == [(0, 6, 1_004, 1_004), (0, 0, NEVER, NEVER)]
        assert (made.missing, store.read) == ([], [3, 4])


def test_twenty_groups_are_a_step(tmp_path: Path) -> None:
    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        made = calculator(Counting(), Topics("t"), running.services.offsets)
        for number in range(41):
            running.services.offsets.commit(f"g{number}", "t", 0, 3, "a test")
        assert len(list(made.all(InflightPops()))) == 3
        assert len(made.keys) == 41
        list(made.learn())
        assert len(list(made.again())) == 3
        assert set(made.lags) == {(0, 7, 1_003, 1_003)}


def test_a_group_has_no_lag_in_a_topic_that_is_gone(tmp_path: Path) -> None:
    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        running.services.offsets.commit("a", "gone", 0, 1, "a test")
        assert computed(calculator(Counting(), Topics(), running.services.offsets)) == {}


def test_pops_of_a_group_are_added_up_and_the_oldest_counts(tmp_path: Path) -> None:
    def pop(queue: int, *left: int) -> Any:
        return SimpleNamespace(check_point=SimpleNamespace(topic="t", group="g", queue_id=queue), left=list(left))

    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        made = calculator(Counting(), Topics(), running.services.offsets)
        pops = SimpleNamespace(pops=lambda: [pop(0, 5, 6), pop(0, 3), pop(1, 9), pop(1)])
        assert list(made.all(cast(Any, pops))) == [None] * 4
        assert made._popped == {"t@g": Popped({0: 3, 1: 1}, {0: 3, 1: 9})}


def test_queues_behind_one_that_does_not_count_do() -> None:
    queues = [*states((0, 3)), QueueState(1, 0, 4, {}), *states((0, 0), (0, 0), (0, 2))[2:]]
    found = lag_of(queues, {0: 1, 1: 2, 2: 0}, {0: 3}, "t", [])
    assert found == (2, 4, 2, 2)
    no_offset = lag_of(states((0, 3), (0, 3)), {1: 1}, {}, "t", [])
    assert no_offset == (0, 2, 101, 101)


def test_every_time_of_a_message_is_before_never() -> None:
    assert NEVER == 2**63


def test_a_queue_behind_one_whose_pulled_message_has_no_known_time_counts() -> None:
    missing: list[Place] = []
    queues = [QueueState(0, 0, 9, {1: 700}), QueueState(1, 0, 9, {2: 300})]
    assert lag_of(queues, {0: 1, 1: 2}, {0: 4}, "t", missing) == (3, 12, 300, 300)
    assert missing == [("t", 0, 4)]


def test_a_queue_behind_one_without_an_offset_counts_and_its_own_pops_are_none() -> None:
    missing: list[Place] = []
    queues = states((0, 5), (0, 5))
    assert lag_with_pops(queues, {1: 2}, Popped({0: 3}, {0: 1}), "t", missing) == (0, 3, 201, 201)
    assert missing == []


class Queues:
    """A store of two queues with messages 0 to 9, stored at 0 to 9 ms."""

    def __init__(self) -> None:
        self.ranges: list[tuple[str, int]] = []

    def queue_range(self, topic: str, queue: int) -> tuple[int, int]:
        self.ranges.append((topic, queue))
        return 0, 10

    def store_time(self, topic: str, queue: int, offset: int) -> int:
        return offset


def test_ranges_are_read_once_for_a_topic_and_pops_count_for_their_group_and_queue(tmp_path: Path) -> None:
    def pop(group: str, queue: int, *left: int) -> Any:
        return SimpleNamespace(check_point=SimpleNamespace(topic="t", group=group, queue_id=queue), left=list(left))

    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        offsets, store = running.services.offsets, Queues()
        made = calculator(store, Topics("t", queues=2), offsets)
        offsets.commit("a", "t", 1, 8, "a test")
        offsets.commit("b", "t", 0, 0, "a test")
        offsets.commit("b", "t", 1, 12, "a test")
        pops = SimpleNamespace(pops=lambda: [pop("a", 1, 4, 5)])
        found = computed(made, pops)
        assert {key: lag[:2] for key, lag in found.items()} == {"t@a": (2, 2), "t@b": (0, 10)}
        assert store.ranges == [("t", 0), ("t", 1)]
        list(made.learn())
        list(made.again())
        assert made.lags == [(2, 2, 4, 8), (0, 10, NEVER, NEVER)]
        assert made.queues("t@a") == [QueueLag(1, 4, 4)], "a queue without an offset has no lag"
        assert made.queues("t@b") == [QueueLag(0, 10, NEVER), QueueLag(1, 0, NEVER)]
        made._popped["t@b"] = Popped({1: 2}, {1: 7})
        assert made.queues("t@b") == [QueueLag(0, 10, NEVER), QueueLag(1, 2, NEVER)]


class Watched(LagCalculator):
    """Notes which groups it computes."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.computed: list[str] = []

    def _stand(self, key: str, *rest: Any) -> None:
        self.computed.append(key)
        super()._stand(key, *rest)

    def once_more(self, pops: object = None) -> dict[str, Lag]:
        """All lags, with store times; what was computed for them is in :attr:`computed`."""
        self.computed.clear()
        computed(self, pops)
        while self.missing:
            list(self.learn())
            list(self.again())
        return dict(zip(self.keys, self.lags, strict=True))


def test_only_what_has_moved_is_computed_again(tmp_path: Path) -> None:
    class Growing(Queues):
        end = 10

        def queue_range(self, topic: str, queue: int) -> tuple[int, int]:
            return 0, self.end if topic == "t" else 10

    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        offsets, store = running.services.offsets, Growing()
        made = Watched(store, Topics("t", "u", queues=2), offsets)
        for key in ("a", "b"):
            for topic in ("t", "u"):
                offsets.commit(key, topic, 0, 3, "a test")
        first = made.once_more()
        assert made.computed == ["t@a", "u@a", "t@b", "u@b"] * 2, "without and with store times"
        assert (made.once_more(), made.computed) == (first, [])
        offsets.commit("a", "t", 0, 4, "a test")
        assert (made.once_more()["t@a"], set(made.computed)) == ((0, 6, 4, 4), {"t@a"})
        offsets.pulled("b", "u", 0, 5)
        assert (made.once_more()["u@b"], set(made.computed)) == ((2, 5, 3, 5), {"u@b"})
        store.end = 11
        assert (made.once_more()["t@b"], made.computed) == ((0, 8, 3, 3), ["t@a", "t@b"])


def test_lags_of_pops_are_computed_each_time_and_once_after_they_ended(tmp_path: Path) -> None:
    check_point = SimpleNamespace(topic="t", group="a", queue_id=0)
    pops = SimpleNamespace(pops=lambda: [SimpleNamespace(check_point=check_point, left=[2, 3])])
    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        made = Watched(Queues(), Topics("t"), running.services.offsets)
        running.services.offsets.commit("a", "t", 0, 4, "a test")
        for now, lag, times in ((pops, (2, 6, 2, 4), 2), (pops, (2, 6, 2, 4), 1), (None, (0, 6, 4, 4), 1),
                                (None, (0, 6, 4, 4), 0)):  # fmt: skip
            assert (made.once_more(now), len(made.computed)) == ({"t@a": lag}, times)


def test_store_times_that_are_forgotten_are_read_again(tmp_path: Path) -> None:
    class Longer(Counting):
        def queue_range(self, topic: str, queue: int) -> tuple[int, int]:
            return 0, 40

    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        offsets, store = running.services.offsets, Longer()
        made = Watched(store, Topics("t"), offsets)
        offsets.commit("still", "t", 0, 3, "a test")
        kept = []
        for offset in range(10, 30):
            offsets.commit("moves", "t", 0, offset, "a test")
            assert made.once_more()["t@still"] == (0, 37, 1_003, 1_003)
            assert made.queues("t@still") == [QueueLag(0, 37, 1_003)]
            kept.append(len(made._by_name["t"].states[0].times))
        assert (max(kept), store.read.count(3)) == (13, 2)
