"""What must be in the tables, counted from the data set without Spark, beside what is there."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd
from deltalake import DeltaTable

from examples.pipeline.flights import CUT, JSON, REPEATED
from examples.pipeline.streams import CARRIER_DAYS, DEAD_LETTERS, Pipeline

_DAY = pd.Timedelta(days=1)


class Check(NamedTuple):
    """A number, as it must be and as it is."""

    claim: str
    expected: Any
    found: Any

    @property
    def holds(self) -> bool:
        return bool(self.expected == self.found)

    def __str__(self) -> str:
        word = "ok  " if self.holds else "FAIL"
        return f"{word} {self.claim}: {_short(self.found)}" + ("" if self.holds else f", not {_short(self.expected)}")


def checks(p: Pipeline, flights: pd.DataFrame, late: int) -> list[Check]:
    """All checks of a pipeline that has taken both deliveries.

    :param flights: what ``flights.year`` gave.
    :param late: rows that Spark dropped because they were late.
    """
    return [*_bronze(p, flights), *_silver(p, flights), *_gold(p, flights, late)]


def _bronze(p: Pipeline, flights: pd.DataFrame) -> list[Check]:
    bronze = _table(p, "bronze")
    fates = flights["fate"].value_counts()
    repeated, rewritten = int(fates.get(REPEATED, 0)), int(fates.get(JSON, 0))
    dead = rewritten + int(fates.get(CUT, 0))
    places = bronze[["brokerName", "queueId", "queueOffset"]].drop_duplicates()
    return [
        Check("bronze has each message", len(flights) + repeated + rewritten, len(bronze)),
        Check("... once: different places in the topic", len(bronze), len(places)),
        Check("dead letters", dead, _read(p, DEAD_LETTERS).select("keys").distinct().count()),
    ]


def _silver(p: Pipeline, flights: pd.DataFrame) -> list[Check]:
    silver, readable = _table(p, "silver"), flights[flights["fate"] != CUT]
    new = readable[readable["delivery"] == 2]
    return [
        Check("silver has each flight that can be read once", len(readable), silver["id"].nunique()),
        Check("... flights of each carrier", _by_carrier(readable), _by_carrier(silver)),
        Check("... their miles", int(readable["distance"].sum()), int(silver["distance"].sum())),
        Check("... minutes of delay at departure", _minutes(readable, "dep_delay"), _minutes(silver, "dep_delay")),
        Check("... at arrival (new schema)", _minutes(new, "arr_delay"), _minutes(silver, "arr_delay")),
    ]


def _gold(p: Pipeline, flights: pd.DataFrame, late: int) -> list[Check]:
    gold = _table(p, "gold")
    counted, too_late = in_gold(flights)
    days = counted.groupby(["carrier", counted["scheduled"].dt.floor("D")]).size()
    return [
        Check("gold has each carrier's days", len(days), len(gold)),
        Check("... and so has its topic", len(days), _read(p, CARRIER_DAYS).count()),
        Check("... flights of each carrier", _by_carrier(counted), gold.groupby("carrier")["flights"].sum().to_dict()),
        Check("... minutes of delay at departure", _minutes(counted, "dep_delay"), _minutes(gold, "delay_minutes")),
        Check("flights too late for gold, which silver has", too_late, late),
    ]


def in_gold(flights: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The flights that were there in time and whose day is over, and the number of those that were too late."""
    readable = flights[flights["fate"] != CUT]
    scheduled, first = readable["scheduled"], (readable["delivery"] == 1) & (readable["fate"] != JSON)
    in_time = first | (scheduled > scheduled[first].max() - _DAY)
    is_over = scheduled.dt.floor("D") + _DAY <= scheduled.max() - _DAY
    return readable[in_time & is_over], int((~in_time).sum())


def _table(p: Pipeline, name: str) -> pd.DataFrame:
    table: pd.DataFrame = DeltaTable(str(p.data / name)).to_pandas()
    return table


def _read(p: Pipeline, topic: str) -> Any:
    return p.spark.read.format("rocketmq").options(namesrv=p.namesrv, subscribe=topic).load()


def _by_carrier(rows: pd.DataFrame) -> dict[str, int]:
    return {str(carrier): int(number) for carrier, number in rows["carrier"].value_counts().items()}


def _minutes(rows: pd.DataFrame, column: str) -> int:
    return int(rows[column].sum())


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number:,}" for name, number in sorted(value.items()))
    return f"{value:,}"
