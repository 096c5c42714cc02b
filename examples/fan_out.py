"""Fan-out: one stream into a topic per carrier, by the tag of its messages."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession, functions as f

from examples.common import program, stream

CARRIERS = ("UA", "B6", "DL")


def run(spark: SparkSession, namesrv: str, data: Path) -> None:
    """Topic flights into topics flights-ua, flights-b6, flights-dl and flights-others."""
    tag = f.col("tags")
    target = f.when(tag.isin(*CARRIERS), f.lower(tag)).otherwise("others")
    messages = stream(spark, namesrv, "flights").select(
        f.concat(f.lit("flights-"), target).alias("topic"), "body", "tags", "keys"
    )
    query = (
        messages.writeStream.format("rocketmq")
        .option("namesrv", namesrv)
        .option("checkpointLocation", str(data / "checkpoints" / "fan_out"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    program(run)()
