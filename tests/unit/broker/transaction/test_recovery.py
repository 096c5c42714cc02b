"""Transactions after a crash or a clean stop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.broker.harness import InProcess, broker
from tests.unit.broker.transaction.transacting import (
    COMMIT,
    GIVEN_UP,
    HALF,
    OP,
    ROLLBACK,
    ROUND,
    Transaction,
    answer,
    count,
    crash,
    ops,
    producer_of,
    questions,
)


class Crashed(Exception):
    """The process ends here."""


def appends_until(running: InProcess, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The append that follows ``number`` others is one too many."""
    append, left = running.services.store.append, iter(range(number))

    def counted(record: Any) -> Any:
        if next(left, None) is None:
            raise Crashed
        return append(record)

    monkeypatch.setattr(running.services.store, "append", counted)


def crashing(what: Callable[[], object]) -> None:
    """Whoever catches the crash: it ends everything."""
    with contextlib.suppress(Crashed):
        what()


@pytest.mark.parametrize("interval", [0, 3_000])
@pytest.mark.parametrize("appends", [0, 1, 2])
def test_a_crash_during_a_commit_loses_nothing(
    tmp_path: Path, appends: int, interval: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the real message, between it and the op message, after both: it is delivered, early never, lost never."""
    running = InProcess(tmp_path, transaction_op_batch_interval=interval)
    transaction = Transaction(running, running.connect())
    appends_until(running, appends, monkeypatch)
    crashing(lambda: transaction.end(COMMIT))
    crashing(lambda: running.services.transactions.tick(running.now + interval))
    monkeypatch.undo()
    before = count(running, "t", 2)
    assert before == min(appends, 1)
    crash(running)
    with broker(tmp_path) as again:
        producer = producer_of(again)
        again.now = running.now + 10_000
        again.turn(ROUND)
        asked = questions(producer)
        assert len(asked) == (1 if appends == 0 else 0), "a message that is in its topic is not asked about"
        for question in asked:
            assert count(again, "t", 2) == before, "nothing is delivered before the producer says so"
            answer(producer, question, COMMIT)
        assert count(again, "t", 2) == 1


def test_a_slave_ends_no_transaction_of_its_master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed just before the master's crash is ended by the master, whose log the slave's is."""
    running = InProcess(tmp_path)
    transaction = Transaction(running, running.connect())
    appends_until(running, 1, monkeypatch)
    crashing(lambda: transaction.end(COMMIT))
    monkeypatch.undo()
    crash(running)
    for settings, first_open in (({"broker_role": "SLAVE", "broker_id": 1}, 0), ({}, 1)):
        with broker(tmp_path, **settings) as again:
            transactions = again.services.transactions
            transactions.load()
            assert transactions.table.next_open(1) == first_open


def test_a_commit_by_an_earlier_place_ends_the_copy_of_a_check(tmp_path: Path) -> None:
    running = InProcess(tmp_path)
    Transaction(running, running.connect(), UNIQ_KEY="U0").end(ROLLBACK)
    transaction, other = Transaction(running, running.connect()), Transaction(running, running.connect(), UNIQ_KEY="U2")
    running.now += 10_000
    running.turn(ROUND)
    assert transaction.ended(COMMIT) == (0, None)
    crash(running)
    with broker(tmp_path) as again:
        producer = producer_of(again)
        again.now = running.now + 10_000
        again.turn(ROUND)
        assert {question.ext["msgId"] for question in questions(producer)} == {other.uniq_key}
        assert count(again, "t", 2) == 1


def test_a_message_sent_in_another_transaction_stays_open(tmp_path: Path) -> None:
    """Java's producer keeps the unique key of a message object that is sent once more."""
    running = InProcess(tmp_path)
    first = Transaction(running, running.connect())
    Transaction(running, running.connect())
    assert first.ended(COMMIT) == (0, None)
    crash(running)
    with broker(tmp_path) as again:
        producer = producer_of(again)
        again.now = running.now + 10_000
        again.turn(ROUND)
        [question] = questions(producer)
        answer(producer, question, COMMIT)
        assert count(again, "t", 2) == 2


@pytest.mark.parametrize("appends", [0, 1])
def test_a_crash_during_a_rollback_revives_nothing(
    tmp_path: Path, appends: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = InProcess(tmp_path, transaction_op_batch_interval=0)
    transaction = Transaction(running, running.connect())
    appends_until(running, appends, monkeypatch)
    crashing(lambda: transaction.end(ROLLBACK))
    monkeypatch.undo()
    crash(running)
    with broker(tmp_path) as again:
        producer = producer_of(again)
        again.now = running.now + 10_000
        again.turn(ROUND)
        asked = questions(producer)
        assert len(asked) == 1 - appends
        for question in asked:
            answer(producer, question, ROLLBACK)
        again.turn(2 * ROUND)
        assert (count(again, "t", 2), questions(producer)) == (0, [])


@pytest.mark.parametrize("appends", [0, 1])
def test_a_crash_during_a_check_loses_no_transaction(
    tmp_path: Path, appends: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after the half message is stored again: somebody is asked once, and nothing is lost."""
    running = InProcess(tmp_path)
    Transaction(running, running.connect())
    running.now += 10_000
    appends_until(running, appends, monkeypatch)
    crashing(lambda: running.services.transaction_check.tick(running.now + ROUND))
    monkeypatch.undo()
    assert count(running, HALF) == 1 + appends
    crash(running)
    with broker(tmp_path) as again:
        producer = producer_of(again)
        again.now = running.now + ROUND
        again.turn(ROUND)
        [question] = questions(producer)
        answer(producer, question, COMMIT)
        assert count(again, "t", 2) == 1


@pytest.mark.parametrize("outcome", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("lives", [1, 2])
def test_a_half_message_stored_again_before_a_crash_ends_with_its_copy(
    tmp_path: Path, lives: int, outcome: int
) -> None:
    """The progress of checks is not on disk: the transaction ends once, by its first place or by that of its copy."""
    running = InProcess(tmp_path)
    transaction, other = Transaction(running, running.connect()), Transaction(running, running.connect(), b"other")
    for _ in range(lives):
        forget_progress(running)
        running.now += 10_000
        running.services.transaction_check.tick(running.now + ROUND)
        crash(running)
        now, running = running.now, InProcess(tmp_path)
        running.now = now
    producer = transaction.client = other.client = producer_of(running)
    assert transaction.ended(outcome) == (0, None)
    running.now += 10_000
    running.turn(ROUND)
    asked = questions(producer)
    assert len(asked) == 1, "of the same key, but another message"
    for question in asked:
        answer(producer, question, COMMIT)
    running.turn(2 * ROUND)
    assert (count(running, "t", 2), questions(producer)) == (2 if outcome == COMMIT else 1, [])
    running.services.close()


def forget_progress(running: InProcess) -> None:
    """Let its check not write how far it has got, as if it crashed before."""
    running.services.transaction_check.persist_progress = lambda: None  # type: ignore[method-assign]


def test_a_clean_stop_keeps_all_transactions(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        client = running.connect()
        committed, open_ = Transaction(running, client), Transaction(running, client, UNIQ_KEY="U2")
        committed.end(COMMIT)
    with broker(tmp_path) as again:
        producer = producer_of(again)
        again.now = running.now + 10_000
        assert ops(again) == [b"0,"]
        committed.client = open_.client = producer
        assert committed.ended(COMMIT) == (1, "The transaction has been ended already")
        again.turn(ROUND)
        [question] = questions(producer)
        assert question.ext["msgId"] == "U2"
    with broker(tmp_path) as last:
        assert (last.services.transactions.table.base, last.services.transactions.ops.offset) == (2, 1)


def restarted(running: InProcess, *transactions: Transaction) -> InProcess:
    """The broker stopped in good order and started again, a producer of the group connected."""
    running.turn(ROUND)
    running.services.close()
    again = InProcess(Path(running.config.store_path_root_dir))
    again.now = running.now
    for transaction in transactions:
        transaction.client = producer_of(again)
    return again


def test_a_transaction_can_be_ended_by_its_first_position_after_a_restart(tmp_path: Path) -> None:
    """A check has stored the half message again; its producer, who does not know, ends it once and for all."""
    running = InProcess(tmp_path)
    transaction = Transaction(running, running.connect())
    again = restarted(running, transaction)
    assert again.services.transactions.table.since == 1
    assert transaction.ended(COMMIT) == transaction.ended(COMMIT) == (0, None)
    again.turn(2 * ROUND)
    assert questions(transaction.client) == []
    assert (count(again, "t", 2), ops(again)) == (1, [b"0,1,"])
    again.services.close()


@pytest.mark.parametrize("outcome", [COMMIT, ROLLBACK])
def test_transactions_ended_before_a_restart_stay_ended(tmp_path: Path, outcome: int) -> None:
    running = InProcess(tmp_path)
    transaction = Transaction(running, running.connect())
    transaction.end(outcome)
    again = restarted(running, transaction)
    assert transaction.ended(COMMIT) == (1, "The transaction has been ended already")
    assert count(again, "t", 2) == (1 if outcome == COMMIT else 0)
    again.services.close()


def test_transactions_given_up_before_a_restart_may_still_be_ended(tmp_path: Path) -> None:
    running = InProcess(tmp_path, transaction_check_max=0)
    transaction = Transaction(running, running.connect())
    again = restarted(running, transaction)
    assert count(again, GIVEN_UP) == 1
    assert transaction.ended(COMMIT) == (0, None)
    assert transaction.ended(COMMIT)[0] == 1
    third = restarted(again, transaction)
    assert transaction.ended(COMMIT)[0] == 1, "its message is there"
    assert count(third, "t", 2) == 1
    third.services.close()


def test_without_an_index_an_earlier_end_is_repeated_as_in_java(tmp_path: Path) -> None:
    running = InProcess(tmp_path, store={"message_index_enable": False})
    transaction = Transaction(running, running.connect())
    transaction.end(ROLLBACK)
    again = restarted(running, transaction)
    assert transaction.ended(COMMIT) == (0, None)
    assert count(again, "t", 2) == 1
    again.services.close()


def test_offsets_beyond_a_truncated_queue_are_ignored(tmp_path: Path) -> None:
    """Offsets on disk may be newer than what the log has after a power failure."""
    with broker(tmp_path) as running:
        for topic in (HALF, OP):
            running.services.offsets.commit("CID_RMQ_SYS_TRANS", topic, 0, 50, "test")
        running.services.transactions.table.advance(50)
        running.services.transactions.ops.offset = 50
    with broker(tmp_path) as again:
        producer = producer_of(again)
        Transaction(again, producer)
        again.now += 10_000
        again.turn(ROUND)
        assert len(questions(producer)) == 1
