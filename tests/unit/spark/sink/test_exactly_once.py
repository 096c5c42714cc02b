"""The two phases of a micro-batch: half messages of tasks, and what the driver decides about them. No Spark needed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode
from rocketmq_py.arrow.sink.rows import RowStamp
from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.errors import MessageIllegal, PermissionDenied
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.decision_store.decisions import Decision, DecisionError, Decisions
from rocketmq_py.spark.sink import check_back
from rocketmq_py.spark.sink.exactly_once import Committer, Preparation, Prepared
from rocketmq_py.spark.sink.half_sender import HalfMessages
from tests.unit.arrow.scripted import ScriptedPeer, scripted
from tests.unit.spark.sink.half_log import COMMIT, ROLLBACK, HalfLog

COLUMNS = ("topic", "body", "keys")


def settings(peer: ScriptedPeer, **more: Any) -> SendSettings:
    given = {"producer_group": "g", "timeout": 5, "retries": 0, "in_flight": 4, "max_batch_bytes": 300} | more
    return SendSettings(namesrv=(peer.address,), **given)


def preparation(peer: ScriptedPeer, mode: Mode = Mode.FAILFAST, **more: Any) -> Preparation:
    keys, numbers = count(), count()
    return Preparation(
        COLUMNS, None, RowStamp("q", "7", 3), settings(peer, **more), lambda: f"one-{next(keys)}",
        lambda many: ("B" * 28, np.array([next(numbers) for _ in range(many)], np.int64)),
        BadRecordPolicy(mode, "%DLQ%g"),
    )  # fmt: skip


def rows(number: int) -> list[tuple[str, str, str]]:
    return [("tu"[i % 2], f"body-{i}", f"k{i}") for i in range(number)]


def batches(given: Sequence[tuple[str, str, str]]) -> Iterator[Any]:
    """Record batches of three rows."""
    for at in range(0, len(given), 3):
        columns = [pa.array(column, pa.string()) for column in zip(*given[at : at + 3], strict=True)]
        yield pa.RecordBatch.from_arrays(columns, list(COLUMNS))


@pytest.mark.parametrize("in_batches", [True, False], ids=["columns", "rows"])
def test_a_task_sends_a_half_message_for_every_row(in_batches: bool) -> None:
    log = HalfLog()
    with scripted(log, queues=2) as peer:
        one, other = preparation(peer), preparation(peer)
        prepared = one.batches(batches(rows(20))) if in_batches else one.rows(rows(20))
        again = other.rows(rows(1))
    assert sorted(body for body, _ in log.stored[:20]) == sorted(f"body-{i}".encode() for i in range(20))
    for body, own in log.stored[:20]:
        number = int(body.removeprefix(b"body-"))
        expected = {
            "PGROUP": "g-q", "TRAN_MSG": "true", "SPARK_QUERY_ID": "q", "SPARK_BATCH_ID": "7", "KEYS": f"k{number}",
            "SPARK_ATTEMPT": prepared.attempt, "SPARK_ROW_KEY": f"3-{number:09d}",
        }  # fmt: skip
        assert expected.items() <= own.items()
    assert log.sent_by == {"g-q"}, "every query has a producer group of its own"
    assert len({own["UNIQ_KEY"] for _, own in log.stored[:20]}) == 20
    assert sorted(half.table_offset for half in prepared.halves) == list(range(20))
    assert all(half.commit_log_offset == 100 * half.table_offset for half in prepared.halves)
    assert {half.broker for half in prepared.halves} == {"broker-a"}
    assert (prepared.query_id, prepared.resent, prepared.topics) == ("q", {}, ("t", "u"))
    assert (len(prepared.attempt), again.topics) == (16, ("t",))
    assert again.attempt != prepared.attempt
    assert log.ended == {}, "the driver decides"


def test_a_task_without_rows_sends_nothing() -> None:
    log = HalfLog()
    with scripted(log) as peer:
        prepared = preparation(peer).batches([])
    assert (len(prepared.halves), prepared.topics, peer.requests) == (0, (), [])


@pytest.mark.parametrize("in_batches", [True, False], ids=["columns", "rows"])
def test_bad_rows_of_a_task_become_half_messages_to_the_dead_letter_topic(in_batches: bool) -> None:
    log, given = HalfLog(), [*rows(2), ("t", "", "bad"), *rows(1)]
    with scripted(log) as peer:
        one = preparation(peer, Mode.DLQ)
        prepared = one.batches(batches(given)) if in_batches else one.rows(given)
    (letter,) = [own for _, own in log.stored if "SPARK_BAD_REASON" in own]
    assert (len(log.stored), letter["KEYS"], letter["SPARK_ROW_KEY"]) == (4, "bad", "3-000000002")
    assert prepared.topics == ("%DLQ%g", "t", "u")


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_task_that_fails_rolls_back_what_it_sent(error: type[BaseException]) -> None:
    log = HalfLog()

    def failing() -> Iterator[Any]:
        yield from batches(rows(12))
        raise error

    with scripted(log) as peer, pytest.raises(error):
        preparation(peer, in_flight=1).batches(failing())
    assert log.ended, "of those whose answers had arrived"
    assert set(log.ended.values()) == {ROLLBACK}
    assert log.ended_by == {"g-q"}


def test_a_task_that_a_broker_refuses_rolls_back_what_others_stored() -> None:
    log = HalfLog(refused={b"body-20"})
    with scripted(log) as peer, pytest.raises(PermissionDenied, match="sending is forbidden"):
        preparation(peer).rows(rows(40))
    assert set(log.ended.values()) == {ROLLBACK}
    assert 0 < len(log.ended) <= len(log.stored)


def test_a_failed_roll_back_does_not_hide_the_error(caplog: pytest.LogCaptureFixture) -> None:
    """The name server, which is asked for the masters then, knows the topic no more."""
    log = HalfLog()

    def failing() -> Iterator[Any]:
        yield from rows(512)
        yield from rows(512)
        peer.not_yet["t"] = 9
        yield ("t", "", "bad")

    with scripted(log) as peer, caplog.at_level(logging.WARNING), pytest.raises(MessageIllegal, match="row 1024 of"):
        preparation(peer, in_flight=1, max_batch_bytes=1 << 20).rows(failing())
    assert log.ended == {}
    (told,) = [
        one.getMessage() for one in caplog.records if "of a failed task are not rolled back yet" in one.getMessage()
    ]
    assert int(told.split()[0]) > 0
    assert "topic 't' does not exist" in told


# -- the driver


class Checks:
    """What was left to the checks of brokers, in place of a producer that answers them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Decision, float]] = []

    def __call__(self, given: SendSettings, decision: Decision, timeout: float) -> Checks:
        self.asked.append((given.producer_group, decision, timeout))
        self.runs = 0
        return self

    def run(self) -> None:
        self.runs += 1


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Checks:
    checks = Checks()
    monkeypatch.setattr(check_back, "CheckBack", checks)
    return checks


@pytest.fixture
def decisions(tmp_path: Path) -> Decisions:
    return Decisions.at(str(tmp_path / "decisions"))


def prepared(
    attempt: str, *offsets: int, resent: dict[str, str] | None = None, topics: tuple[str, ...] = ("t",)
) -> Prepared:
    halves = HalfMessages()
    for offset in offsets:
        order = MessageQueue("t", "broker-a", 1) if offset % 2 else None
        halves.add("broker-a", order, offset * 100, offset)
    return Prepared("q", attempt, halves, resent or {}, topics)


def committer(peer: ScriptedPeer, decisions: Decisions) -> Committer:
    return Committer(settings(peer), decisions, 600.0)


def test_a_micro_batch_is_decided_and_its_transactions_end(decisions: Decisions, checks: Checks) -> None:
    log = HalfLog()
    tasks = [prepared("a", 1, 2, 3, resent={"0-1": "U1"}), prepared("b", 4, resent={"1-1": "U2"}, topics=("u", "t"))]
    with scripted(log) as peer:
        committer(peer, decisions).commit([*tasks, prepared("c")], 7)
    resent = {"0-1": "U1", "1-1": "U2"}
    assert decisions.latest() == Decision("q", 7, frozenset("abc"), resent, ("t", "u"), ("broker-a",))
    assert log.ended == dict.fromkeys([1, 2, 3, 4], COMMIT)
    assert log.ended_by == {"g-q"}
    assert checks.asked == []


def test_a_micro_batch_without_rows_needs_no_decision(decisions: Decisions, checks: Checks) -> None:
    with scripted(HalfLog()) as peer:
        committer(peer, decisions).commit([], 7)
        committer(peer, decisions).commit([prepared("a"), prepared("b")], 7)
        committer(peer, decisions).abort([], 7, complete=False)
        for nothing in ([], [prepared("a")]):
            assert len(committer(peer, decisions).end(nothing, int(COMMIT))) == 0
    assert (decisions.latest(), peer.requests, checks.asked) == (None, [], [])


def test_the_decision_is_stored_before_the_first_transaction_ends(decisions: Decisions) -> None:
    log = HalfLog()
    decisions.make(Decision("q", 6, frozenset("z")))
    with scripted(log) as peer:
        broken = committer(peer, Decisions("here", Broken(decisions._store)))
        with pytest.raises(DecisionError, match="cannot be written: no space left"):
            broken.commit([prepared("a", 1)], 7)
    assert log.ended == {}


class Broken:
    """A store that takes nothing more."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, name: str, content: bytes) -> None:
        raise OSError("no space left")


def test_transactions_that_do_not_end_are_left_to_the_checks_of_brokers(decisions: Decisions, checks: Checks) -> None:
    log = HalfLog(stuck={2})
    with scripted(log) as peer:
        committer(peer, decisions).commit([prepared("a", 1, 2, 4)], 7)
    assert log.ended == dict.fromkeys([1, 4], COMMIT)
    assert (checks.asked, checks.runs) == ([("g-q", decisions.latest(), 600.0)], 1)


def test_a_repeated_micro_batch_keeps_its_decision(decisions: Decisions, checks: Checks) -> None:
    log, made = HalfLog(), Decision("q", 7, frozenset("a"), {}, ("t",), ("broker-a",))
    decisions.make(made)
    with scripted(log) as peer:
        committer(peer, decisions).commit([prepared("a", 1), prepared("b", 2, 3)], 7)
    assert log.ended == dict.fromkeys([2, 3], ROLLBACK), "the rows of attempt a are not sent twice"
    assert decisions.latest() == made
    assert (checks.asked, checks.runs) == ([("g-q", made, 600.0)], 1)


def test_decisions_that_contradict_the_checkpoint_fail_the_query(decisions: Decisions, checks: Checks) -> None:
    decisions.make(Decision("q", 7, frozenset("a")))
    for query, batch, told in (
        ("q", 6, "micro-batch 6 is written again, although 7 is decided: the checkpoint is older than the decisions"),
        ("r", 6, "the decisions found are of query q, this is query r: give every query a checkpoint"),
        ("r", 8, "the decisions found are of query q, this is query r: give every query a checkpoint"),
    ):
        log, mine = HalfLog(), prepared("b", 2, 3)
        mine.query_id = query
        with scripted(log) as peer, pytest.raises(DecisionError, match=f"^{told}"):
            committer(peer, decisions).commit([mine], batch)
        assert log.ended == dict.fromkeys([2, 3], ROLLBACK)
        assert log.ended_by == {f"g-{query}"}
    assert checks.asked == []
    assert decisions.latest() == Decision("q", 7, frozenset("a"))


@pytest.mark.parametrize(
    ("made", "complete", "rolled_back"),
    [
        (None, False, {1, 2}),
        (6, False, {1, 2}),
        (7, False, {2}),
        (8, False, {1, 2}),
        (None, True, set()),
        (6, True, set()),
        (7, True, {2}),
        (8, True, {1, 2}),
    ],
)
def test_an_aborted_micro_batch_rolls_back_what_no_decision_commits(
    decisions: Decisions, made: int | None, complete: bool, rolled_back: set[int]
) -> None:
    """A decision whose write failed may still appear: if every task succeeded and none is found, nothing ends."""
    log = HalfLog()
    if made is not None:
        decisions.make(Decision("q", made, frozenset("a")))
    with scripted(log) as peer:
        committer(peer, decisions).abort([prepared("a", 1), prepared("b", 2)], 7, complete=complete)
    assert log.ended == dict.fromkeys(rolled_back, ROLLBACK)
