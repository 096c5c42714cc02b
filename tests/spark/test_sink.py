"""Writing through Spark, batch and streaming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rocketmq_py.cli.console_checkpoints import read_query
from rocketmq_py.errors import ConfigError
from rocketmq_py.spark import in_key_order
from tests.spark.conftest import Load, Topic, numbers


def save(frame: DataFrame, namesrv: str, mode: str = "append", **options: Any) -> None:
    frame.write.format("rocketmq").options(namesrv=namesrv, **options).mode(mode).save()


def test_rows_become_messages_with_all_columns(spark: SparkSession, topic: Topic, load: Load) -> None:
    frame = spark.range(500).selectExpr(
        *("cast(id as string) body", "concat('T', id % 3) tags", "concat('a-', id, ' b-', id) keys"),
        *("map('color', 'blue', 'UNIQ_KEY', 'stale', 'TRAN_MSG', 'true') properties", "int(id) flag"),
    )
    save(frame, topic.namesrv, topic=topic.name, compression="zstd", compressOver=0)
    rows = load(topic, columns="body,tags,keys,properties,flag,msgId,storeSize").collect()
    assert sorted(int(row.body) for row in rows) == list(range(500))
    for row in rows:
        number = int(row.body)
        assert (row.tags, row["keys"], row.flag) == (f"T{number % 3}", f"a-{number} b-{number}", number)
        assert row.properties["color"] == "blue"
        assert "TRAN_MSG" not in row.properties
    assert len({row.msgId for row in rows} - {"stale"}) == 500
    assert len({row.properties["SPARK_QUERY_ID"] for row in rows}) == 1
    assert len({row.properties["SPARK_ROW_KEY"] for row in rows}) == 500


def test_a_topic_column_selects_the_topic_of_a_row(
    spark: SparkSession, topic: Topic, another_topic: Topic, load: Load
) -> None:
    frame = spark.range(100).selectExpr(
        "cast(cast(id as string) as binary) body", f"if(id < 60, '{topic.name}', '{another_topic.name}') topic"
    )
    save(frame, topic.namesrv)
    assert numbers(load(topic)) == list(range(60))
    assert numbers(load(another_topic)) == list(range(60, 100))


def test_rows_of_one_sharding_key_share_a_queue_in_order(spark: SparkSession, topic: Topic, load: Load) -> None:
    frame = spark.range(0, 300, 1, 1).selectExpr("cast(id as string) body", "concat('key-', id % 7) shardingKey")
    save(frame, topic.namesrv, topic=topic.name, maxBatchBytes=500)
    rows = load(topic).orderBy("queueId", "queueOffset").collect()
    for key in range(7):
        mine = [row for row in rows if int(row.body) % 7 == key]
        assert len({row.queueId for row in mine}) == 1
        assert [int(row.body) for row in mine] == list(range(key, 300, 7))


def test_rows_of_a_key_are_in_order_across_tasks(spark: SparkSession, topic: Topic, load: Load) -> None:
    rows, keys = 10_000, 1_000
    frame = spark.range(0, rows, 1, 8).selectExpr("cast(id as string) body", f"concat('k', id % {keys}) shardingKey")
    save(in_key_order(frame, partitions=8), topic.namesrv, topic=topic.name)
    found = load(topic, columns="body,queueId,queueOffset").orderBy("queueId", "queueOffset").collect()
    assert sorted(int(row.body) for row in found) == list(range(rows))
    queues: dict[int, set[int]] = {}
    bodies: dict[int, list[int]] = {}
    for body, queue, _ in found:
        queues.setdefault(int(body) % keys, set()).add(queue)
        bodies.setdefault(int(body) % keys, []).append(int(body))
    for key in range(keys):
        assert len(queues[key]) == 1
        assert bodies[key] == list(range(key, rows, keys))


def test_the_order_of_rows_of_a_key_can_be_a_column(spark: SparkSession) -> None:
    frame = spark.range(0, 100, 1, 4).selectExpr("cast(id as string) body", "id % 3 k", "-id n")
    ordered = in_key_order(frame, "n", key="k", partitions=2)
    assert ordered.columns == ["body", "k", "n"]
    parts = ordered.rdd.glom().collect()
    assert sorted(row.n for part in parts for row in part) == list(range(-99, 1))
    for part in parts:
        assert [row.n for row in part] == sorted(row.n for row in part)
    assert sum(len({row.k for row in part}) for part in parts) == 3, "each key is in one partition"


def test_order_by_key_needs_a_batch_with_the_key(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="no column 'shardingKey'; columns are id"):
        in_key_order(spark.range(1))
    with pytest.raises(ConfigError, match="in foreachBatch"):
        in_key_order(spark.readStream.format("rate").load())


def test_a_row_can_name_its_queue(spark: SparkSession, topic: Topic, load: Load) -> None:
    save(spark.range(40).selectExpr("cast(id as string) body", "int(id % 4) queueId"), topic.namesrv, topic=topic.name)
    assert all(int(row.body) % 4 == row.queueId for row in load(topic).collect())


def test_a_stream_reads_one_topic_and_writes_another(
    topic: Topic, another_topic: Topic, load_stream: Load, load: Load, tmp_path: Path
) -> None:
    for number in (40, 30):
        topic.send(number)
        query = (
            load_stream(topic)
            .select("body", "tags", "keys")
            .writeStream.format("rocketmq")
            .options(namesrv=topic.namesrv, topic=another_topic.name, checkpointLocation=str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    rows = load(another_topic, includeProperties=True).collect()
    assert sorted(int(row.body) for row in rows) == topic.bodies
    assert {row.properties["SPARK_BATCH_ID"] for row in rows} == {"0", "1"}
    assert {row.properties["SPARK_QUERY_ID"] for row in rows} == {str(query.id)}
    assert len({(row.properties["SPARK_BATCH_ID"], row.properties["SPARK_ROW_KEY"]) for row in rows}) == 70


def test_exactly_once_rows_become_visible_with_their_micro_batch(
    topic: Topic, another_topic: Topic, load_stream: Load, load: Load, tmp_path: Path
) -> None:
    exactly = {"deliveryGuarantee": "exactly-once", "checkpointLocation": str(tmp_path), "compression": "lz4"}
    for number in (40, 30):
        topic.send(number)
        query = (
            load_stream(topic)
            .select("body", "keys")
            .writeStream.format("rocketmq")
            .options(namesrv=topic.namesrv, topic=another_topic.name, compressOver=0, **exactly)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    rows = load(another_topic, includeProperties=True).collect()
    assert sorted(int(row.body) for row in rows) == topic.bodies
    assert {row.properties["PGROUP"] for row in rows} == {f"spark_sink-{query.id}"}
    assert sorted(path.name for path in (tmp_path / "rocketmq").iterdir()) == [f"{n:020d}.json" for n in range(2)]
    state = read_query(tmp_path)  # as the console shows it
    assert (state.error, state.query, state.planned, state.committed) == (None, str(query.id), 1, 1)
    assert (state.decided, state.is_decided, state.topics) == (1, True, (another_topic.name,))
    assert sum(state.done.values()) == 70
    assert state.attempts


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        (["cast(id as string) bdy"], {}, "a sink has no column 'bdy'; it has topic, body"),
        (["concat('', id) tags"], {}, "a sink needs a column body"),
        (["id body"], {}, "column body must be binary or string, it is bigint"),
        (["cast(id as string) body", "id queueId"], {}, "column queueId must be int, it is bigint"),
        (["cast(id as string) body", "map('a', id) properties"], {}, "must be map<string,string>"),
        (["cast(id as string) body", "'x' topic"], {}, "option topic and column topic contradict"),
        (["cast(id as string) body"], {"topics": "x"}, r"unknown option 'topics'"),
        (["cast(id as string) body"], {"subscribe": "x"}, "unknown option 'subscribe' for a write"),
        (["'x' body"], {"deliveryGuarantee": "exactly-once"}, "exactly-once is for streams"),
        (["if(id = 1, null, 'x') body"], {}, "row [01] of partition [01]: its body is null or empty"),
        (["'x' body", "map('DELAY', '3') properties"], {}, "property DELAY is a delay"),
    ],
)
def test_illegal_rows_are_refused(
    spark: SparkSession, topic: Topic, columns: list[str], options: dict[str, str], told: str
) -> None:
    with pytest.raises(PySparkException, match=told):
        save(spark.range(2).selectExpr(*columns), topic.namesrv, **({"topic": topic.name} | options))


def test_a_topic_cannot_be_overwritten(spark: SparkSession, topic: Topic) -> None:
    with pytest.raises(PySparkException, match="a topic cannot be overwritten"):
        save(spark.range(2).selectExpr("'x' body"), topic.namesrv, mode="overwrite", topic=topic.name)
