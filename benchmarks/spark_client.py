"""``python -m benchmarks.spark_client``: one Spark session that reads a whole topic, from our source or from Kafka's.

Both sources in one warm JVM with two cores, every row with all the columns its source has by default, into the noop
sink. It prints ``{"type": "waiting"}``; a line ``ours`` or ``kafka`` on stdin starts one read, which prints one row.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession

from rocketmq_py.spark import session_builder


def session(jars: str) -> SparkSession:
    """A session on two cores with the Kafka source's packages."""
    spark: SparkSession = (
        session_builder().master("local[2]").appName("benchmarks")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )  # fmt: skip
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def fill_kafka(spark: SparkSession, address: str, topic: str, count: int, size: int, partitions: int) -> None:
    """``count`` values of ``size`` bytes, the same number in every partition."""
    rows = spark.range(0, count, 1, partitions).selectExpr(
        f"cast(rpad(cast(id as string), {size}, 'x') as binary) value", f"cast(id % {partitions} as int) partition"
    )
    rows.write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", topic).save()


def source(spark: SparkSession, side: str, address: str, topic: str) -> DataFrame:
    """The whole topic as a data frame."""
    name = {"ours": "namesrv", "kafka": "kafka.bootstrap.servers"}[side]
    form = {"ours": "rocketmq", "kafka": "kafka"}[side]
    return spark.read.format(form).option(name, address).option("subscribe", topic).load()


def _say(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)


@click.command()
@click.option("--ours", required=True, help="Name server.")
@click.option("--kafka", required=True, help="Bootstrap server.")
@click.option("--topic", required=True)
@click.option("--jars", required=True)
@click.option("--n", required=True, type=int, help="Messages in the topic.")
@click.option("--size", required=True, type=int)
@click.option("--partitions", required=True, type=int)
@click.option("--warm", required=True, type=int, help="Reads of each side before the first run.")
def main(ours: str, kafka: str, topic: str, jars: str, n: int, size: int, partitions: int, warm: int) -> None:
    """Reads on demand."""
    addresses = {"ours": ours, "kafka": kafka}
    spark = session(jars)
    fill_kafka(spark, kafka, topic, n, size, partitions)
    frames = {side: source(spark, side, address, topic) for side, address in addresses.items()}
    for side, frame in frames.items():
        if (found := frame.count()) != n:
            raise click.ClickException(f"{side} has {found} of {n} rows")
        for _ in range(warm):
            frame.write.format("noop").mode("overwrite").save()
    _say({"type": "waiting"})
    for line in sys.stdin:
        begin = time.perf_counter()
        frames[line.strip()].write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - begin
        _say({"type": "run", "side": line.strip(), "n": n, "seconds": round(seconds, 3), "rate": round(n / seconds)})
        _say({"type": "waiting"})
    spark.stop()


if __name__ == "__main__":
    main()
