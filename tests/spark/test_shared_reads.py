"""Tasks that read several queues of a micro-batch, as Spark calls them, without a Spark session."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StructField, StructType

from rocketmq_py.spark.datasource import RocketMQDataSource
from rocketmq_py.spark.schema import READ_TYPES
from tests.spark.conftest import Topic

SCHEMA = StructType([StructField(name, READ_TYPES[name]) for name in ("body", "queueId", "queueOffset", "tags")])
NUMBER = 30


def micro_batch(topic: Topic, **options: str) -> list[list[Any]]:
    """The record batches each task of the micro-batch from the beginning to now gives Spark."""
    given = {"namesrv": topic.namesrv, "subscribe": topic.name, "startingOffsets": "earliest"}
    reader = RocketMQDataSource(given | options).streamReader(SCHEMA)
    try:
        partitions = reader.partitions(reader.initialOffset(), reader.reportLatestOffset())
        return [list(reader.read(one)) for one in partitions]
    finally:
        reader.stop()


def rows(tasks: list[list[Any]]) -> list[dict[str, Any]]:
    return [row for batches in tasks for batch in batches for row in batch.to_pylist()]


def test_few_messages_of_many_queues_are_one_task_and_one_batch(topic: Topic) -> None:
    topic.send(NUMBER)
    tasks = micro_batch(topic)
    assert [len(batches) for batches in tasks] == [1]
    found = rows(tasks)
    assert sorted(int(row["body"]) for row in found) == list(range(NUMBER))
    places = [(row["queueId"], row["queueOffset"]) for row in found]
    assert places == sorted(set(places)), "queue after queue, each in the order of its offsets"
    assert len({queue for queue, _ in places}) > 1


def test_a_task_for_each_queue_reads_the_same(topic: Topic) -> None:
    topic.send(NUMBER)
    apart = micro_batch(topic, minPartitions="1")
    assert len(apart) > 1
    assert rows(apart) == rows(micro_batch(topic))


def test_a_filter_leaves_queues_out_of_a_shared_task(topic: Topic) -> None:
    topic.send(NUMBER)
    found = rows(micro_batch(topic, tags="A"))
    assert sorted(int(row["body"]) for row in found) == list(range(0, NUMBER, 2))
    assert rows(micro_batch(topic, tags="nobody-has-this")) == []
