"""Micro-batches of exactly-once queries, from half messages."""

from __future__ import annotations

from typing import Any

from rocketmq_py.console.views.spark import MOST_QUEUES, QueryState, batch_rows, query_row
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.properties import Property
from rocketmq_py.protocol.bodies.statistics import ProducerInfo
from tests.unit.cli.messages import STORED, message


def half(batch: str, attempt: str, at: int = 0, **more: str) -> MessageExt:
    properties = {"SPARK_QUERY_ID": "q", "SPARK_BATCH_ID": batch, "SPARK_ATTEMPT": attempt, "PGROUP": "p-q",
                  "REAL_TOPIC": "t"}  # fmt: skip
    return message(b"x", topic="half", stored=STORED + at, **properties | more)


def rows(*halves: MessageExt, given_up: tuple[MessageExt, ...] = (), producers: Any = None) -> list[dict[str, Any]]:
    return batch_rows(halves, given_up, producers)


def test_rows_are_counted_by_micro_batch_the_oldest_first() -> None:
    checked = half("1", "b", 3, **{Property.TRANSACTION_CHECK_TIMES: "4", "REAL_TOPIC": "u"})
    found = rows(
        half("2", "a", 9), half("1", "a", 5), checked, message(b"no row of Spark"), given_up=(half("1", "a", 7),)
    )
    assert [(one["batch"], one["open"], one["givenUp"], one["attempts"], one["checks"]) for one in found] == [
        ("1", 2, 1, 2, 4), ("2", 1, 0, 1, 0),
    ]  # fmt: skip
    assert (found[0]["since"], found[0]["topics"], found[0]["group"]) == (STORED + 3, ["t", "u"], "p-q")


def test_the_driver_of_a_query_is_a_connected_producer_or_unknown() -> None:
    assert rows(half("1", "a"))[0]["members"] is None
    assert rows(half("1", "a"), producers={})[0]["members"] == []
    connected = {"p-q": [ProducerInfo(client_id="driver")]}
    assert rows(half("1", "a"), producers=connected)[0]["members"] == ["driver"]


def test_a_number_of_checks_that_is_none_counts_as_none() -> None:
    assert rows(half("1", "a", **{Property.TRANSACTION_CHECK_TIMES: "x"}))[0]["checks"] == 0


Q0, Q1, Q2 = (MessageQueue("t", "broker-a", number) for number in range(3))


def test_the_lag_of_a_query_counts_from_the_latest_micro_batch_that_is_done() -> None:
    state = QueryState("c", "q", 5, 50, 4, 40, {Q0: 10, Q1: 20, Q2: 30}, {Q0: 15})
    row = query_row(state, {Q0: 100, Q1: 120, Q2: 5})
    assert (row["lag"], row["isRunning"], row["queuesLeftOut"]) == (190, True, 0)
    assert [(one["queue"], one["lag"], one["planned"]) for one in row["queues"]] == [
        (1, 100, None), (0, 90, 15), (2, 0, None),
    ]  # fmt: skip
    unknown = query_row(state, {Q0: 100, Q1: 120})
    assert (unknown["lag"], unknown["queues"][0]["queue"], unknown["queues"][0]["lag"]) == (None, 2, None)
    nothing = query_row(QueryState("c", error="away"), {})
    assert (nothing["lag"], nothing["isRunning"], nothing["error"], nothing["queues"]) == (None, False, "away", [])


def test_the_queues_with_the_largest_lags_are_listed() -> None:
    queues = [MessageQueue("t", "b", number) for number in range(MOST_QUEUES + 1)]
    row = query_row(QueryState("c", done=dict.fromkeys(queues, 0)), {queue: queue.queue_id for queue in queues})
    assert (row["queuesLeftOut"], row["queues"][0]["lag"], row["queues"][-1]["lag"]) == (1, MOST_QUEUES, 1)
    assert row["lag"] == sum(range(MOST_QUEUES + 1))
