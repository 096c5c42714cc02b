"""Two streams joined: every flight with the weather of its airport in the hour it was to leave."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession, functions as f

from examples.common import FLIGHT, WEATHER, parsed, program, stream


def run(spark: SparkSession, namesrv: str, data: Path) -> None:
    """Topics flights and weather into the folder weather_join."""
    # The watermarks say how long one stream waits for the other: state older than that is dropped.
    flights = parsed(stream(spark, namesrv, "flights"), FLIGHT).withWatermark("scheduled", "2 hours")
    weather = parsed(stream(spark, namesrv, "weather"), WEATHER).withWatermark("hour", "3 hours")

    at, before = f.col("f.scheduled"), f.col("w.hour")
    same_hour = (at >= before) & (at < before + f.expr("interval 1 hour"))
    joined = flights.alias("f").join(weather.alias("w"), (f.col("f.origin") == f.col("w.origin")) & same_hour)

    query = (
        joined.select("f.*", "w.wind_speed", "w.visib", "w.precip")
        .writeStream.format("parquet")
        .option("path", str(data / "weather_join"))
        .option("checkpointLocation", str(data / "checkpoints" / "weather_join"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    program(run)()
