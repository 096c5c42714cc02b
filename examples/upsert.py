"""Change data capture: a topic of inserts, updates and deletes kept as a Delta table that is always up to date.

Uses the package deltalake, which writes Delta tables without a jar, with every PySpark there is.
"""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession, functions as f

from examples.common import program, spark_table, stream

PLANE = "tailnum string, model string, seats int"
CHANGE = f"op string, {PLANE}"


def publish(spark: SparkSession, namesrv: str) -> None:
    """Changes as a database would report them: every plane appears, Boeings get a seat more, Airbuses are sold."""
    planes = spark_table(spark, "planes", "tailnum manufacturer model seats").selectExpr(
        "tailnum", "manufacturer", "model", "cast(seats as int) seats"
    )
    boeing, airbus = planes.where("manufacturer = 'BOEING'"), planes.where("manufacturer like 'AIRBUS%'")
    for op, changed in (
        ("insert", planes),
        ("update", boeing.withColumn("seats", f.col("seats") + 1)),
        ("delete", airbus),
    ):
        # Changes of one plane share a sharding key: they stay in order.
        body = f.to_json(f.struct(f.lit(op).alias("op"), "tailnum", "model", "seats"))
        rows = changed.select(body.alias("body"), f.col("tailnum").alias("shardingKey"))
        rows.write.format("rocketmq").option("namesrv", namesrv).option("topic", "plane-changes").mode("append").save()


def run(spark: SparkSession, namesrv: str, data: Path) -> None:
    """Topic plane-changes, which it fills, into the Delta table planes."""
    publish(spark, namesrv)
    path = str(data / "planes")
    DeltaTable.create(path, spark.createDataFrame([], PLANE).toArrow().schema, mode="ignore")

    def apply(batch: DataFrame, _: int) -> None:
        # Of several changes of a plane in one micro-batch the last one counts. Repeated, a merge changes nothing.
        last = batch.groupBy("change.tailnum").agg(f.max_by("change", "queueOffset").alias("last")).select("last.*")
        merge = DeltaTable(path).merge(last.toArrow(), "t.tailnum = s.tailnum", source_alias="s", target_alias="t")
        row = {name: f"s.{name}" for name in ("tailnum", "model", "seats")}
        merge.when_matched_delete("s.op = 'delete'").when_matched_update(row).when_not_matched_insert(
            row, "s.op <> 'delete'"
        ).execute()

    change = f.from_json(f.col("body").cast("string"), CHANGE).alias("change")
    query = (
        stream(spark, namesrv, "plane-changes").select("queueOffset", change)
        .writeStream.foreachBatch(apply)
        .option("checkpointLocation", str(data / "checkpoints" / "upsert"))
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    query.awaitTermination()


if __name__ == "__main__":
    program(run)()
