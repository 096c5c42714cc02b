"""Machine learning: a model of late departures trained on the topic as it is, and flights scored as they come."""

from __future__ import annotations

from pathlib import Path

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import OneHotEncoder, StringIndexer, VectorAssembler
from pyspark.ml.functions import vector_to_array
from pyspark.sql import DataFrame, SparkSession, functions as f

from examples.common import FLIGHT, parsed, program, stream

LATE_MINUTES = 15


def features(flights: DataFrame) -> DataFrame:
    """What is known before a flight leaves."""
    return flights.withColumn("hour", f.hour("scheduled").cast("double"))


def train(flights: DataFrame) -> PipelineModel:
    """Whether a flight leaves late, by carrier, airport, hour and distance."""
    known = features(flights).where("dep_delay is not null")
    labelled = known.withColumn("label", (f.col("dep_delay") > LATE_MINUTES).cast("double"))
    index = StringIndexer(inputCols=["carrier", "origin"], outputCols=["c", "o"], handleInvalid="keep")
    encode = OneHotEncoder(inputCols=["c", "o"], outputCols=["carrier_is", "origin_is"], handleInvalid="keep")
    assemble = VectorAssembler(inputCols=["carrier_is", "origin_is", "hour", "distance"], outputCol="features")
    return Pipeline(stages=[index, encode, assemble, LogisticRegression(maxIter=20)]).fit(labelled)


def run(spark: SparkSession, namesrv: str, data: Path) -> None:
    """Topic flights into a model, and with it into topic scored-flights."""
    batch = spark.read.format("rocketmq").option("namesrv", namesrv).option("subscribe", "flights").load()
    model = train(parsed(batch, FLIGHT).cache())
    model.write().overwrite().save(str(data / "delay-model"))

    scored = model.transform(features(parsed(stream(spark, namesrv, "flights"), FLIGHT)))
    risk = f.round(vector_to_array(f.col("probability"))[1], 3)
    query = (
        scored.select(
            f.to_json(f.struct("id", "carrier", "origin", "dest", "scheduled", risk.alias("risk"))).alias("body"),
            f.when(risk > 0.5, "LATE").otherwise("ON_TIME").alias("tags"),
            f.col("id").alias("keys"),
        )
        .writeStream.format("rocketmq")
        .option("namesrv", namesrv)
        .option("topic", "scored-flights")
        .option("checkpointLocation", str(data / "checkpoints" / "delay_model"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    program(run)()
