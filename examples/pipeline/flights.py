"""The input: a year of departures in two deliveries, with what goes wrong in real ones.

Some flights are reported late, some twice; an old program writes JSON instead of Avro, and a few bodies are cut off.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa

from examples.common import table, with_nulls
from rocketmq_py.serde import Avro

OLD_FIELDS = ["id", "scheduled", "carrier", "tailnum", "origin", "dest", "distance", "dep_delay"]
FIELDS = [*OLD_FIELDS, "arr_delay"]
SENT, REPEATED, LATE, JSON, CUT = "sent", "repeated", "late", "json", "cut"
_EVERY = {LATE: 1000, REPEATED: 500, JSON: 700, CUT: 1500}
_LAST_OF_FIRST = 10


def year(days: int) -> pd.DataFrame:
    """The departures of the first days of 2013 in order of time, each with its ``fate`` and its ``delivery``."""
    flights = table("flights")
    scheduled = pd.to_datetime(flights["time_hour"], utc=True) + pd.to_timedelta(flights["minute"], unit="min")
    number = flights["carrier"] + flights["flight"].astype(str) + "-" + flights["origin"]
    flights = flights.assign(scheduled=scheduled, id=scheduled.dt.strftime("%Y%m%d-%H%M-") + number)
    flights = flights[scheduled < scheduled.min() + pd.Timedelta(days=days)]
    flights = flights.sort_values(["scheduled", "id"], ignore_index=True)[FIELDS]
    first = len(flights) * 4 // 5
    at = np.arange(len(flights))
    in_first = at < first
    # The last flights of the first delivery come late, too, but soon enough to be counted.
    fates = {LATE: in_first & ((at % _EVERY[LATE] == 1) | (at >= first - _LAST_OF_FIRST))}
    for shift, fate in enumerate((REPEATED, JSON, CUT), 2):
        fates[fate] = in_first & (at % _EVERY[fate] == shift)
    chosen = np.select(list(fates.values()), list(fates), SENT)
    return flights.assign(fate=chosen, delivery=np.where(in_first & (chosen != LATE), 1, 2))


def messages(flights: pd.DataFrame, avro: Avro, topic: str) -> pa.Table:
    """The messages of flights, for ``rocketmq_py.arrow.write``: tag carrier, key id.

    :param avro: the writer's schema; fields that it does not have are left out.
    """
    fields = OLD_FIELDS if (flights["delivery"] == 1).all() else FIELDS
    sent = pd.concat([flights, flights[flights["fate"] == REPEATED]], ignore_index=True)
    scheduled = sent["scheduled"].dt.as_unit("ms").astype("int64")
    rows = with_nulls(sent[fields].assign(scheduled=scheduled)).to_dict("records")
    bodies = [_body(row, fate, avro, topic) for row, fate in zip(rows, sent["fate"], strict=True)]
    return pa.table({"body": bodies, "tags": sent["carrier"].tolist(), "keys": sent["id"].tolist()})


def _body(row: dict[str, object], fate: str, avro: Avro, topic: str) -> bytes:
    if fate == JSON:
        return json.dumps(row).encode()
    body = avro.encode(row, topic)
    return body[: len(body) // 2] if fate == CUT else body
