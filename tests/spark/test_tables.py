"""Tables, views and their statements in SQL, as far as Spark passes options to data sources in Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.conftest import Load, Topic


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """The name of a table that is dropped afterwards."""
    yield "orders_table"
    spark.sql("DROP TABLE IF EXISTS orders_table")


def options(topic: Topic, name: str) -> str:
    return f"`namesrv` '{topic.namesrv}', `{name}` '{topic.name}'"


def clause(topic: Topic, name: str) -> str:
    return f"WITH (`namesrv` = '{topic.namesrv}', `{name}` = '{topic.name}')"


def test_a_table_without_a_schema_has_the_columns_of_its_options(spark: SparkSession, topic: Topic, table: str) -> None:
    topic.send(10)
    spark.sql(f"CREATE TABLE {table} USING rocketmq OPTIONS ({options(topic, 'subscribe')}, includeProperties 'true')")
    assert "properties" in spark.table(table).columns
    with pytest.raises(PySparkException, match="Spark does not pass the OPTIONS of a table to a data source in Python"):
        spark.sql(f"SELECT * FROM {table}").collect()
    rows = spark.sql(f"SELECT body, tags FROM {table} {clause(topic, 'subscribe')}").collect()
    assert sorted(int(row.body) for row in rows) == topic.bodies
    assert spark.read.options(namesrv=topic.namesrv, subscribe=topic.name).table(table).count() == 10


def test_a_table_with_a_schema_is_written_and_read(
    spark: SparkSession, topic: Topic, table: str, load: Load, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE {table} (body STRING, tags STRING) USING rocketmq COMMENT 'orders'")
    with pytest.raises(PySparkException, match="Spark does not pass the OPTIONS"):
        spark.sql(f"INSERT INTO {table} VALUES ('0', 'sql')")
    spark.sql(f"INSERT INTO {table} {clause(topic, 'topic')} VALUES ('1', 'sql')")
    given = {"namesrv": topic.namesrv, "topic": topic.name}
    spark.sql("SELECT '2' body, 'writer' tags").writeTo(table).options(**given).append()
    query = (
        spark.readStream.options(namesrv=topic.namesrv, subscribe=topic.name, startingOffsets="earliest")
        .table(table)
        .selectExpr("concat(body, '1') body", "'stream' tags")
        .writeStream.options(checkpointLocation=str(tmp_path), **given)
        .trigger(availableNow=True)
        .toTable(table)
    )
    query.awaitTermination()
    found = {(row.body.decode(), row.tags) for row in load(topic).select("body", "tags").collect()}
    assert found == {("1", "sql"), ("2", "writer"), ("11", "stream"), ("21", "stream")}


def test_a_write_can_create_its_table(spark: SparkSession, topic: Topic, table: str, load: Load) -> None:
    given = {"namesrv": topic.namesrv, "topic": topic.name}
    spark.sql("SELECT '1' body").writeTo(table).using("rocketmq").options(**given).create()
    spark.sql("SELECT '2' body").write.format("rocketmq").options(**given).mode("append").saveAsTable(table)
    assert sorted(row.body for row in load(topic).collect()) == [b"1", b"2"]


def test_a_temporary_view_keeps_its_options(spark: SparkSession, topic: Topic) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW from_topic USING rocketmq OPTIONS ({options(topic, 'subscribe')})")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW to_topic (body STRING, keys STRING) USING rocketmq"
        f" OPTIONS ({options(topic, 'topic')})"
    )
    spark.sql("INSERT INTO to_topic SELECT cast(id AS STRING), concat('k', id) FROM range(5)")
    rows = spark.sql("SELECT cast(body AS STRING) body, `keys` FROM from_topic ORDER BY body").collect()
    assert [(row.body, row["keys"]) for row in rows] == [(str(i), f"k{i}") for i in range(5)]
