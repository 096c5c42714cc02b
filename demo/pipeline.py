"""The Spark half: windows per carrier and hour from the topic into Parquet, and from there into a result topic."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, functions as f
from pyspark.sql.streaming.query import StreamingQuery

from demo.flights import TOPIC
from rocketmq_py.spark import session_builder

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
RESULT_TOPIC = "carrier-delays"
WATERMARK = pd.Timedelta(days=1)
BODY_SCHEMA = "id string, scheduled timestamp, carrier string, tailnum string, dep_delay double"
WINDOW_SCHEMA = (
    "carrier string, window_start timestamp, departures bigint, flown bigint, mean_delay double, p95_delay double"
)


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """Let programs started meanwhile write their standard error to a file, this process's own included."""
    kept = os.dup(2)
    with log.open("ab") as sink:
        os.dup2(sink.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def start_session(log: Path) -> SparkSession:
    """A local Spark on two cores; brings a JRE of its own where the machine has none.

    What the JVM and its Python workers have to say goes to ``log``: workers report a broken pipe whenever a query ends.
    """
    with _errors_to(log):
        return _session()


def _session() -> SparkSession:
    spark: SparkSession = (
        session_builder(compiled_home=True)
        .master("local[2]")
        .appName("rocketmq-demo")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.authenticate.socketTimeout", "60s")  # a busy machine starts Python slowly
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    return spark


def windows(spark: SparkSession, namesrv: str) -> DataFrame:
    """Count, mean and 95th percentile of the departure delay per carrier and hour of scheduled departure."""
    messages = (
        spark.readStream.format("rocketmq")
        .option("namesrv", namesrv)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
    )
    departures = messages.select(f.from_json(f.col("body").cast("string"), BODY_SCHEMA).alias("d")).select("d.*")
    grouped = departures.withWatermark("scheduled", f"{WATERMARK.days} days").groupBy(
        f.window("scheduled", "1 hour").alias("hour"), "carrier"
    )
    counted = grouped.agg(
        f.count("*").alias("departures"),
        f.count("dep_delay").alias("flown"),
        f.avg("dep_delay").alias("mean_delay"),
        f.percentile_approx("dep_delay", 0.95, 1000).alias("p95_delay"),
    )
    # The closing message is not filtered out: Spark would move the filter before the watermark, which it is there to
    # move. Its own window stays open for ever.
    return counted.select(
        "carrier", f.col("hour.start").alias("window_start"), "departures", "flown", "mean_delay", "p95_delay"
    )


def write_parquet(frame: DataFrame, data: Path) -> StreamingQuery:
    """Windows into Parquet as soon as the watermark has passed them."""
    return (
        frame.writeStream.format("parquet")
        .queryName("windows")
        .option("path", str(data / "windows"))
        .option("checkpointLocation", str(data / "checkpoints" / "windows"))
        .outputMode("append")
        .trigger(processingTime="1 second")
        .start()
    )


def write_topic(spark: SparkSession, namesrv: str, data: Path) -> StreamingQuery:
    """Every row of the Parquet files into the result topic: tag carrier, key carrier and hour, JSON body.

    Starts once and takes all there is.
    """
    rows = spark.readStream.schema(WINDOW_SCHEMA).parquet(str(data / "windows"))
    hour = f.date_format("window_start", "yyyy-MM-dd'T'HH")
    messages = rows.select(
        f.to_json(f.struct("*")).cast("binary").alias("body"),
        f.col("carrier").alias("tags"),
        f.concat_ws("-", "carrier", hour).alias("keys"),
    )
    return (
        messages.writeStream.format("rocketmq")
        .queryName("results")
        .option("namesrv", namesrv)
        .option("topic", RESULT_TOPIC)
        .option("checkpointLocation", str(data / "checkpoints" / "results"))
        .trigger(availableNow=True)
        .start()
    )
