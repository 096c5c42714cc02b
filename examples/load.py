"""Flights and weather of New York, 2013, into topics: a batch write. Run this first."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession, functions as f

from examples.common import program, table, with_nulls


def run(spark: SparkSession, namesrv: str, _: Path, days: int = 365) -> None:
    """Fill the topics flights and weather."""
    flights = table("flights")
    flights["scheduled"] = pd.to_datetime(flights["time_hour"]) + pd.to_timedelta(flights["minute"], unit="min")
    flights["id"] = (
        flights["scheduled"].dt.strftime("%Y%m%d-%H%M-") + flights["carrier"] + flights["flight"].astype(str)
    )
    weather = table("weather")
    weather["hour"] = pd.to_datetime(weather["time_hour"])
    end = flights["scheduled"].min() + pd.Timedelta(days=days)

    # A message per flight: the tag is what brokers filter by, the key what people search for; flights of one aircraft
    # stay in order because they share a sharding key.
    columns = ["id", "scheduled", "carrier", "tailnum", "origin", "dest", "distance", "dep_delay", "arr_delay"]
    frame = spark.createDataFrame(with_nulls(flights[flights["scheduled"] < end][columns].sort_values("scheduled")))
    frame.select(
        f.to_json(f.struct(*columns), {"ignoreNullFields": "true"}).alias("body"),
        f.col("carrier").alias("tags"),
        f.col("id").alias("keys"),
        f.coalesce("tailnum", "id").alias("shardingKey"),
    ).write.format("rocketmq").option("namesrv", namesrv).option("topic", "flights").mode("append").save()

    columns = ["origin", "hour", "wind_speed", "visib", "precip"]
    frame = spark.createDataFrame(with_nulls(weather[weather["hour"] < end][columns]))
    frame.select(f.to_json(f.struct(*columns)).alias("body"), f.col("origin").alias("tags")).write.format(
        "rocketmq"
    ).option("namesrv", namesrv).option("topic", "weather").mode("append").save()


if __name__ == "__main__":
    program(run)()
