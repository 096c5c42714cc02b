"""Spark queries that write exactly once, as their transactions at the brokers show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rocketmq_py.model import MessageExt
from rocketmq_py.properties import SPARK_ATTEMPT, SPARK_BATCH_ID, SPARK_QUERY_ID, Property
from rocketmq_py.protocol.bodies.statistics import ProducerInfo

COLUMNS = ("query", "batch", "group", "topics", "open", "givenUp", "attempts", "since", "checks", "members")


def batch_rows(
    opened: Iterable[MessageExt], given_up: Iterable[MessageExt], producers: Mapping[str, list[ProducerInfo]] | None
) -> list[dict[str, Any]]:
    """Return a row for each micro-batch with rows that are not decided, or not ended, the oldest first.

    :param opened: half messages that are neither committed nor rolled back.
    :param given_up: half messages that brokers no longer check: rows whose decision nobody could tell.
    :param producers: connected producers by group; None if they are not known. A query that runs is one.
    """
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name, halves in (("open", opened), ("givenUp", given_up)):
        for half in halves:
            properties = half.properties
            query = properties.get(SPARK_QUERY_ID)
            if query is None:
                continue
            batch, group = properties.get(SPARK_BATCH_ID, "?"), properties.get(Property.PRODUCER_GROUP, "?")
            row = found.setdefault((query, batch, group), _row(query, batch, group, half, producers))
            row[name] += 1
            row["attempts"].add(properties.get(SPARK_ATTEMPT, "?"))
            row["topics"].add(properties.get(Property.REAL_TOPIC, "?"))
            row["since"] = min(row["since"], half.store_timestamp)
            checks = properties.get(Property.TRANSACTION_CHECK_TIMES, "0")
            row["checks"] = max(row["checks"], int(checks) if checks.isascii() and checks.isdigit() else 0)
    rows = [row | {"attempts": len(row["attempts"]), "topics": sorted(row["topics"])} for row in found.values()]
    return sorted(rows, key=lambda row: (row["since"], row["query"], row["batch"]))


def _row(
    query: str, batch: str, group: str, half: MessageExt, producers: Mapping[str, list[ProducerInfo]] | None
) -> dict[str, Any]:
    members = None if producers is None else [one.client_id for one in producers.get(group, ())]
    return {
        "query": query, "batch": batch, "group": group, "topics": set(), "open": 0, "givenUp": 0, "attempts": set(),
        "since": half.store_timestamp, "checks": 0, "members": members,
    }  # fmt: skip
