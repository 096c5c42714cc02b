"""Streaming reads through Spark: checkpoints, bounds, failures."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rocketmq_py.spark.source.stream import SUPPORTS_ADMISSION
from tests.spark.conftest import Load, Topic, numbers

admission = pytest.mark.skipif(not SUPPORTS_ADMISSION, reason="needs PySpark 4.2")


class Out:
    """Where a query of a test writes to and keeps its checkpoint."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark = spark
        self._files, self._checkpoint = str(path / "files"), str(path / "checkpoint")

    def run(self, frame: DataFrame) -> StreamingQuery:
        """Everything there is now, in one run."""
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start(self._files)
        )
        query.awaitTermination()
        return query

    def run_each(self, frame: DataFrame, each: Any) -> None:
        query = (
            frame.writeStream.foreachBatch(each)
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def keep_running(self, frame: DataFrame) -> StreamingQuery:
        return (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", self._checkpoint)
            .trigger(processingTime="0 seconds")
            .start(self._files)
        )

    @property
    def bodies(self) -> list[int]:
        return numbers(self._spark.read.parquet(self._files))


@pytest.fixture
def out(spark: SparkSession, tmp_path: Path) -> Out:
    return Out(spark, tmp_path)


def sizes(query: StreamingQuery) -> list[int]:
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def test_a_restart_continues_at_the_checkpoint_without_loss_or_repetition(
    topic: Topic, load_stream: Load, out: Out
) -> None:
    for number in (100, 1, 57):
        topic.send(number)
        out.run(load_stream(topic))
        assert out.bodies == topic.bodies
    assert sizes(out.run(load_stream(topic))) == []


def test_a_running_query_reads_new_messages(topic: Topic, load_stream: Load, out: Out) -> None:
    query = out.keep_running(load_stream(topic, offsetLookupIntervalMs=0))
    try:
        for number in (10, 20, 5):
            topic.send(number)
            query.processAllAvailable()
            assert out.bodies == topic.bodies
    finally:
        query.stop()


def test_a_new_query_starts_at_the_end_by_default(
    spark: SparkSession, topic: Topic, load_stream: Load, out: Out
) -> None:
    topic.send(10)
    out.run(load_stream(topic, startingOffsets="latest"))
    topic.send(5)
    out.run(load_stream(topic, startingOffsets="latest"))
    assert out.bodies == [10, 11, 12, 13, 14]


def test_an_available_now_run_ends_at_the_initial_end(topic: Topic, load_stream: Load, out: Out) -> None:
    topic.send(100)
    seen: list[int] = []

    def take(frame: DataFrame, _: int) -> None:
        seen.extend(numbers(frame))
        topic.send(10)

    out.run_each(load_stream(topic), take)
    assert sorted(seen) == list(range(100))


@admission
def test_a_micro_batch_is_limited_and_reads_every_queue(topic: Topic, load_stream: Load, out: Out) -> None:
    topic.send(100)
    query = out.run(load_stream(topic, maxOffsetsPerTrigger=30))
    assert out.bodies == topic.bodies
    assert sizes(query) == [30, 30, 30, 10]


@admission
def test_progress_shows_the_ends_of_the_queues(topic: Topic, load_stream: Load, out: Out) -> None:
    topic.send(100)
    query = out.run(load_stream(topic, maxOffsetsPerTrigger=30))
    shown = query.recentProgress[0]["sources"][0]["latestOffset"]
    assert f'"{topic.name}"' in str(shown)


def test_a_failed_micro_batch_is_repeated_unchanged(topic: Topic, load_stream: Load, out: Out) -> None:
    topic.send(50)
    tried: list[list[int]] = []

    def fail_once(frame: DataFrame, _: int) -> None:
        tried.append(numbers(frame))
        if len(tried) == 1:
            raise ValueError("on purpose")

    with pytest.raises(PySparkException, match="on purpose"):
        out.run_each(load_stream(topic), fail_once)
    topic.send(7)
    for _ in range(2):  # PySpark before 4.2 repeats the failed micro-batch in a run of its own
        out.run_each(load_stream(topic), fail_once)
    assert tried[0] == tried[1] == list(range(50))
    assert sorted(number for batch in tried[1:] for number in batch) == topic.bodies


def test_added_queues_are_read_from_their_beginning(namesrv: str, load_stream: Load, out: Out) -> None:
    topic = Topic(namesrv, queues=1)
    topic.send(10)
    out.run(load_stream(topic))
    topic.resize(4)
    topic.send(40)
    out.run(load_stream(topic))
    assert out.bodies == topic.bodies


def test_a_checkpoint_of_another_topic_is_refused(
    topic: Topic, another_topic: Topic, load_stream: Load, out: Out
) -> None:
    topic.send(5)
    out.run(load_stream(topic))
    another_topic.send(5)
    with pytest.raises(PySparkException, match=f"the checkpoint is of topics {topic.name}, option subscribe names"):
        out.run(load_stream(another_topic))


def test_an_option_for_batch_reads_is_refused(topic: Topic, load_stream: Load, out: Out) -> None:
    with pytest.raises(PySparkException, match="option endingOffsets is not for a streaming read"):
        out.run(load_stream(topic, endingOffsets="latest"))


def test_new_topics_of_a_pattern_are_read_from_their_beginning(spark: SparkSession, namesrv: str, out: Out) -> None:
    stem = f"p-{uuid.uuid4().hex[:8]}-"
    options = {
        "namesrv": namesrv, "subscribePattern": f"{stem}.*", "startingOffsets": "earliest",
        "offsetLookupIntervalMs": "0", "pollNameServerIntervalMs": "1",
    }  # fmt: skip
    query = out.keep_running(spark.readStream.format("rocketmq").options(**options).load())
    try:
        query.processAllAvailable()
        for number in (1, 2):
            Topic(namesrv, name=f"{stem}{number}").send(10 * number)
            query.processAllAvailable()
        assert out.bodies == sorted([*range(10), *range(20)])
    finally:
        query.stop()


@admission
def test_the_group_has_the_offsets_of_the_query_after_its_last_micro_batch(
    topic: Topic, load_stream: Load, out: Out, tmp_path: Path, spark: SparkSession
) -> None:
    topic.send(50)
    out.run(load_stream(topic, groupId="followers", maxOffsetsPerTrigger=20))
    assert topic.committed("followers") == {queue: offset for queue, offset in topic.ends().items() if offset}
    topic.send(7)
    second = Out(spark, tmp_path / "second")
    second.run(load_stream(topic, groupId="followers", startingOffsets="group"))
    assert second.bodies == list(range(50, 57))


def test_a_stream_can_be_filtered_by_the_broker(topic: Topic, load_stream: Load, out: Out) -> None:
    for _ in range(2):
        topic.send(100)
        out.run(load_stream(topic, tags="B"))
    assert out.bodies == [number for number in topic.bodies if number % 2]
