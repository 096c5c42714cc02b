"""Bronze and silver: messages as they came into Parquet, and from there what they mean, cleaned.

Whatever the second step gets wrong can be done again from the first, long after the broker has dropped the messages.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession, functions as f

from examples.common import FLIGHT, program, stream


def run(spark: SparkSession, namesrv: str, data: Path) -> None:
    """Topic flights into the folders bronze and silver."""
    bronze, silver = str(data / "bronze"), str(data / "silver")

    # Bronze keeps everything: body, key, where the message was and when it came.
    messages = stream(spark, namesrv, "flights").withColumn("day", f.to_date("storeTimestamp"))
    query = (
        messages.writeStream.format("parquet")
        .partitionBy("day")
        .option("path", bronze)
        .option("checkpointLocation", str(data / "checkpoints" / "bronze"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    # Silver has types and no repetitions: a producer that was not sure of an answer has sent a message twice.
    kept = spark.readStream.schema(spark.read.parquet(bronze).schema).parquet(bronze)
    flight = f.from_json(f.col("body").cast("string"), FLIGHT)
    flights = (
        kept.select(flight.alias("flight")).select("flight.*")
        .where("id is not null")
        .withWatermark("scheduled", "1 day")
        .dropDuplicatesWithinWatermark(["id"])
    )  # fmt: skip
    query = (
        flights.writeStream.format("parquet")
        .option("path", silver)
        .option("checkpointLocation", str(data / "checkpoints" / "silver"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    program(run)()
