"""Batch reads through Spark."""

from __future__ import annotations

import json
import re
import time

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSourceReader

from tests.spark.conftest import Load, Topic, numbers


def test_every_message_has_its_columns(topic: Topic, load: Load) -> None:
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


def test_queues_with_few_messages_share_a_partition_unless_more_are_asked_for(topic: Topic, load: Load) -> None:
    topic.send(100)
    together = load(topic)
    assert together.rdd.getNumPartitions() == 1
    apart = load(topic, minPartitions=4)
    assert apart.rdd.getNumPartitions() == 4
    assert sorted(together.collect()) == sorted(apart.collect())


def test_an_empty_topic_gives_no_rows(topic: Topic, load: Load) -> None:
    assert load(topic).collect() == []


def test_a_schema_selects_columns(topic: Topic, load: Load) -> None:
    topic.send(10)
    frame = load(topic, schema="keys string, queueOffset bigint")
    assert frame.columns == ["keys", "queueOffset"]
    assert {row["keys"] for row in frame.collect()} == {f"k{i}" for i in range(10)}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("key string", r"the schema of a read has an unknown column 'key'; did you mean keys\?"),
        ("body int", "column body is of type binary, the schema says int"),
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


def test_an_end_beyond_the_queue_fails_unless_configured(topic: Topic, load: Load) -> None:
    topic.send(40)
    (broker,) = {row.brokerName for row in load(topic).select("brokerName").distinct().collect()}
    end = json.dumps({topic.name: {broker: {"0": 10_000, "1": -1, "2": -1, "3": -1}}})
    with pytest.raises(PySparkException, match=r"but 10000 was asked for.*set failOnDataLoss=false"):
        load(topic, endingOffsets=end).collect()
    assert numbers(load(topic, endingOffsets=end, failOnDataLoss=False)) == topic.bodies


def test_a_start_beyond_the_queue_fails_unless_configured(topic: Topic, load: Load) -> None:
    topic.send(40)
    counts = {row.queueId: row["count"] for row in load(topic).groupBy("queueId").count().collect()}
    (broker,) = {row.brokerName for row in load(topic).select("brokerName").distinct().collect()}
    start = json.dumps({topic.name: {broker: {"0": 10_000, "1": -2, "2": -2, "3": -1}}})
    told = rf"ends at offset {counts[0]}, but reading was to begin at 10000.*set failOnDataLoss=false"
    with pytest.raises(PySparkException, match=told):
        load(topic, startingOffsets=start).collect()
    assert load(topic, startingOffsets=start, failOnDataLoss=False).count() == counts[1] + counts[2]


def test_offsets_must_name_existing_queues(topic: Topic, load: Load) -> None:
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


def test_sql_can_read_a_topic(spark: SparkSession, topic: Topic) -> None:
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


def test_a_missing_topic_is_named_by_spark(load: Load) -> None:
    with pytest.raises(PySparkException, match="topic 'no-such-topic' does not exist"):
        load("no-such-topic").collect()


def test_an_unreachable_name_server_is_named_by_spark(spark: SparkSession) -> None:
    reader = spark.read.format("rocketmq").options(namesrv="127.0.0.1:1", subscribe="t", numRetries=0)
    with pytest.raises(PySparkException, match=r"check option namesrv: cannot connect to 127\.0\.0\.1:1"):
        reader.load().collect()


def test_topics_are_selected_by_pattern_or_queue(
    topic: Topic, another_topic: Topic, spark: SparkSession, load: Load
) -> None:
    topic.send(20)
    another_topic.send(30)
    everything = load(f"{topic.name},{another_topic.name}").collect()
    (broker,) = {row.brokerName for row in everything}

    def found(**options: str) -> list[Row]:
        return sorted(spark.read.format("rocketmq").options(namesrv=topic.namesrv, **options).load().collect())

    pattern = f"{topic.name[:-1]}[{topic.name[-1]}]|no-such-topic"
    assert found(subscribePattern=pattern) == sorted(row for row in everything if row.topic == topic.name)
    assigned = {topic.name: {broker: [1]}, another_topic.name: {broker: [0, 2]}}
    wanted = [row for row in everything if row.queueId in assigned[row.topic][broker]]
    assert found(assign=json.dumps(assigned)) == sorted(wanted) != []
    with pytest.raises(PySparkException, match=f"{topic.name}@{broker}:9 does not exist or cannot be read"):
        found(assign=json.dumps({topic.name: {broker: [9]}}))


def test_times_bound_a_read(topic: Topic, load: Load) -> None:
    topic.send(40)
    stored = load(topic).selectExpr("max(unix_millis(storeTimestamp))").collect()[0][0]
    wait_until_later_than(stored)
    topic.send(40)
    assert numbers(load(topic, startingTimestamp=stored + 1)) == list(range(40, 80))
    assert numbers(load(topic, endingTimestamp=stored + 1)) == list(range(40))
    with pytest.raises(PySparkException, match=r"no message was stored at .* set startingOffsetsByTimestampStrategy"):
        load(topic, startingTimestamp=stored + 10**9).collect()
    late = load(topic, startingTimestamp=stored + 10**9, startingOffsetsByTimestampStrategy="latest")
    assert late.collect() == []
    everything = load(topic).collect()
    times = {topic.name: {everything[0].brokerName: {"0": stored + 1, "1": 0, "2": 0, "3": stored + 1}}}
    wanted = [int(row.body) for row in everything if row.queueId in (1, 2) or int(row.body) >= 40]
    assert numbers(load(topic, startingOffsetsByTimestamp=json.dumps(times))) == sorted(wanted)


def wait_until_later_than(stored: int) -> None:
    while time.time() * 1000 <= stored + 1:
        time.sleep(0.001)


def test_a_deep_queue_is_split(namesrv: str, load: Load) -> None:
    deep = Topic(namesrv, queues=1)
    deep.send(100)
    frame = load(deep, minPartitions=3, maxRecordsPerPartition=30)
    assert frame.rdd.getNumPartitions() == 4
    assert numbers(frame) == deep.bodies


def test_brokers_filter_by_tags_and_hash_collisions_are_dropped(topic: Topic, load: Load) -> None:
    topic.send(500)
    topic.send(3, TAGS="Aa")
    topic.send(4, TAGS="BB")  # Java's hash of it is that of Aa
    assert numbers(load(topic, tags="Aa")) == [500, 501, 502]
    assert numbers(load(topic, tags="B || BB", columns="body")) == [*range(1, 500, 2), 503, 504, 505, 506]
    assert load(topic, tags="none").collect() == []


def test_columns_and_body_types_follow_the_options(topic: Topic, load: Load) -> None:
    topic.send(10)
    frame = load(topic, columns="keys,body", bodyType="string")
    assert frame.dtypes == [("keys", "string"), ("body", "string")]
    assert {(row["keys"], row.body) for row in frame.collect()} == {(f"k{i}", str(i)) for i in range(10)}
    assert load(topic, schema="body string").first().body in {str(i) for i in range(10)}
    with pytest.raises(PySparkException, match=r"option columns has an unknown column 'boddy'; did you mean body\?"):
        load(topic, columns="boddy")


@pytest.mark.skipif(not hasattr(DataSourceReader, "pushFilters"), reason="needs PySpark 4.1")
def test_pushed_conditions_reduce_reads(topic: Topic, load: Load, spark: SparkSession) -> None:
    topic.send(200)
    with pytest.raises(PySparkException, match=r"filterPushdown|PUSHDOWN_DISABLED"):
        load(topic, pushFilters=True).collect()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = load(topic, pushFilters=True)
        one = frame.where("queueId = 2 AND queueOffset >= 10 AND tags IN ('A', 'C')")
        assert one.rdd.getNumPartitions() == 1
        expected = load(topic).where("queueId = 2 AND queueOffset >= 10 AND tags = 'A'")
        assert numbers(one) == numbers(expected) != []
        assert frame.where("storeTimestamp < '2020-01-01'").collect() == []
        assert frame.where("storeTimestamp > '2020-01-01' AND tags = 'B'").count() == 100
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_brokers_filter_by_sql(topic: Topic, load: Load) -> None:
    topic.send(300, color="blue")
    topic.send(30, color="red")
    assert numbers(load(topic, sql="color = 'red' AND TAGS = 'A'")) == list(range(300, 330, 2))
