"""The Spark data source against a Java broker and Java clients."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession

from rocketmq_py.spark import session_builder
from tests.interop.javapeer import JavaPeer, JavaServer
from tests.interop.side import Side, group

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session: SparkSession = (
        session_builder("rocketmq-interop")
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture
def side(java_broker: JavaServer) -> Side:
    return Side("java", java_broker.namesrv, java_broker.address)


def read(spark: SparkSession, side: Side, topic: str) -> DataFrame:
    options = {"namesrv": side.namesrv, "subscribe": topic, "includeProperties": "true"}
    return spark.read.format("rocketmq").options(**options).load()


def test_what_java_sends_is_read_as_java_says(java: JavaPeer, side: Side, spark: SparkSession) -> None:
    topic = side.topic(java)
    sent = [
        *java.produce(side.namesrv, topic, 200, mode="batch", batch=20, tags="A,B", keys="k-{i}", prop=["color=c{i}"]),
        *java.produce(side.namesrv, topic, 20, mode="sync", size=9000, compress_over=1000, start=200, tags="C"),
    ]
    rows = read(spark, side, topic).collect()
    assert len(rows) == 220
    java_read = java.consume(side.namesrv, topic, group(), 220, from_="first")
    ours = {(row.queueId, row.queueOffset): row for row in rows}
    for message in java_read:
        row = ours[message["queue"], message["queueOffset"]]
        assert row.body == base64.b64decode(message["body"])
        assert (row.msgId, row.tags, row["keys"]) == (message["msgId"], message.get("tags"), message.get("keys"))
    assert sent
    assert max(len(row.body) for row in rows) == 9000, "a compressed body is read decompressed"


def test_what_spark_writes_reaches_a_java_consumer(java: JavaPeer, side: Side, spark: SparkSession) -> None:
    topic = side.topic(java)
    frame = spark.range(300).selectExpr("cast(id as string) body", "concat('T', id % 2) tags", "concat('k-', id) keys")
    frame.write.format("rocketmq").options(namesrv=side.namesrv, topic=topic).mode("append").save()
    rows = java.consume(side.namesrv, topic, group(), 300, from_="first")
    assert {base64.b64decode(row["body"]).decode() for row in rows} == {str(i) for i in range(300)}
    for row in rows:
        number = int(base64.b64decode(row["body"]))
        assert (row["tags"], row["keys"]) == (f"T{number % 2}", f"k-{number}")
