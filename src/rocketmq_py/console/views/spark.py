"""Spark queries: as their transactions at the brokers show them, and as their checkpoints do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.properties import SPARK_ATTEMPT, SPARK_BATCH_ID, SPARK_QUERY_ID, Property
from rocketmq_py.protocol.bodies.statistics import ProducerInfo

MOST_QUEUES = 256
"""Number of queues of one query that a page lists, those with the largest lags."""


class QueryState(NamedTuple):
    """What the checkpoint of a streaming query says.

    :ivar checkpoint: its directory.
    :ivar query: the id of the query.
    :ivar planned: the latest micro-batch that Spark planned, ``planned_at`` when, in milliseconds, ``ends`` where it
        ends.
    :ivar committed: the latest one that is done, ``committed_at`` when that was, ``done`` where it ended.
    :ivar is_decided: whether it is decided which rows of the planned one count; None for a query that does not decide.
    :ivar decided: the latest micro-batch with a decision, ``attempts`` the number of tasks whose rows count, ``topics``
        where these rows went.
    :ivar error: why the checkpoint cannot be read; None if it was.
    """

    checkpoint: str
    query: str | None = None
    planned: int | None = None
    planned_at: int | None = None
    committed: int | None = None
    committed_at: int | None = None
    done: Mapping[MessageQueue, int] = {}
    ends: Mapping[MessageQueue, int] = {}
    is_decided: bool | None = None
    decided: int | None = None
    attempts: int | None = None
    topics: tuple[str, ...] = ()
    error: str | None = None


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


def query_row(state: QueryState, latest: Mapping[MessageQueue, int]) -> dict[str, Any]:
    """Return the row of a query, with those of its queues, the largest lag first.

    :param latest: the end of each queue at its broker; the lag of a queue that is not there is unknown.
    """
    queues: list[dict[str, Any]] = [
        {
            "topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id, "committed": offset,
            "planned": state.ends.get(queue), "maxOffset": latest.get(queue),
            "lag": max(0, latest[queue] - offset) if queue in latest else None,
        }
        for queue, offset in state.done.items()
    ]  # fmt: skip
    lags = [row["lag"] for row in queues]
    queues.sort(key=lambda row: (row["lag"] is not None, -(row["lag"] or 0), row["topic"], row["broker"], row["queue"]))
    return {
        "checkpoint": state.checkpoint, "query": state.query, "planned": state.planned, "plannedAt": state.planned_at,
        "committed": state.committed, "committedAt": state.committed_at, "isRunning": state.planned != state.committed,
        "lag": sum(lags) if lags and None not in lags else None, "isDecided": state.is_decided,
        "decided": state.decided, "attempts": state.attempts, "topics": list(state.topics), "error": state.error,
        "queues": queues[:MOST_QUEUES], "queuesLeftOut": max(0, len(queues) - MOST_QUEUES),
    }  # fmt: skip
