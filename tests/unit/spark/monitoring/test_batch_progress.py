"""The progress of a batch read: what is shown, of which stage, and what remains when the block ends."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.spark.monitoring import batch_progress
from rocketmq_py.spark.monitoring.batch_progress import Reading, describe_reading, rows_to_read, show_batch_reads
from rocketmq_py.wire.command import Command
from tests.unit.arrow.scripted import answer, scripted

ORDERS = {"namesrv": "n:1", "subscribe": "orders"}


def broker(request: Command) -> Command:
    """Queues that hold offsets 10 to 109; their messages cannot be pulled."""
    if request.code == RequestCode.PULL_MESSAGE:
        return answer(ResponseCode.SYSTEM_ERROR)
    return answer(offset=10 if request.code == RequestCode.GET_MIN_OFFSET else 110)


class Spark:
    """As much of a session as is asked: jobs with stages, and what each stage that has started has read."""

    def __init__(self, jobs: dict[int, list[int]], stages: dict[int, Reading]) -> None:
        self.jobs, self.stages = jobs, stages
        self.group = ""
        self.properties: dict[str, str | None] = {}
        self.looks = 0
        self.looked_twice = threading.Event()

    @property
    def sparkContext(self) -> Any:  # noqa: N802
        return self

    _jsc = property(lambda self: SimpleNamespace(sc=lambda: self))

    def statusTracker(self) -> Spark:  # noqa: N802
        return self

    def statusStore(self) -> Spark:  # noqa: N802
        return self

    def setJobGroup(self, group: str, description: str) -> None:  # noqa: N802
        self.group = group
        self.properties = {"spark.jobGroup.id": group, "spark.job.description": description}

    def setLocalProperty(self, name: str, value: str | None) -> None:  # noqa: N802
        self.properties[name] = value

    def getJobIdsForGroup(self, group: str) -> list[int]:  # noqa: N802
        assert group == self.group
        self.looks += 1
        if self.looks == 2:
            self.looked_twice.set()
        return list(reversed(self.jobs))

    def getJobInfo(self, job: int) -> Any | None:  # noqa: N802
        return SimpleNamespace(stageIds=self.jobs[job]) if self.jobs[job] else None

    def getStageInfo(self, stage: int) -> Any | None:  # noqa: N802
        return object() if stage in self.stages else None

    def lastStageAttempt(self, stage: int) -> Any:  # noqa: N802
        found = self.stages[stage]
        return SimpleNamespace(
            inputRecords=lambda: found.rows, numTasks=lambda: found.tasks, numCompleteTasks=lambda: found.tasks_done
        )


def test_a_reading_is_described_in_one_line() -> None:
    assert [
        describe_reading(Reading(*reading), total, seconds)
        for reading, total, seconds in (
            ((25_000, 8, 2), 100_000, 10.0),
            ((100_000, 8, 8), 100_000, 50.0),
            ((110_000, 8, 8), 100_000, 50.0),
            ((0, 8, 0), 100_000, 3.0),
            ((1, 8, 0), 2, 0.0),
            ((0, 1, 1), 0, 0.5),
        )
    ] == [
        "25,000 of 100,000 rows (25%) | 2,500 rows/s | 2 of 8 tasks | 30 s left",
        "100,000 of 100,000 rows (100%) | 2,000 rows/s | 8 of 8 tasks | 50 s",
        "110,000 of 100,000 rows (110%) | 2,200 rows/s | 8 of 8 tasks | 50 s",
        "0 of 100,000 rows (0%) | 0 rows/s | 0 of 8 tasks | 3 s",
        "1 of 2 rows (50%) | 0 rows/s | 0 of 8 tasks | 0 s",
        "0 of 0 rows | 0 rows/s | 1 of 1 tasks | 0 s",
    ]


def test_the_total_is_the_number_of_offsets_that_the_read_covers() -> None:
    with scripted(broker, queues=3) as peer:
        options = {"namesrv": peer.address, "subscribe": "t", "numRetries": "0"}
        assert rows_to_read(options) == 300
        assert rows_to_read(options | {"startingOffsets": '{"t": {"broker-a": {"0": 100, "1": 100, "2": 110}}}'}) == 20


@pytest.mark.parametrize(
    ("jobs", "stages", "expected"),
    [
        ({}, {}, None),
        ({1: []}, {}, None),
        ({1: [4]}, {}, None),
        ({1: [4, 5]}, {4: Reading(0, 7, 0), 5: Reading(0, 9, 0)}, Reading(0, 7, 0)),
        ({1: [4, 5]}, {4: Reading(50, 7, 1), 5: Reading(0, 9, 0)}, Reading(50, 7, 1)),
        (
            {1: [4], 2: [7, 6], 3: []},
            {4: Reading(50, 7, 7), 6: Reading(8, 9, 1), 7: Reading(0, 2, 0)},
            Reading(8, 9, 1),
        ),
    ],
    ids=["no job", "gone", "not started", "the first that started", "that reads", "the last that reads"],
)
def test_the_stage_that_reads_is_shown(jobs: Any, stages: Any, expected: Reading | None) -> None:
    spark = Spark(jobs, stages)
    spark.group = "g"
    assert batch_progress._looker(spark, "g")() == expected  # type: ignore[arg-type]


@pytest.fixture
def in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look follows the other; each is half a second after the one before, says the clock."""
    monkeypatch.setattr(batch_progress, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(batch_progress, "time", SimpleNamespace(monotonic=clock(100.0, 100.5, 101.0)))
    monkeypatch.setattr(batch_progress, "rows_to_read", lambda options: {"orders": 1000}[options["subscribe"]])


def clock(*times: float) -> Callable[[], float]:
    given = iter(times)
    return lambda: next(given, times[-1])


def test_progress_is_shown_while_the_block_runs_and_at_its_end(in_no_time: None) -> None:
    spark, out = Spark({1: [4]}, {4: Reading(200, 4, 1)}), io.StringIO()
    with show_batch_reads(spark, ORDERS, out, every=0.0):  # type: ignore[arg-type]
        assert spark.properties["spark.job.description"] == "1,000 rows of orders"
        assert spark.properties["spark.jobGroup.id"].startswith("rocketmq-read-")  # type: ignore[union-attr]
        (watching,) = watchers()
        assert watching.daemon, "a program that ends in the block ends"
        assert spark.looked_twice.wait(30)
        spark.stages[4] = Reading(1000, 4, 4)
    assert watchers() == []
    lines = out.getvalue().splitlines()
    assert lines[0] == "200 of 1,000 rows (20%) | 400 rows/s | 1 of 4 tasks | 2 s left"
    assert lines[1] == "200 of 1,000 rows (20%) | 200 rows/s | 1 of 4 tasks | 4 s left"
    assert lines[-1] == "1,000 of 1,000 rows (100%) | 1,000 rows/s | 4 of 4 tasks | 1 s"
    assert set(spark.properties.values()) == {None}


def test_lines_are_rare_and_the_last_one_is_written(in_no_time: None) -> None:
    spark, out = Spark({1: [4]}, {4: Reading(200, 4, 1)}), io.StringIO()

    def failing() -> None:
        with show_batch_reads(spark, ORDERS, out):  # type: ignore[arg-type]
            assert spark.looked_twice.wait(30)
            spark.stages[4] = Reading(900, 4, 3)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    first, last = out.getvalue().splitlines()
    assert (first.split()[0], last.split()[0]) == ("200", "900")
    assert watchers() == []
    assert set(spark.properties.values()) == {None}


def test_a_read_that_has_not_started_shows_nothing(in_no_time: None) -> None:
    spark, out = Spark({}, {}), io.StringIO()
    with show_batch_reads(spark, ORDERS, out):  # type: ignore[arg-type]
        assert spark.looked_twice.wait(30)
    assert out.getvalue() == ""


def test_topics_by_pattern_are_described_by_the_format(in_no_time: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_progress, "rows_to_read", lambda _: 7)
    spark = Spark({}, {})
    with show_batch_reads(spark, {"subscribePattern": "o.*"}, io.StringIO()):  # type: ignore[arg-type]
        assert spark.properties["spark.job.description"] == "7 rows of rocketmq"


def test_a_session_of_spark_connect_is_refused() -> None:
    class Connect:
        @property
        def sparkContext(self) -> Any:  # noqa: N802
            raise PySparkException("JVM_ATTRIBUTE_NOT_SUPPORTED")

    for session in (Connect(), object()):
        with (
            pytest.raises(ConfigError, match="a session of Spark Connect does not show its stages"),
            show_batch_reads(session, ORDERS),  # type: ignore[arg-type]
        ):
            pass


def watchers() -> Iterable[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rocketmq-batch-reads"]
