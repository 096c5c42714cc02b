"""Rounds of checks: whom they ask, when, and when they stop asking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.wire.record import decode_record
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import send
from tests.unit.broker.transaction.transacting import (
    COMMIT,
    GIVEN_UP,
    HALF,
    ROLLBACK,
    ROUND,
    UNKNOWN,
    Transaction,
    answer,
    count,
    crash,
    message,
    ops,
    producer_of,
    questions,
    refuse,
)


@pytest.fixture
def producer(running: InProcess) -> Client:
    return producer_of(running)


def test_a_producer_of_the_group_is_checked(running: InProcess, producer: Client) -> None:
    transaction = Transaction(running, producer, b"x" * 5000)
    running.turn(ROUND)
    [question] = questions(producer)
    again = message(running, HALF, 1)
    assert (again.body, again.flag, again.properties["TRANSACTION_CHECK_TIMES"]) == (b"x" * 5000, 9, "1")
    assert question.is_oneway
    assert question.ext == {
        "topic": HALF, "tranStateTableOffset": "1", "commitLogOffset": str(again.commit_log_offset), "msgId": "U1",
        "transactionId": "U1", "offsetMsgId": again.offset_msg_id, "bname": "broker-a",
    }  # fmt: skip
    asked = decode_record(question.body)
    assert (asked.topic, asked.queue_id, asked.body) == ("t", 2, b"x" * 5000)
    assert (asked.queue_offset, asked.commit_log_offset) == (1, again.commit_log_offset)
    assert asked.born_timestamp == running.now - ROUND
    assert transaction.place["commit_log_offset"] < again.commit_log_offset


@pytest.mark.parametrize(("outcome", "delivered"), [(COMMIT, 1), (ROLLBACK, 0)])
def test_the_answer_to_a_check_ends_the_transaction(
    running: InProcess, producer: Client, outcome: int, delivered: int
) -> None:
    Transaction(running, producer)
    running.turn(ROUND)
    [question] = questions(producer)
    answer(producer, question, outcome)
    running.turn(ROUND)
    assert (count(running, "t", 2), questions(producer), ops(running)) == (delivered, [], [b"0,1,"])


def test_an_unknown_outcome_is_checked_again(running: InProcess, producer: Client) -> None:
    Transaction(running, producer)
    for times in range(1, 4):
        running.turn(ROUND)
        [question] = questions(producer)
        assert decode_record(question.body).properties["TRANSACTION_CHECK_TIMES"] == str(times)
        assert answer(producer, question, UNKNOWN) is None
    assert count(running, "t", 2) == 0


def test_young_half_messages_are_not_checked(running: InProcess, producer: Client) -> None:
    running.turn(ROUND - 6_000)
    Transaction(running, producer)
    running.turn(6_000)
    assert questions(producer) == []
    running.turn(ROUND)
    assert len(questions(producer)) == 1


def test_the_interval_is_a_setting(tmp_path: Path) -> None:
    with broker(tmp_path, transaction_check_interval=60_000, transaction_time_out=0) as running:
        producer = producer_of(running)
        Transaction(running, producer)
        running.turn(59_999)
        assert questions(producer) == []
        running.turn(1)
        assert len(questions(producer)) == 1


def test_ended_transactions_are_not_checked(running: InProcess, producer: Client) -> None:
    transactions = [Transaction(running, producer, UNIQ_KEY=f"U{number}") for number in range(6)]
    for number, transaction in enumerate(transactions):
        if number not in (1, 4):
            transaction.end(COMMIT if number % 2 else ROLLBACK)
    running.turn(ROUND)
    assert [question.ext["msgId"] for question in questions(producer)] == ["U1", "U4"]


def test_an_end_counts_before_its_op_message_is_written(tmp_path: Path) -> None:
    """Apache RocketMQ asks about what ended in the last seconds; the answer would deliver it twice."""
    with broker(tmp_path, transaction_op_batch_interval=10**9) as running:
        producer = producer_of(running)
        Transaction(running, producer).end(COMMIT)
        running.turn(ROUND)
        assert (ops(running), questions(producer)) == ([], [])


def test_a_transaction_ends_once_by_check_or_producer(running: InProcess, producer: Client) -> None:
    """The producer's own word crosses a question on its way."""
    transaction = Transaction(running, producer)
    running.turn(ROUND)
    [question] = questions(producer)
    assert transaction.ended(ROLLBACK) == (0, None)
    answered = answer(producer, question, COMMIT)
    assert answered is not None
    assert answered.code == 1
    running.turn(ROUND)
    assert (count(running, "t", 2), questions(producer)) == (0, [])


def test_members_of_the_group_are_checked_in_turn(running: InProcess, producer: Client) -> None:
    other = producer_of(running)
    for number in range(4):
        Transaction(running, producer, UNIQ_KEY=f"U{number}")
    running.turn(ROUND)
    assert [len(questions(one)) for one in (producer, other)] == [2, 2]


def test_closed_producers_are_not_checked(running: InProcess, producer: Client) -> None:
    other = producer_of(running)
    Transaction(running, producer)
    producer.leave()
    for _ in range(2):
        running.turn(ROUND)
        assert len(questions(other)) == 1
    assert questions(producer) == []


def test_other_groups_are_not_checked(running: InProcess, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    stranger = producer_of(running, "q")
    Transaction(running, client)
    Transaction(running, client, UNIQ_KEY="U2")
    running.turn(ROUND)
    assert questions(stranger) == []
    assert caplog.text.count("no producer of group 'p' is connected") == 1, "once a round"
    late = producer_of(running)
    running.turn(ROUND)
    assert len(questions(late)) == 2


def test_a_half_message_is_given_up_after_the_last_check(tmp_path: Path) -> None:
    with broker(tmp_path, transaction_check_max=3) as running:
        producer = producer_of(running)
        transaction = Transaction(running, producer)
        for _ in range(5):
            running.turn(ROUND)
        assert len(questions(producer)) == 3
        given_up = message(running, GIVEN_UP)
        assert (count(running, GIVEN_UP), given_up.body, given_up.properties["REAL_TOPIC"]) == (1, b"body", "t")
        assert given_up.properties["TRANSACTION_CHECK_TIMES"] == "3"
        topic = running.services.topics.get(GIVEN_UP)
        assert topic is not None
        assert topic.write_queue_nums == 1
        assert transaction.ended(COMMIT) == (0, None), "its producer may still end it"
        assert transaction.ended(COMMIT)[0] == 1
        assert count(running, "t", 2) == 1


def test_given_up_half_messages_may_still_be_ended_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketmq_py.core.transaction.table._MOST_GIVEN_UP", 2)
    with broker(tmp_path, transaction_check_max=1) as running:
        producer = producer_of(running)
        transactions = [Transaction(running, producer, UNIQ_KEY=f"U{number}") for number in range(8)]
        transactions.pop().end(COMMIT)
        running.turn(ROUND)
        running.turn(ROUND)
        assert count(running, GIVEN_UP) == 7, "asked about once, stored again, given up"
        for transaction in transactions:
            outcome = ROLLBACK if transaction is transactions[1] else COMMIT
            assert transaction.ended(outcome) == (0, None)
            assert (
                transaction.ended(COMMIT)
                == transaction.ended(ROLLBACK)
                == (1, "The transaction has been ended already")
            )
        assert count(running, "t", 2) == 7


def test_half_messages_older_than_the_reserved_time_are_given_up(tmp_path: Path) -> None:
    with broker(tmp_path, store={"file_reserved_time": 1}) as running:
        producer = producer_of(running)
        Transaction(running, producer)
        running.turn(3_600_001)
        assert (questions(producer), count(running, GIVEN_UP)) == ([], 1)


def test_check_immunity_delays_the_check(running: InProcess, producer: Client) -> None:
    transaction = Transaction(running, producer, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    other = Transaction(running, producer, UNIQ_KEY="U2")
    for _ in range(2):
        running.turn(ROUND)
        assert [question.ext["msgId"] for question in questions(producer)] == ["U2"], "what follows is not held up"
    waiting = message(running, HALF, 4)
    assert waiting.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    assert "TRANSACTION_CHECK_TIMES" not in waiting.properties, "waiting is no check"
    other.end(ROLLBACK)
    running.turn(ROUND)
    [question] = questions(producer)
    assert question.ext["msgId"] == "U1"
    answer(producer, question, COMMIT)
    assert transaction.ended(COMMIT)[0] == 604
    assert count(running, "t", 2) == 1


def test_an_immune_message_that_has_ended_is_not_checked(running: InProcess, producer: Client) -> None:
    transaction = Transaction(running, producer, CHECK_IMMUNITY_TIME_IN_SECONDS="45")
    running.turn(ROUND)
    assert transaction.ended(COMMIT) == (0, None), "it knows the first place only"
    for _ in range(3):
        running.turn(ROUND)
    assert (questions(producer), count(running, "t", 2), count(running, HALF)) == ([], 1, 2)


def test_an_immune_message_ended_elsewhere_is_not_checked(tmp_path: Path) -> None:
    """A Java broker notes the end of the first place only, and would ask about the second."""
    running = InProcess(tmp_path)
    producer = producer_of(running)
    transaction = Transaction(running, producer, CHECK_IMMUNITY_TIME_IN_SECONDS="45")
    running.turn(ROUND)
    transaction.end(COMMIT)
    running.services.transactions._unwritten.remove(1)
    running.turn(3_000)
    crash(running)
    with broker(tmp_path) as again:
        producer = producer_of(again)
        again.now = running.now + ROUND
        again.turn(ROUND)
        assert (ops(again), questions(producer), count(again, HALF)) == ([b"0,"], [], 2)


def test_a_clock_set_back_does_not_stop_checks(running: InProcess, producer: Client) -> None:
    running.now += 10**9
    Transaction(running, producer)
    running.now -= 10**9
    running.turn(ROUND)
    # Stored in the future, too: it is asked about once the store's clock has caught up.
    assert questions(producer) == []
    running.now += 10**9
    running.turn(ROUND)
    assert len(questions(producer)) == 1


def test_a_long_round_takes_several_ticks(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        producer = producer_of(running)
        for number in range(450):
            Transaction(running, producer, UNIQ_KEY=f"U{number}")
        running.turn(ROUND)
        assert len(questions(producer)) == 200
        running.turn(1)
        running.turn(1)
        assert len(questions(producer)) == 250
        running.turn(1)
        assert questions(producer) == []


def test_a_round_lasts_a_minute_and_the_next_one_continues(tmp_path: Path) -> None:
    with broker(tmp_path, transaction_check_interval=30_000) as running:
        producer = producer_of(running)
        for number in range(450):
            Transaction(running, producer, UNIQ_KEY=f"U{number}")
        asked = []
        for milliseconds in (ROUND, 60_000, 1, 29_999, 1):
            running.turn(milliseconds)
            asked.append([question.ext["msgId"] for question in questions(producer)])
        assert list(map(len, asked)) == [200, 200, 0, 0, 200]
        assert asked[4][:51] == [*(f"U{number}" for number in range(400, 450)), "U0"]


def test_a_round_ends_when_the_store_refuses_writes(running: InProcess, producer: Client, monkeypatch: Any) -> None:
    Transaction(running, producer)
    with monkeypatch.context() as patched:
        patched.setattr(running.services.store, "append", refuse)
        running.turn(ROUND)
    assert questions(producer) == []
    running.turn(ROUND)
    assert len(questions(producer)) == 1


def test_a_half_message_that_cannot_be_stored_again_is_left_to_its_producer(
    running: InProcess, producer: Client
) -> None:
    """Its properties have no room for the number of checks."""
    Transaction(running, producer, UNIQ_KEY="U1", filler="x")
    room = 32_767 - len(message(running, HALF).raw_properties)
    transaction = Transaction(running, producer, UNIQ_KEY="U2", filler="x" * room)
    running.turn(ROUND)
    assert [question.ext["msgId"] for question in questions(producer)] == ["U1"]
    assert transaction.ended(COMMIT) == (0, None)


def test_a_malformed_half_message_is_skipped(running: InProcess, producer: Client) -> None:
    store = running.services.store
    producer.ask(Code.SEND_MESSAGE_V2, send("t", 3), b"plain")
    Transaction(running, producer)
    entry = store.queue_entries("t", 3, 0, 1)[0]
    queue = store._queues.by_key[HALF, 0]
    queue.pending += (entry[0] + 4, entry[1] - 4, 0)
    queue.next_offset += 1
    queue.commit_pending()
    Transaction(running, producer, UNIQ_KEY="U3")
    running.turn(ROUND)
    assert [question.ext["msgId"] for question in questions(producer)] == ["U1", "U3"]
