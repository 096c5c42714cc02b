"""Replay: one day of flights out of the topic and into another, in the order they were to leave, tag and key kept.

For a consumer that missed a day, or a new one that shall be tried on a real one.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession, functions as f

from examples.common import FLIGHT, program

DAY = "2013-01-02"


def run(spark: SparkSession, namesrv: str, _: Path) -> None:
    """One day of topic flights into topic flights-replayed."""
    messages = spark.read.format("rocketmq").option("namesrv", namesrv).option("subscribe", "flights").load()
    scheduled = f.from_json(f.col("body").cast("string"), FLIGHT)["scheduled"]
    local = f.from_utc_timestamp(scheduled, "America/New_York")
    day = messages.withColumn("scheduled", scheduled).where(f.to_date(local) == DAY)

    # One partition, sorted, and one queue: what is read in order is in order.
    (
        day.repartition(1)
        .sortWithinPartitions("scheduled", "keys")
        .select("body", "tags", "keys", f.lit("replay").alias("shardingKey"))
        .write.format("rocketmq")
        .option("namesrv", namesrv)
        .option("topic", "flights-replayed")
        .mode("append")
        .save()
    )


if __name__ == "__main__":
    program(run)()
