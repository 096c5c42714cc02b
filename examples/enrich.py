"""Enrichment: flights with what tables know of aircraft and destination, into a topic of their own."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession, functions as f

from examples.common import FLIGHT, parsed, program, spark_table, stream


def run(spark: SparkSession, namesrv: str, data: Path) -> None:
    """Topic flights into topic flights-enriched."""
    # Small tables go to every task. Read from a table format, each micro-batch would see them as they are then.
    planes = spark_table(spark, "planes", "tailnum manufacturer model seats")
    airports = spark_table(spark, "airports", "faa name lat lon").withColumnsRenamed({"faa": "dest", "name": "to"})
    flights = parsed(stream(spark, namesrv, "flights"), FLIGHT)
    enriched = flights.join(f.broadcast(planes), "tailnum", "left").join(f.broadcast(airports), "dest", "left")

    query = (
        enriched.select(
            f.to_json(f.struct("*")).alias("body"),
            f.col("carrier").alias("tags"),
            f.col("id").alias("keys"),
            f.coalesce("tailnum", "id").alias("shardingKey"),
            # Brokers and consumers can filter by properties with SQL92: seats > 200
            f.create_map(f.lit("seats"), f.coalesce(f.col("seats").cast("string"), f.lit("0"))).alias("properties"),
        )
        .writeStream.format("rocketmq")
        .option("namesrv", namesrv)
        .option("topic", "flights-enriched")
        .option("checkpointLocation", str(data / "checkpoints" / "enrich"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    program(run)()
