"""Batch reads through Spark."""

from __future__ import annotations

import json
import re

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.conftest import Load, Topic, numbers


def test_every_message_comes_with_its_columns(topic: Topic, load: Load) -> None:
    topic.send(1000, color="blue", UNIQ_KEY="the-id")
    frame = load(topic, includeProperties=True)
    assert frame.columns == [
        *("topic", "brokerName", "queueId", "queueOffset", "body", "tags", "keys", "bornTimestamp", "storeTimestamp"),
        *("reconsumeTimes", "msgId", "properties"),
    ]
    rows = frame.collect()
    assert sorted(int(row.body) for row in rows) == topic.bodies
    assert {row.queueId for row in rows} == {0, 1, 2, 3}
    assert len({(row.queueId, row.queueOffset) for row in rows}) == 1000
    for row in rows[::100]:
        number = int(row.body)
        assert (row.topic, row.keys, row.tags, row.msgId) == (topic.name, f"k{number}", "AB"[number % 2], "the-id")
        assert row.properties["color"] == "blue"
        assert row.reconsumeTimes == 0
        assert row.bornTimestamp <= row.storeTimestamp


def test_there_is_one_partition_for_each_queue_with_messages(topic: Topic, load: Load) -> None:
    topic.send(100)
    assert load(topic).rdd.getNumPartitions() == 4


def test_an_empty_topic_gives_no_rows(topic: Topic, load: Load) -> None:
    assert load(topic).collect() == []


def test_a_schema_picks_columns(topic: Topic, load: Load) -> None:
    topic.send(10)
    frame = load(topic, schema="keys string, queueOffset bigint")
    assert frame.columns == ["keys", "queueOffset"]
    assert {row["keys"] for row in frame.collect()} == {f"k{i}" for i in range(10)}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("key string", r"unknown column 'key' in the schema of a read; did you mean keys\?"),
        ("body string", "column body is of type binary, the schema says string"),
    ],
)
def test_a_wrong_schema_is_refused(topic: Topic, load: Load, schema: str, told: str) -> None:
    with pytest.raises(PySparkException, match=told):
        load(topic, schema=schema).collect()


def test_offsets_bound_a_read(topic: Topic, load: Load) -> None:
    topic.send(400)
    (broker,) = {row.brokerName for row in load(topic).select("brokerName").distinct().collect()}
    counts = {row.queueId: row["count"] for row in load(topic).groupBy("queueId").count().collect()}
    start = json.dumps({topic.name: {broker: {"0": 3, "1": -2, "2": -1, "3": counts[3] - 1}}})
    rows = load(topic, startingOffsets=start).collect()
    assert {q: sum(row.queueId == q for row in rows) for q in range(4)} == {0: counts[0] - 3, 1: counts[1], 2: 0, 3: 1}
    end = json.dumps({topic.name: {broker: {"0": 3, "1": -1, "2": 0, "3": 0}}})
    rows = load(topic, endingOffsets=end).collect()
    assert {q: sum(row.queueId == q for row in rows) for q in range(4)} == {0: 3, 1: counts[1], 2: 0, 3: 0}


def test_an_end_beyond_what_is_there_fails_unless_told_otherwise(topic: Topic, load: Load) -> None:
    topic.send(40)
    (broker,) = {row.brokerName for row in load(topic).select("brokerName").distinct().collect()}
    end = json.dumps({topic.name: {broker: {"0": 10_000, "1": -1, "2": -1, "3": -1}}})
    with pytest.raises(PySparkException, match=r"but 10000 was asked for.*set failOnDataLoss=false"):
        load(topic, endingOffsets=end).collect()
    assert numbers(load(topic, endingOffsets=end, failOnDataLoss=False)) == topic.bodies


def test_offsets_must_name_the_queues_there_are(topic: Topic, load: Load) -> None:
    given = json.dumps({topic.name: {"no-such-broker": {"0": 0}}})
    with pytest.raises(PySparkException, match="no-such-broker:0, which the subscribed topics do not have"):
        load(topic, startingOffsets=given).collect()


def test_several_topics_are_read_together(topic: Topic, another_topic: Topic, load: Load) -> None:
    topic.send(20)
    another_topic.send(30)
    counts = {
        row.topic: row["count"]
        for row in load(f"{topic.name}, {another_topic.name}").groupBy("topic").count().collect()
    }
    assert counts == {topic.name: 20, another_topic.name: 30}


def test_sql_can_use_it(spark: SparkSession, topic: Topic) -> None:
    topic.send(50)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW messages USING rocketmq"
        f" OPTIONS (namesrv '{topic.namesrv}', subscribe '{topic.name}')"
    )
    assert spark.sql("SELECT count(*) FROM messages WHERE tags = 'A'").collect()[0][0] == 25


def test_large_bodies_are_read(topic: Topic, load: Load, spark: SparkSession) -> None:
    spark.range(12).selectExpr("repeat(cast(id as string), 700000) body").write.format("rocketmq").options(
        namesrv=topic.namesrv, topic=topic.name
    ).mode("append").save()
    lengths = [row[0] for row in load(topic).selectExpr("length(body)").collect()]
    assert sorted(lengths) == [700_000] * 10 + [1_400_000] * 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"startingOffset": "earliest"}, r"unknown option 'startingOffset'.*did you mean startingOffsets\?"),
        ({"failOnDataLoss": "maybe"}, "option failOnDataLoss='maybe': true or false is expected"),
        ({"subscribe": ""}, "option subscribe='': at least one topic is expected"),
    ],
)
def test_a_wrong_option_is_refused_when_the_read_is_defined(
    spark: SparkSession, options: dict[str, str], told: str
) -> None:
    given = {"namesrv": "localhost:9876", "subscribe": "t"} | {name.lower(): value for name, value in options.items()}
    reader = spark.read.format("rocketmq").options(**given)
    with pytest.raises(PySparkException, match=re.compile(told, re.IGNORECASE)):
        reader.load()


def test_a_missing_option_is_named_when_the_read_is_defined(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="option namesrv is required for a read with format rocketmq"):
        spark.read.format("rocketmq").option("subscribe", "t").load()


def test_a_topic_that_is_not_there_is_named(load: Load) -> None:
    with pytest.raises(PySparkException, match="topic 'no-such-topic' does not exist"):
        load("no-such-topic").collect()


def test_a_name_server_that_is_not_there_is_named(spark: SparkSession) -> None:
    reader = spark.read.format("rocketmq").options(namesrv="127.0.0.1:1", subscribe="t", numRetries=0)
    with pytest.raises(PySparkException, match=r"check option namesrv: cannot connect to 127\.0\.0\.1:1"):
        reader.load().collect()
