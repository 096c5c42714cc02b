"""The lines about groups: their exact text, the sizes of their pieces, the store times that are read and kept."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from rocketmq_py.broker.metrics import families as f
from rocketmq_py.broker.metrics.group_lines import GroupLines
from rocketmq_py.broker.metrics.lag import NEVER, Lag, QueueLag
from rocketmq_py.server.monitoring.exposition import Exposition

NOW = 10_000


class Slices:
    """Does work at once, and counts its steps."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    async def run(self, steps: Any) -> list[Any]:
        found = list(steps)
        self.steps.append(len(found))
        return found


class Calculator:
    """Knows lags; its store times are missing until they were learnt so often."""

    def __init__(self, lags: dict[str, Lag], rounds: int = 0) -> None:
        self.keys, self.lags, self.rounds = list(lags), list(lags.values()), rounds
        self.told: list[Any] = []

    @property
    def missing(self) -> list[tuple[str, int, int]]:
        return [("t", 0, 1), ("t", 0, 1)] if self.rounds else []

    def all(self, pops: object) -> Any:
        self.told.append(pops)
        return iter(self.lags)

    def learn(self) -> Any:
        self.told.append("learn")
        self.rounds -= 1
        return iter([None])

    def again(self) -> Any:
        self.told.append("again")
        return iter(self.lags)

    def queues(self, key: str) -> list[QueueLag]:
        return [QueueLag(0, 3, NOW - 7), QueueLag(1, 0, NEVER), QueueLag(2, 1, NOW + 5), QueueLag(3, 2, NOW)]


class Lines:
    """The lines of a broker in which ``sys`` is a system topic."""

    def __init__(self, calculator: Calculator, most: int = 100_000, *, queue_level: bool = False) -> None:
        self.slices, self.exposition = Slices(), Exposition('a="b"', most)
        self.now = NOW
        self.asked: list[str] = []
        self.loaded: list[Any] = []

        def is_system(topic: str) -> bool:
            self.asked.append(topic)
            return topic == "sys"

        async def load(work: Any) -> None:
            self.loaded += work.args[0]

        store = SimpleNamespace(loader=SimpleNamespace(run=load), checks=SimpleNamespace(store_times=list))
        services: Any = SimpleNamespace(
            store=store, topics=SimpleNamespace(is_system=is_system), offsets=None,
            pop=SimpleNamespace(revive_log=SimpleNamespace(inflight="pops")),
        )  # fmt: skip
        self.made = GroupLines(
            services,
            self.exposition,
            self.slices,
            lambda: self.now,
            queue_level=queue_level,  # type: ignore[arg-type]
        )
        self.made._calculator = calculator  # type: ignore[assignment]

    def collect(self, *wanted: str) -> list[bytes]:
        self.exposition.begin(frozenset(wanted))
        return asyncio.run(self.made.collect())


def lags(count: int) -> dict[str, Lag]:
    return {f"t@g{number}": (0, 1, NOW, NOW) for number in range(count)}


def test_the_lines_of_a_group() -> None:
    lines = Lines(Calculator({'t@g"': (2, 3, NOW - 5, NOW - 1), "t@h": (0, 0, NEVER, NEVER)}))
    found = b"".join(lines.collect()).decode()
    one = '{a="b",consumer_group="g\\"",topic="t",is_retry="false",is_system="false"}'
    two = '{a="b",consumer_group="h",topic="t",is_retry="false",is_system="false"}'
    assert found == "".join(
        f"{family.head()}{family.name}{one} {first}.0\n{family.name}{two} {second}.0\n"
        for family, first, second in (
            (f.LAG, 5, 0), (f.INFLIGHT, 2, 0), (f.READY, 3, 0), (f.LAG_LATENCY, 5, 0), (f.QUEUEING_LATENCY, 1, 0)
        )
    )  # fmt: skip
    assert lines.exposition.left_out == {}


def test_labels_are_made_once_and_go_with_their_groups() -> None:
    calculator = Calculator(lags(2))
    lines = Lines(calculator)
    first = lines.collect()
    assert (lines.asked, lines.collect()) == (["t", "t"], first)
    assert lines.asked == ["t", "t"], "labels are kept"
    calculator.keys, calculator.lags = calculator.keys[:1], calculator.lags[:1]
    lines.collect()
    assert list(lines.made._labels) == ["t@g0"]


def test_the_lines_of_its_queues() -> None:
    lines = Lines(Calculator(lags(1)), queue_level=True)
    found = b"".join(lines.collect(f.QUEUE_LAG.name, f.QUEUE_LAG_LATENCY.name)).decode()
    labels = 'a="b",consumer_group="g0",topic="t",is_retry="false",is_system="false"'
    assert found == "".join(
        family.head() + "".join(f'{family.name}{{{labels},queue_id="{queue}"}} {value}.0\n'
                                for queue, value in enumerate(values))
        for family, values in ((f.QUEUE_LAG, (3, 0, 1, 2)), (f.QUEUE_LAG_LATENCY, (7, 0, 0, 0)))
    )  # fmt: skip


def test_retry_topics_system_topics_and_system_groups_are_marked() -> None:
    keys = ("%RETRY%g@g", "sys@g", "t@CID_RMQ_SYS_x")
    lines = Lines(Calculator(dict.fromkeys(keys, (0, 0, NEVER, NEVER))))
    _, *found = b"".join(lines.collect(f.READY.name)).decode().splitlines()[1:]
    assert [line.partition(',is_retry="')[2] for line in found] == [
        'true",is_system="false"} 0.0', 'false",is_system="true"} 0.0', 'false",is_system="true"} 0.0',
    ]  # fmt: skip


def test_pieces_are_the_head_and_the_blocks_of_twenty_groups() -> None:
    for count, pieces in ((20, [20]), (21, [20, 1]), (60, [20, 20, 20])):
        found = Lines(Calculator(lags(count))).collect(f.LAG.name)
        assert [piece.count(b"\n") for piece in found] == [2, *pieces]
        assert found[1].startswith(b'rocketmq_consumer_lag_messages{a="b",consumer_group="g0"')


def test_lines_about_messages_are_made_again_only_where_a_lag_has_changed() -> None:
    calculator = Calculator(lags(50))
    lines = Lines(calculator)
    before = lines.collect(f.READY.name)
    calculator.lags = [*calculator.lags[:30], (0, 9, NOW, NOW), *calculator.lags[31:]]
    after = lines.collect(f.READY.name)
    assert [old is new for old, new in zip(before, after, strict=True)] == [False, True, False, True]
    assert after[2].splitlines()[10] == before[2].splitlines()[10].replace(b"1.0", b"9.0")
    calculator.keys, calculator.lags = calculator.keys[:10], calculator.lags[:10]
    assert [piece.count(b"\n") for piece in lines.collect(f.READY.name)] == [2, 10], "those of others are forgotten"


def test_latencies_are_of_this_moment() -> None:
    lines = Lines(Calculator({"t@g": (2, 3, NOW - 5, NOW - 1)}))
    lines.collect()
    lines.now += 100
    found = b"".join(lines.collect(f.LAG_LATENCY.name, f.QUEUEING_LATENCY.name)).decode()
    assert [line.rpartition(" ")[2] for line in found.splitlines() if line[0] != "#"] == ["105.0", "101.0"]


def test_lines_beyond_the_limit_are_left_out_and_noted() -> None:
    lines = Lines(Calculator(lags(7)), most=6)
    assert b"".join(lines.collect(f.LAG.name)).count(b"\n") == 2 + 6
    assert lines.exposition.left_out == {f.LAG.name: 1}


def test_twenty_groups_are_a_step() -> None:
    for count, blocks in ((20, 1), (21, 2), (40, 2), (41, 3)):
        lines = Lines(Calculator(lags(count)))
        lines.collect(f.LAG.name)
        assert lines.slices.steps == [count, blocks + 5], "and one for each family"


def test_nothing_is_computed_if_no_line_about_groups_is_wanted() -> None:
    calculator = Calculator(lags(1))
    assert Lines(calculator).collect("other", f.QUEUE_LAG.name) == []
    assert calculator.told == []


def test_store_times_are_learnt_up_to_three_times() -> None:
    for rounds, learnt in ((0, 0), (1, 1), (2, 2), (3, 3), (9, 3)):
        calculator = Calculator(lags(3), rounds)
        lines = Lines(calculator)
        lines.collect()
        assert calculator.told == ["pops", *["learn", "again"] * learnt]
        assert lines.loaded == [("t", 0, 1)] * learnt
