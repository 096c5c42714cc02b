"""Spark reads a store's files, without a broker: by consume queues, and by a scan of the log in several tasks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.s3 import server
from tests.unit.store.helpers import Stores, fill

N = 600


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    stores = Stores(tmp_path_factory.mktemp("offline") / "store", None)
    store = stores.open()
    for i in range(N):
        fill(store, 1, start=i, queue_id=i % 4)
    store.close()
    yield stores.root
    stores.close()


def load(spark: SparkSession, store: Path | str, **options: Any) -> DataFrame:
    reader = spark.read.format("rocketmq").option("storePath", f"broker-a={store}").option("subscribe", "T")
    return reader.options(**options).load()


def numbers(frame: DataFrame) -> list[int]:
    rows = frame.selectExpr("cast(split(cast(body as string), '[|]')[0] as int) n").collect()
    return sorted(row.n for row in rows)


def test_a_store_is_read_like_a_topic(spark: SparkSession, store: Path) -> None:
    frame = load(spark, store)
    assert numbers(frame) == list(range(N))
    assert frame.rdd.getNumPartitions() == 1
    assert load(spark, store, minPartitions=8).rdd.getNumPartitions() == 8
    assert numbers(load(spark, store, minPartitions=8)) == list(range(N))
    assert {row.brokerName for row in frame.select("brokerName").distinct().collect()} == {"broker-a"}
    ends = '{"T": {"broker-a": {"0": 10, "1": 0, "2": 1, "3": 0}}}'
    assert numbers(load(spark, store, endingOffsets=ends)) == [*sorted([*range(0, 40, 4), 2])]
    assert numbers(load(spark, store, tags="odd")) == list(range(1, N, 2))
    assert numbers(load(spark, store, sql="TAGS = 'even'")) == list(range(0, N, 2))


def test_a_store_without_consume_queues_is_scanned_in_several_tasks(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(store, copy, ignore=shutil.ignore_patterns("consumequeue", "lock"))
    assert numbers(load(spark, copy)) == list(range(N))
    pattern = spark.read.format("rocketmq").option("storePath", str(copy)).option("subscribePattern", "T|U")
    assert pattern.load().count() == N


def test_a_store_in_s3_is_read_by_the_workers(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    with server(tmp_path) as s3:
        uri = f"{s3.upload(store, 'kept')}?{s3.query}"
        assert numbers(load(spark, uri, minPartitions=3)) == list(range(N))
        assert numbers(load(spark, uri, tags="odd")) == list(range(1, N, 2))
        with pytest.raises(
            PySparkException, match="s3a://stores/none is no store: there are no files in s3a://stores/none/"
        ):
            load(spark, f"s3a://stores/none?{s3.query}").count()


def test_what_a_store_cannot_do_is_refused(spark: SparkSession, store: Path) -> None:
    with pytest.raises(PySparkException, match="option namesrv: a read of option storePath has no broker"):
        load(spark, store, namesrv="h:1")
    with pytest.raises(PySparkException, match="option storePath is not for a streaming read"):
        spark.readStream.format("rocketmq").option("storePath", str(store)).option("subscribe", "T").schema(
            "body binary"
        ).load().writeStream.format("noop").start().awaitTermination()
    with pytest.raises(PySparkException, match="is no store"):
        load(spark, store / "config").count()
