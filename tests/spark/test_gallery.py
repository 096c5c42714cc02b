"""Every program of examples/ on two days of flights, compared with a count without Spark."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from examples import load
from examples.aircraft_sessions import PAUSE_MS, ROCKSDB
from examples.common import table
from rocketmq_py.spark.source.stream import SUPPORTS_ADMISSION
from rocketmq_py.testing import Cluster

DAYS = 2
PAUSE = pd.Timedelta(milliseconds=PAUSE_MS)


class Gallery:
    """A cluster with two days of flights, a folder, and the same flights for pandas."""

    def __init__(self, spark: SparkSession, namesrv: str, data: Path) -> None:
        self.spark, self.namesrv, self.data = spark, namesrv, data
        load.run(spark, namesrv, data, days=DAYS)
        flights = table("flights")
        at = pd.to_datetime(flights["time_hour"]) + pd.to_timedelta(flights["minute"], unit="min")
        flights = flights.assign(scheduled=at, hour_of=pd.to_datetime(flights["time_hour"]))
        self.flights = flights[at < at.min() + pd.Timedelta(days=DAYS)]

    def run(self, name: str) -> None:
        importlib.import_module(f"examples.{name}").run(self.spark, self.namesrv, self.data)

    def parquet(self, folder: str) -> pd.DataFrame:
        return pd.read_parquet(self.data / folder)

    def topic(self, name: str) -> DataFrame:
        return self.spark.read.format("rocketmq").option("namesrv", self.namesrv).option("subscribe", name).load()

    def bodies(self, name: str) -> pd.DataFrame:
        rows = self.topic(name).orderBy("queueId", "queueOffset").select("body", "tags").collect()
        return pd.DataFrame([{**json.loads(bytes(row.body)), "tag": row.tags} for row in rows])


@pytest.fixture(scope="module")
def gallery(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    before = spark.conf.get("spark.sql.streaming.stateStore.providerClass", None)
    with Cluster() as cluster:
        yield Gallery(spark, cluster.namesrv, tmp_path_factory.mktemp("gallery"))
    if before is None:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


def test_bronze_keeps_every_message_and_silver_every_flight_once(gallery: Gallery) -> None:
    gallery.run("bronze_silver")
    silver = gallery.parquet("silver")
    assert len(gallery.parquet("bronze")) == len(silver) == len(gallery.flights) == silver["id"].nunique()
    assert silver["dep_delay"].sum() == gallery.flights["dep_delay"].sum()


def test_flights_are_joined_with_the_weather_of_their_hour(gallery: Gallery) -> None:
    gallery.run("weather_join")
    weather = table("weather")
    weather = weather.assign(hour_of=pd.to_datetime(weather["time_hour"]))[["origin", "hour_of", "wind_speed"]]
    expected = gallery.flights.merge(weather, on=["origin", "hour_of"])
    joined = gallery.parquet("weather_join")
    assert len(joined) == len(expected) > 1000
    assert joined["wind_speed"].sum() == pytest.approx(expected["wind_speed"].sum())


@pytest.mark.skipif(not SUPPORTS_ADMISSION, reason="before PySpark 4.2 availableNow has no micro-batch for what is due")
def test_sessions_end_after_a_pause_or_a_timeout(gallery: Gallery) -> None:
    gallery.run("aircraft_sessions")
    assert gallery.spark.conf.get("spark.sql.streaming.stateStore.providerClass") == ROCKSDB
    known = gallery.flights.dropna(subset="tailnum").sort_values(["tailnum", "scheduled"])
    pauses = known.groupby("tailnum")["scheduled"].diff() > PAUSE
    by = [known["tailnum"], pauses.groupby(known["tailnum"]).cumsum()]
    sessions = known.groupby(by, sort=False).agg(ended=("scheduled", "max"), flights=("carrier", "size"))
    last = sessions.groupby(level=0, sort=False)["ended"].transform("max")
    over = sessions["ended"] + PAUSE <= known["scheduled"].max() - pd.Timedelta(hours=1)
    expected = sessions[(sessions["ended"] < last) | over]
    found = gallery.parquet("sessions")
    assert (len(found), found["flights"].sum()) == (len(expected), expected["flights"].sum())


def test_enriched_flights_have_their_aircraft(gallery: Gallery) -> None:
    gallery.run("enrich")
    enriched = gallery.bodies("flights-enriched")
    expected = gallery.flights.merge(table("planes")[["tailnum", "seats"]], on="tailnum", how="left")
    assert len(enriched) == len(expected)
    assert enriched["seats"].sum() == expected["seats"].sum()
    assert (enriched["tag"] == enriched["carrier"]).all()


def test_a_table_follows_its_changes(gallery: Gallery) -> None:
    gallery.run("upsert")
    planes = table("planes")
    boeing, airbus = planes["manufacturer"] == "BOEING", planes["manufacturer"].str.startswith("AIRBUS")
    expected = planes.assign(seats=planes["seats"] + boeing)[~airbus]
    kept = DeltaTable(str(gallery.data / "planes")).to_pandas()
    assert kept.set_index("tailnum")["seats"].to_dict() == expected.set_index("tailnum")["seats"].to_dict()


def test_every_carrier_gets_its_topic(gallery: Gallery) -> None:
    gallery.run("fan_out")
    carriers = gallery.flights["carrier"].value_counts()
    others = int(carriers.drop(["UA", "B6", "DL"]).sum())
    for topic, number in (("ua", carriers["UA"]), ("b6", carriers["B6"]), ("dl", carriers["DL"]), ("others", others)):
        assert gallery.topic(f"flights-{topic}").count() == number


def test_a_day_is_replayed_in_order(gallery: Gallery) -> None:
    gallery.run("replay_day")
    replayed = gallery.bodies("flights-replayed")["scheduled"].tolist()
    assert replayed == sorted(replayed)
    assert len(replayed) == int(((gallery.flights["month"] == 1) & (gallery.flights["day"] == 2)).sum())


def test_late_flights_are_scored_higher(gallery: Gallery) -> None:
    gallery.run("delay_model")
    scored = gallery.bodies("scored-flights").set_index("id")
    assert len(scored) == len(gallery.flights)
    assert ((scored["risk"] > 0.5) == (scored["tag"] == "LATE")).all()
    late = {row["id"] for row in gallery.bodies("flights").to_dict("records") if row.get("dep_delay", 0) > 15}
    is_late = scored.index.isin(late)
    assert scored["risk"][is_late].mean() > scored["risk"][~is_late].mean() + 0.02
