"""The source as Spark calls it, pickled wherever Spark pickles it, against a broker; without the JVM in between."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.cloudpickle import dumps
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rocketmq_py.protocol.names import retry_topic
from rocketmq_py.spark.datasource import RocketMQDataSource
from rocketmq_py.spark.source.stream import SUPPORTS_ADMISSION
from tests.spark.conftest import Topic


def source(topic: Topic, **options: object) -> RocketMQDataSource:
    given = {"namesrv": topic.namesrv, "subscribe": topic.name} | {name: str(value) for name, value in options.items()}
    if "subscribePattern" in options:
        del given["subscribe"]
    made: RocketMQDataSource = pickle.loads(dumps(RocketMQDataSource(given)))
    return made


def rows(
    reader: DataSourceReader | DataSourceStreamReader, schema: StructType, partitions: Iterable[InputPartition]
) -> list[dict[str, Any]]:
    """What tasks on executors read; Spark insists on the schema to the last detail."""
    expected = to_arrow_schema(schema, timezone="UTC") if SUPPORTS_ADMISSION else to_arrow_schema(schema)  # 4.1: in UTC
    shipped = pickle.loads(dumps(reader))
    batches = [batch for one in partitions for batch in shipped.read(pickle.loads(dumps(one)))]
    assert all(batch.schema.equals(expected, check_metadata=False) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def read(topic: Topic, **options: object) -> list[dict[str, Any]]:
    made = source(topic, **options)
    schema = made.schema()
    reader = made.reader(schema)
    return rows(reader, schema, reader.partitions())


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return sorted(int(row["body"]) for row in found)


def test_every_column_has_the_type_of_spark(topic: Topic) -> None:
    topic.send(100, color="blue")
    found = read(topic, includeProperties=True)
    assert numbers(found) == topic.bodies
    assert dict(found[0]["properties"])["color"] == "blue"
    assert {row["topic"] for row in found} == {topic.name}


def test_only_the_placeholder_partition_of_spark_is_skipped(topic: Topic) -> None:
    made = source(topic)
    reader = made.reader(made.schema())
    assert list(reader.read(InputPartition(None))) == []
    with pytest.raises(TypeError, match="a partition of this source is expected"):
        list(reader.read(InputPartition("another")))


def test_columns_partitions_and_filters_follow_the_options(topic: Topic) -> None:
    topic.send(300, color="blue")
    topic.send(30, color="red")
    assert numbers(read(topic, tags="B", columns="body")) == [i for i in topic.bodies if i % 2]
    red = read(topic, sql="color = 'red' AND TAGS = 'A'", columns="keys,body", bodyType="string", minPartitions=9)
    assert [set(row) for row in red] == [{"keys", "body"}] * 15
    assert {row["body"] for row in red} == {str(i) for i in range(300, 330, 2)}
    assert len(source(topic, maxRecordsPerPartition=50).reader(StructType()).partitions()) >= 7


@pytest.mark.skipif(not SUPPORTS_ADMISSION, reason="needs PySpark 4.2")
def test_an_available_now_run_commits_its_group(topic: Topic) -> None:
    from pyspark.sql.streaming.datasource import ReadMaxRows

    topic.send(100)
    pattern = f"{topic.name}.*"
    made = source(topic, subscribePattern=pattern, startingOffsets="earliest", groupId="g-run", maxOffsetsPerTrigger=30)
    schema = made.schema()
    reader = made.streamReader(schema)
    reader.prepareForTriggerAvailableNow()
    topic.send(5)
    at, batches = reader.initialOffset(), []
    while (end := reader.latestOffset(at, ReadMaxRows(30))) != at:
        batches.append(rows(reader, schema, reader.partitions(at, end)))
        at = end
    assert [len(batch) for batch in batches] == [30, 30, 30, 10]
    assert numbers([row for batch in batches for row in batch]) == list(range(100))
    assert sum(topic.committed("g-run").values()) == 100, "the last micro-batch counts, too"
    with topic.view() as view:
        assert retry_topic("g-run") in view.topics(), "mqadmin consumerProgress looks for it"
    reader.stop()
    second = source(topic, startingOffsets="group", groupId="g-run")
    reader = second.streamReader(schema)
    begin = reader.initialOffset()
    assert numbers(rows(reader, schema, reader.partitions(begin, reader.latestOffset(begin, ReadMaxRows(99))))) == [
        *range(100, 105)
    ]
    reader.stop()


def test_pushed_conditions_reduce_reads(topic: Topic) -> None:
    datasource = pytest.importorskip("pyspark.sql.datasource")
    if not hasattr(datasource, "EqualTo"):
        pytest.skip("needs PySpark 4.1")
    topic.send(200)
    made = source(topic, pushFilters=True)
    schema = made.schema()
    reader: Any = made.reader(schema)
    conditions = [datasource.EqualTo(("queueId",), 2), datasource.In(("tags",), ("A", "C"))]
    assert list(reader.pushFilters(conditions)) == conditions, "Spark checks them, too"
    found = rows(reader, schema, reader.partitions())
    assert {(row["queueId"], row["tags"]) for row in found} == {(2, "A")}
    everything = read(topic)
    assert numbers(found) == numbers([row for row in everything if row["queueId"] == 2 and row["tags"] == "A"])
