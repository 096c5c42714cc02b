"""The Spark data source against a Java broker and Java clients."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, Row, SparkSession

from tests.interop.javapeer import JavaPeer, JavaServer
from tests.interop.side import Seen, Side, group

pytestmark = pytest.mark.spark


@pytest.fixture
def side(java_broker: JavaServer) -> Side:
    return Side("java", java_broker.namesrv, java_broker.address)


def read(spark: SparkSession, side: Side, topic: str) -> DataFrame:
    options = {"namesrv": side.namesrv, "subscribe": topic, "includeProperties": "true"}
    return spark.read.format("rocketmq").options(**options).load()


def seen(row: Row) -> Seen:
    """A row of a read, comparable with what the Java consumer received."""
    return Seen(
        bytes(row.body), row.queueId, row.queueOffset, row.msgId, row.tags, row["keys"], row.reconsumeTimes, row.topic,
        row.properties,
    )  # fmt: skip


def test_spark_reads_java_messages_like_a_java_consumer(java: JavaPeer, side: Side, spark: SparkSession) -> None:
    topic = side.topic(java)
    java.produce(side.namesrv, topic, 200, mode="batch", batch=20, tags="A,B", keys="k-{i}", prop=["color=c{i}"])
    java.produce(side.namesrv, topic, 20, mode="sync", size=9000, compress_over=1000, start=200, tags="C")
    expected = {Seen.of_java(row) for row in java.consume(side.namesrv, topic, group(), 220, from_="first")}
    rows = [seen(row) for row in read(spark, side, topic).collect()]
    assert len(rows) == 220
    assert set(rows) == expected
    assert {row.properties.get("color") for row in rows if row.tags == "A"} == {f"c{i}" for i in range(0, 200, 2)}
    assert {len(row.body) for row in rows if row.tags == "C"} == {9000}


def test_a_java_consumer_gets_rows_written_by_spark(java: JavaPeer, side: Side, spark: SparkSession) -> None:
    topic = side.topic(java)
    frame = spark.range(300).selectExpr("cast(id as string) body", "concat('T', id % 2) tags", "concat('k-', id) keys")
    frame.write.format("rocketmq").options(namesrv=side.namesrv, topic=topic).mode("append").save()
    received = [Seen.of_java(row) for row in java.consume(side.namesrv, topic, group(), 300, from_="first")]
    assert {int(message.body) for message in received} == set(range(300))
    for message in received:
        number = int(message.body)
        assert (message.tags, message.keys) == (f"T{number % 2}", f"k-{number}")
    assert {seen(row) for row in read(spark, side, topic).collect()} == set(received)
