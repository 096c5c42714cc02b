"""The streams of the pipeline. Each takes what there is and ends; the next run goes on where the last one ended.

::

    flights ──► tables ──► bronze (each message), silver (each flight once)
       ▲ │         └─────► dead letters: bodies that are no flight
       │ │                      │
       └─┼──── replay ◄─────────┘ the body of the old program, rewritten
         └──► carrier_days ──► topic carrier-days ──► gold (each carrier's days)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from examples.common import parsed, stream
from examples.pipeline import tables
from examples.pipeline.schemas import COLUMNS
from rocketmq_py.serde import Avro, BodyMismatch
from rocketmq_py.spark import from_body

FLIGHTS, CARRIER_DAYS = "flights", "carrier-days"
GROUP = "pipeline"
DEAD_LETTERS = f"%DLQ%{GROUP}"
CARRIER_DAY = "carrier string, day timestamp, flights bigint, flown bigint, delay_minutes double"


class Pipeline(NamedTuple):
    """Where everything is. It has no session: Spark Connect sends it to the server with the functions that use it.

    :ivar data: the folder of tables and checkpoints.
    :ivar old: bodies that the old program should have written.
    :ivar new: bodies as they are read.
    """

    namesrv: str
    data: Path
    old: Avro
    new: Avro

    @property
    def spark(self) -> SparkSession:
        """The session of the program."""
        return SparkSession.active()

    def checkpoint(self, name: str) -> Path:
        return self.data / "checkpoints" / name


def write_tables(p: Pipeline) -> None:
    """Topic flights into the tables bronze and silver; what cannot be read into the dead letters."""
    source = p.spark.readStream.format("rocketmq").options(
        namesrv=p.namesrv, subscribe=FLIGHTS, startingOffsets="earliest", maxOffsetsPerTrigger="100000"
    )
    messages = source.load().withColumn("flight", from_body(p.new, COLUMNS))
    checkpoint = p.checkpoint("tables")

    def write(batch: DataFrame, number: int) -> None:
        batch.persist()  # each body is decoded once
        bronze, flights = batch.drop("flight"), batch.where("flight is not null").select("flight.*")
        tables.append_once(p.data / "bronze", bronze.toArrow(), tables.query_id(checkpoint), number)
        tables.insert_new(p.data / "silver", flights.dropDuplicates(["id"]).toArrow(), "id")
        bury(p, batch.where("flight is null"))
        batch.unpersist()

    run(messages.writeStream.foreachBatch(write), "tables", checkpoint)


def bury(p: Pipeline, messages: DataFrame) -> None:
    """Send messages to the dead letters with the reason: ``rocketmq dlq show pipeline`` lists them.

    If the micro-batch is repeated they are sent again. That does no harm: silver has each flight once.
    """
    place = f.concat_ws(" ", "brokerName", "queueId", "queueOffset")
    about = f.create_map(
        f.lit("DLQ_REASON"), why_unreadable(p.new), f.lit("DLQ_ORIGIN_TOPIC"), "topic", f.lit("place"), place
    )
    rows = messages.select("body", "tags", "keys", about.alias("properties"))
    rows.write.format("rocketmq").options(namesrv=p.namesrv, topic=DEAD_LETTERS).mode("append").save()


def why_unreadable(avro: Avro) -> Column:
    """The reason why a body is no flight."""

    def reason(body: Any) -> str:
        try:
            avro.decode(bytes(body))
        except BodyMismatch as e:
            return str(e)
        return "the flight lacks a column"

    return f.udf(reason, "string", useArrow=False)(f.col("body"))


def replay(p: Pipeline) -> None:
    """Dead letters whose body can be rewritten back into topic flights, each exactly once; the others stay."""
    old = p.old

    def rewrite(body: Any) -> bytes | None:
        try:
            return old.encode(json.loads(bytes(body)), FLIGHTS)
        except (ValueError, BodyMismatch):
            return None

    rewritten = f.udf(rewrite, "binary", useArrow=False)(f.col("body"))
    letters = stream(p.spark, p.namesrv, DEAD_LETTERS).select(rewritten.alias("body"), "tags", "keys")
    run(exactly_once(p, letters.where("body is not null"), FLIGHTS), "replay", p.checkpoint("replay"))


def write_carrier_days(p: Pipeline) -> None:
    """Flights of each carrier and day into topic carrier-days, exactly once, as soon as a day is over.

    A day is over when a flight came that was to leave more than a day later: the watermark. A flight that comes after
    that is not counted, but reported by Spark as dropped; table silver has it.
    """
    flights = stream(p.spark, p.namesrv, FLIGHTS).select(from_body(p.new, COLUMNS).alias("flight"))
    days = (
        flights.where("flight is not null").select("flight.*")
        .withWatermark("scheduled", "1 day")
        .dropDuplicatesWithinWatermark(["id"])
        .groupBy(f.window("scheduled", "1 day").alias("window"), "carrier")
        .agg(
            f.count("*").alias("flights"),
            f.count("dep_delay").alias("flown"),
            f.sum("dep_delay").alias("delay_minutes"),
        )
    )  # fmt: skip
    day = f.col("window.start")
    messages = days.select(
        f.to_json(f.struct("carrier", day.alias("day"), "flights", "flown", "delay_minutes")).alias("body"),
        f.col("carrier").alias("tags"),
        f.concat_ws("-", "carrier", f.date_format(day, "yyyyMMdd")).alias("keys"),
    )
    run(exactly_once(p, messages, CARRIER_DAYS), "carrier_days", p.checkpoint("carrier_days"))


def write_gold(p: Pipeline) -> None:
    """Topic carrier-days into table gold."""
    checkpoint = p.checkpoint("gold")

    def write(batch: DataFrame, number: int) -> None:
        tables.append_once(p.data / "gold", batch.toArrow(), tables.query_id(checkpoint), number)

    days = parsed(stream(p.spark, p.namesrv, CARRIER_DAYS), CARRIER_DAY)
    run(days.writeStream.foreachBatch(write), "gold", checkpoint)


def exactly_once(p: Pipeline, rows: DataFrame, topic: str) -> DataStreamWriter:
    """A stream of rows into a topic in transactions."""
    return rows.writeStream.format("rocketmq").options(
        namesrv=p.namesrv, topic=topic, producerGroup=GROUP, deliveryGuarantee="exactly-once"
    )


def run(writer: DataStreamWriter, name: str, checkpoint: Path) -> None:
    """Run a query until it has taken what there is."""
    query = writer.queryName(name).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
