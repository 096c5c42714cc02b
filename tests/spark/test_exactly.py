"""The two phases of an exactly-once micro-batch, and recovery when one is interrupted. No Spark needed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py.client.admin.blocking import Admin
from rocketmq_py.properties import Property
from rocketmq_py.spark.decision_store.decisions import Decision, DecisionError, Decisions
from rocketmq_py.spark.sink.check_back import OpenTransactionsError
from rocketmq_py.spark.sink.exactly_once import Committer, Prepared
from rocketmq_py.spark.sink.half_sender import HalfMessages
from rocketmq_py.testing import Cluster
from tests.server.cli import eventually
from tests.spark.exactsink import (
    Crash,
    DiesAfterTheDecision,
    DiesAfterTheEnds,
    DiesBeforeTheDecision,
    DiesBetweenTheEnds,
    Sink,
)

SOON = {"transaction_check_interval": 200, "transaction_time_out": 100, "transaction_op_batch_interval": 50}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(**SOON) as cluster:
        yield cluster


@pytest.fixture
def sink(cluster: Cluster, tmp_path: Path) -> Sink:
    return Sink(cluster.namesrv, cluster.create_topic(f"t-{uuid.uuid4().hex[:12]}"), tmp_path)


def test_rows_become_visible_when_the_micro_batch_is_committed(sink: Sink) -> None:
    tasks = [sink.task(range(50)), sink.task(range(50, 80), partition=1)]
    assert sink.seen() == []
    sink.committer().commit(tasks, 0)
    assert sorted(sink.seen()) == list(range(80))
    sink.committer().commit([sink.task(range(80, 90), batch_id=1)], 1)
    assert sorted(sink.seen()) == list(range(90))


def test_rows_of_one_sharding_key_keep_their_order(sink: Sink) -> None:
    sink.committer().commit([sink.task(range(300))], 0)
    seen = sink.seen()
    for key in range(3):
        assert [body for body in seen if body % 3 == key] == list(range(key, 300, 3))


@pytest.mark.parametrize(
    "kind",
    [DiesBeforeTheDecision, DiesAfterTheDecision, DiesBetweenTheEnds, DiesAfterTheEnds],
    ids=lambda kind: kind.__name__,
)
def test_the_next_driver_finishes_the_work_of_a_dead_one(sink: Sink, kind: type[Committer]) -> None:
    sink.committer().commit([sink.task(range(-10, 0))], 0)
    tasks = [sink.task(range(30), 1), sink.task(range(30, 60), 1, partition=1)]
    with pytest.raises(Crash):
        kind(sink.settings, Decisions.at(sink.location), 60).commit(tasks, 1)
    again = [sink.task(range(45), 1), sink.task(range(45, 60), 1, partition=1)]
    sink.committer().commit(again, 1)
    assert sorted(sink.seen()) == list(range(-10, 60))
    sink.committer().commit([sink.task(range(60, 70), 2)], 2)
    assert sorted(sink.seen()) == list(range(-10, 70))


def test_a_broker_that_is_down_is_retried(tmp_path: Path) -> None:
    with Cluster(2, **SOON) as cluster:
        sink = Sink(cluster.namesrv, cluster.create_topic("t"), tmp_path)
        tasks = [sink.task(range(30), partition=number) for number in range(2)]
        brokers = {broker for task in tasks for broker, _ in task.halves.ranges}
        with pytest.raises(Crash):
            DiesAfterTheDecision(sink.settings, Decisions.at(sink.location), 60).commit(tasks, 0)
        cluster.stop_broker(1)
        again = [sink.task(range(30), partition=number) for number in range(2)]
        with pytest.raises(OpenTransactionsError, match=r"is decided, and not delivered within 1 s: .*broker-b"):
            sink.committer(1).commit(again, 0)
        cluster.start_broker(1)
        sink.committer().commit([sink.task(range(30))], 0)
        assert "broker-b" in brokers
        assert sorted(sink.seen()) == sorted([*range(30), *range(30)])


def test_an_abort_after_the_decision_changes_nothing(sink: Sink) -> None:
    tasks = [sink.task(range(20))]
    with pytest.raises(Crash):
        DiesAfterTheDecision(sink.settings, Decisions.at(sink.location), 60).commit(tasks, 0)
    sink.committer().abort(tasks, 0, complete=True)
    sink.committer().commit([sink.task(range(20))], 0)
    assert sorted(sink.seen()) == list(range(20))


def test_an_abort_while_tasks_prepare_rolls_back(sink: Sink) -> None:
    sink.committer().abort([sink.task(range(20))], 0, complete=False)
    with Admin([sink.namesrv]) as admin:
        real = Property.REAL_TOPIC
        eventually(lambda: all(half.properties[real] != sink.topic for half in admin.open_transactions()))
    assert sink.seen() == []


def test_a_decision_whose_write_seemed_to_fail_is_carried_out(sink: Sink) -> None:
    """As a write to an object store that timed out may."""

    class Unsure(Committer):
        def decide(self, decision: Decision) -> None:
            raise DecisionError("timed out")

    class Kept(Committer):
        def end(self, prepared: list[Prepared], outcome: int) -> HalfMessages:
            raise AssertionError("nothing can be told yet")

    tasks = [sink.task(range(20))]
    unsure = Unsure(sink.settings, Decisions.at(sink.location), 60)
    with pytest.raises(DecisionError, match="timed out"):
        unsure.commit(tasks, 0)
    Kept(sink.settings, Decisions.at(sink.location), 60).abort(tasks, 0, complete=True)
    sink.committer().decide(
        Decision(sink.query, 0, frozenset(one.attempt for one in tasks), {}, (sink.topic,), ("broker-a",))
    )
    sink.committer().commit([sink.task(range(20))], 0)
    assert sorted(sink.seen()) == list(range(20))
