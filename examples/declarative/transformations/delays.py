"""Flights as a pipeline that is declared: a streaming table, a view computed from it, and a topic as a sink.

Spark finds the order, the checkpoints and what has changed::

    spark-pipelines run --spec examples/declarative/spark-pipeline.yml
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, functions as f

FLIGHT = "id string, scheduled timestamp, carrier string, origin string, dest string, dep_delay double"

spark = SparkSession.active()
namesrv = spark.conf.get("flights.namesrv")
assert namesrv is not None


@dp.table
def departures() -> DataFrame:
    """Every flight of the topic, once: each run goes on where the one before ended."""
    messages = (
        spark.readStream.format("rocketmq")
        .option("namesrv", namesrv)
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .load()
    )
    return messages.select(f.from_json(f.col("body").cast("string"), FLIGHT).alias("m")).select("m.*")


@dp.materialized_view
def delays() -> DataFrame:
    """Mean delay by carrier and airport, up to date after every run."""
    flights = spark.read.table("departures")
    return flights.groupBy("carrier", "origin").agg(f.count("*").alias("flights"), f.avg("dep_delay").alias("delay"))


sink = {"namesrv": namesrv, "topic": "late-flights", "deliveryGuarantee": "exactly-once"}
dp.create_sink("late_flights", "rocketmq", sink)


@dp.append_flow(target="late_flights")
def late() -> DataFrame:
    """Flights more than two hours late, into a topic as they are found, each once."""
    flights = spark.readStream.table("departures").where("dep_delay > 120")
    return flights.select(
        f.to_json(f.struct("*")).alias("body"), f.col("carrier").alias("tags"), f.col("id").alias("keys")
    )
