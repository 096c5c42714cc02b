"""Transactions in the broker: half messages, how they end, and starting over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.send.half_messages import CachedHalfMessage, HalfMessageCache
from rocketmq_py.broker.transaction.transactions import Transactions
from rocketmq_py.core.metrics.counters import MessageCounts
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.transaction import EndTransaction, ResumeCheckHalfMessage
from rocketmq_py.store import Appended, NewRecord
from rocketmq_py.wire.command import ONEWAY_FLAG, Command
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import send
from tests.unit.broker.transaction.transacting import (
    COMMIT,
    GIVEN_UP,
    HALF,
    OP,
    ROLLBACK,
    ROUND,
    UNKNOWN,
    Transaction,
    answer,
    count,
    message,
    ops,
    producer_of,
    questions,
    refuse,
)

# -- half messages


def test_a_half_message_cannot_be_consumed(running: InProcess, client: Client) -> None:
    Transaction(running, client)
    assert count(running, "t", 2) == 0
    half = message(running, HALF)
    assert (half.body, half.flag, half.sys_flag, half.queue_id) == (b"body", 9, 0, 0)
    wanted = {"REAL_TOPIC": "t", "REAL_QID": "2", "__transactionId__": "U1", "PGROUP": "p", "TRAN_MSG": "true"}
    assert wanted.items() <= half.properties.items()


def test_a_broker_may_refuse_transactions(tmp_path: Path) -> None:
    with broker(tmp_path, reject_transaction_message=True) as running:
        header = send(properties={"TRAN_MSG": "true", "PGROUP": "p"}, sys_flag=4)
        refused = running.connect().ask(Code.SEND_MESSAGE_V2, header, b"body")
        assert (refused.code, refused.remark) == (
            16, "the broker[127.0.0.1] sending transaction message is forbidden"
        )  # fmt: skip
        assert count(running, HALF) == 0


def test_the_prepared_flag_without_the_property_is_refused(running: InProcess, client: Client) -> None:
    assert client.ask(Code.SEND_MESSAGE_V2, send(sys_flag=4), b"body").code == 13


# -- the end


def test_a_committed_message_is_delivered(running: InProcess, client: Client) -> None:
    transaction = Transaction(running, client)
    assert transaction.ended(COMMIT) == (0, None)
    delivered = message(running, "t", queue=2)
    half = message(running, HALF)
    assert (delivered.body, delivered.flag, delivered.tags, delivered.keys) == (b"body", 9, "A", "k")
    assert (delivered.queue_id, delivered.sys_flag, delivered.queue_offset) == (2, 8, 0)
    assert delivered.prepared_transaction_offset == transaction.place["commit_log_offset"]
    assert (delivered.born_timestamp, delivered.born_host) == (half.born_timestamp, half.born_host)
    assert half.properties == delivered.properties | {"REAL_TOPIC": "t", "REAL_QID": "2"}
    assert running.services.store.queue_entries("t", 2, 0, 1)[0][2] == 65
    assert running.services.store.query("t", "U1", 9, 0, running.now).count == 1


def test_a_rolled_back_message_is_not_delivered(running: InProcess, client: Client) -> None:
    assert Transaction(running, client).ended(ROLLBACK) == (0, None)
    running.turn(3_000)
    assert (count(running, "t", 2), ops(running)) == (0, [b"0,"])


def test_an_unknown_outcome_gets_no_answer(running: InProcess, client: Client) -> None:
    transaction = Transaction(running, client)
    assert transaction.end(UNKNOWN) is None
    assert transaction.end(UNKNOWN, from_transaction_check=True) is None
    assert transaction.ended(COMMIT) == (0, None)


def test_a_transaction_ends_once(running: InProcess, client: Client) -> None:
    committed, rolled_back = Transaction(running, client), Transaction(running, client, UNIQ_KEY="U2")
    assert committed.ended(COMMIT) == committed.ended(COMMIT) == (0, None)
    assert committed.ended(ROLLBACK) == (1, "The transaction has been committed already")
    assert rolled_back.ended(ROLLBACK) == rolled_back.ended(ROLLBACK) == (0, None)
    assert rolled_back.ended(COMMIT) == (1, "The transaction has been rolled back already")
    assert count(running, "t", 2) == 1
    running.turn(3_000)
    assert ops(running) == [b"0,1,"]
    running.turn(ROUND)
    assert committed.ended(COMMIT)[0] == rolled_back.ended(COMMIT)[0] == 1
    assert count(running, "t", 2) == 1


@pytest.mark.parametrize("kept", [True, False], ids=["remembered", "read from the log"])
def test_ended_transactions_are_counted(running: InProcess, client: Client, kept: bool) -> None:
    counts = MessageCounts()
    running.services.count(counts)
    committed, rolled_back = Transaction(running, client), Transaction(running, client, UNIQ_KEY="U2")
    if not kept:
        running.services.transactions._cache._kept.clear()
    running.now += 4_000
    for _ in range(2):  # a repeated end counts once
        committed.ended(COMMIT)
        rolled_back.ended(ROLLBACK)
    assert (counts.committed, counts.rolled_back, counts.open_halves) == ({"t": 1}, {"t": 1}, {"t": 0})
    assert counts.finish_seconds["t"].total == 4.0


@pytest.mark.parametrize("kept", [True, False], ids=["remembered", "read from the log"])
def test_transactions_end_while_nothing_is_counted(running: InProcess, client: Client, kept: bool) -> None:
    transaction = Transaction(running, client)
    if not kept:
        running.services.transactions._cache._kept.clear()
    assert transaction.ended(COMMIT) == (0, None)


def test_a_committed_message_may_still_be_delayed(running: InProcess, client: Client) -> None:
    transaction = Transaction(running, client, DELAY="1")
    transaction.end(COMMIT)
    assert (count(running, "t", 2), count(running, "SCHEDULE_TOPIC_XXXX")) == (0, 1)
    running.turn(1_000)
    assert message(running, "t", queue=2).body == b"body"


def test_an_end_that_does_not_match_is_refused(running: InProcess, client: Client) -> None:
    """Java's codes and words; the last but one Java lets through."""
    plain = client.ask(Code.SEND_MESSAGE_V2, send(), b"plain")
    one, other = Transaction(running, client), Transaction(running, client, UNIQ_KEY="U2")
    there, end = one.place["commit_log_offset"], running.services.store.max_physical_offset
    not_found = "Find prepared transaction message failed"
    for outcome in (COMMIT, ROLLBACK):
        for wrong, said in (
            ({"producer_group": "q"}, "The producer group wrong"),
            ({"tran_state_table_offset": 1}, "The transaction state table offset wrong"),
            ({"commit_log_offset": other.place["commit_log_offset"]}, "The transaction state table offset wrong"),
            ({"transaction_id": "U2"}, "The transaction id wrong"),
            ({"commit_log_offset": there + 1}, not_found),
            ({"commit_log_offset": end}, not_found),
            ({"commit_log_offset": -1}, not_found),
            ({"commit_log_offset": 1 << 60}, not_found),
            ({"commit_log_offset": int(plain.ext["msgId"][16:], 16), "tran_state_table_offset": 0}, not_found),
        ):
            assert one.ended(outcome, **wrong) == (1, said), wrong
    for outcome in (4, 99, -8):
        assert one.ended(outcome) == (1, "commitOrRollback field wrong")
    assert (count(running, "t", 2), running.services.transactions.table.outcome(0)) == (0, UNKNOWN)
    assert one.ended(COMMIT, transaction_id=None) == (0, None)


def test_a_half_message_inside_a_body_cannot_be_committed(running: InProcess, client: Client) -> None:
    """Somebody sends bytes that look like a half message and knows where they will lie."""
    store = running.services.store
    Transaction(running, client)
    raw = store.record_at_queue(HALF, 0, 0)
    assert raw is not None
    at = store.max_physical_offset + 88  # behind the fixed part of the record that will hold it
    client.ask(Code.SEND_MESSAGE_V2, send(), raw[:20] + bytes(8) + at.to_bytes(8, "big") + raw[36:])
    forged = EndTransaction(producer_group="p", tran_state_table_offset=0, commit_log_offset=at,
                            commit_or_rollback=COMMIT, msg_id="U1")  # fmt: skip
    refused = client.ask(Code.END_TRANSACTION, forged)
    assert (refused.code, refused.remark) == (1, "The commit log offset wrong")


def test_an_end_after_the_immunity_time_is_refused(running: InProcess, client: Client) -> None:
    transaction = Transaction(running, client, CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    running.now += 10_001
    assert transaction.ended(COMMIT)[0] == transaction.ended(ROLLBACK)[0] == 604
    assert transaction.ended(COMMIT, from_transaction_check=True) == (0, None)


def test_a_slave_ends_nothing(tmp_path: Path) -> None:
    with broker(tmp_path) as master:
        transaction = Transaction(master, master.connect())
    with broker(tmp_path, broker_role="SLAVE", broker_id=1) as running:
        transaction.client = running.connect()
        assert transaction.ended(COMMIT)[0] == 11
        running.turn(ROUND)
        assert count(running, HALF) == 1, "nor does it check"


def test_under_sync_flush_only_what_is_on_disk_is_committed(tmp_path: Path, monkeypatch: Any) -> None:
    """Whoever does not wait for the disk (WAIT=false) may be too early; the check follows."""
    with broker(tmp_path, store={"flush_disk_type": "SYNC_FLUSH"}) as running:
        with monkeypatch.context() as patched:
            patched.setattr(running.services.store._flusher, "request", lambda _: None)
            transaction = Transaction(running, running.connect(), WAIT="false")
            code, remark = transaction.ended(COMMIT)
        assert (code, "not on disk yet" in (remark or "")) == (1, True)
        assert running.services.transactions.table.outcome(0) == UNKNOWN


# -- op messages


def test_op_messages_are_batched(running: InProcess, client: Client) -> None:
    for number in range(3):
        Transaction(running, client, UNIQ_KEY=f"U{number}").end(ROLLBACK if number else COMMIT)
    running.turn(2_900)
    assert ops(running) == []
    running.turn(100)
    assert ops(running) == [b"0,1,2,"]
    op = message(running, OP)
    assert (op.tags, op.sys_flag, op.queue_id) == ("d", 0, 0)
    assert running.services.store.queue_entries(OP, 0, 0, 1)[0][2] == 100


def test_a_full_op_message_is_written_at_once(tmp_path: Path) -> None:
    with broker(tmp_path, transaction_op_msg_max_size=10) as running:
        client = running.connect()
        for number in range(12):
            Transaction(running, client, UNIQ_KEY=f"U{number}").end(ROLLBACK)
        assert ops(running) == [b"0,1,2,3,4,", b"5,6,7,8,9,"]


def test_without_an_interval_each_op_message_is_written_at_once(tmp_path: Path) -> None:
    with broker(tmp_path, transaction_op_batch_interval=0) as running:
        Transaction(running, running.connect()).end(COMMIT)
        assert ops(running) == [b"0,"]


def test_op_messages_wait_while_the_store_refuses_writes(running: InProcess, client: Client, monkeypatch: Any) -> None:
    Transaction(running, client).end(ROLLBACK)
    with monkeypatch.context() as patched:
        patched.setattr(running.services.store, "append", refuse)
        running.turn(3_000)
    running.turn(3_000)
    assert ops(running) == [b"0,"]


def test_a_commit_that_cannot_be_stored_leaves_the_transaction_open(
    running: InProcess, client: Client, monkeypatch: Any
) -> None:
    transaction = Transaction(running, client)
    with monkeypatch.context() as patched:
        patched.setattr(running.services.store, "append", refuse)
        assert transaction.ended(COMMIT)[0] == 14
    assert transaction.ended(COMMIT) == (0, None)
    assert count(running, "t", 2) == 1


# -- resuming


def test_a_given_up_half_message_can_be_resumed(tmp_path: Path) -> None:
    with broker(tmp_path, transaction_check_max=0) as running:
        producer = producer_of(running)
        Transaction(running, producer)
        running.turn(10_000 + ROUND)
        given_up = message(running, GIVEN_UP)
        assert questions(producer) == []
    with broker(tmp_path) as again:
        producer = producer_of(again)
        again.now = running.now
        resume = ResumeCheckHalfMessage(topic="t", msg_id=given_up.offset_msg_id)
        assert producer.ask(Code.RESUME_CHECK_HALF_MESSAGE, resume).code == 0
        assert message(again, HALF, 1).properties["TRANSACTION_CHECK_TIMES"] == "0"
        again.turn(ROUND)
        [question] = questions(producer)
        answer(producer, question, COMMIT)
        assert message(again, "t", queue=2).body == b"body"


def test_invalid_resumptions_are_refused(running: InProcess, client: Client) -> None:
    transaction = Transaction(running, client)
    for msg_id in (transaction.msg_id, "nonsense", "", transaction.msg_id[:16] + "0" * 15 + "7"):
        assert client.ask(Code.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessage(msg_id=msg_id)).code == 1
    assert count(running, HALF) == 1


# -- ends nobody hears of, and half messages that are kept


def test_a_oneway_end_runs_after_requests_that_need_an_answer(running: InProcess, client: Client) -> None:
    transaction = Transaction(running, client)
    end = Command(Code.END_TRANSACTION, flag=ONEWAY_FLAG, ext=transaction.header(COMMIT).to_ext())
    sent = Command(Code.SEND_MESSAGE_V2, 1, ext=send(queue_id=2, properties={"UNIQ_KEY": "U2"}).to_ext(), body=b"waits")
    answers = client.read([end, sent])
    assert [answer.code for answer in answers] == [0]
    assert count(running, "t", 2) == 1
    running.turn()
    assert [message(running, "t", offset, 2).body for offset in range(2)] == [b"waits", b"body"]


def test_oneway_ends_are_not_lost_at_shutdown(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        transaction = Transaction(running, running.connect())
        transaction.client.read(
            [Command(Code.END_TRANSACTION, flag=ONEWAY_FLAG, ext=transaction.header(COMMIT).to_ext())]
        )
        assert count(running, "t", 2) == 0
    with broker(tmp_path) as again:
        assert (count(again, "t", 2), ops(again)) == (1, [b"0,"])


def test_one_bad_end_does_not_affect_the_others(running: InProcess, client: Client) -> None:
    first, second = Transaction(running, client), Transaction(running, client, UNIQ_KEY="U2")
    wrong = first.header(COMMIT, producer_group="others")
    client.read(
        [
            Command(Code.END_TRANSACTION, flag=ONEWAY_FLAG, ext=header.to_ext())
            for header in (wrong, second.header(COMMIT))
        ]
    )
    running.turn()
    assert (count(running, "t", 2), message(running, "t", queue=2).properties["UNIQ_KEY"]) == (1, "U2")


@pytest.mark.parametrize("forgotten", [False, True])
def test_cached_and_stored_half_messages_end_the_same(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch, forgotten: bool
) -> None:
    Transaction(running, client, UNIQ_KEY="U0")  # from now on the topic is known, and its messages take the short way
    if forgotten:
        monkeypatch.setattr(HalfMessageCache, "find", lambda *_: None)
    else:
        monkeypatch.setattr(Transactions, "_read_half", lambda *_: pytest.fail("it was read"))
    transaction = Transaction(running, client, KEYS="a b", color="red")
    assert transaction.ended(COMMIT) == (0, None)
    delivered, half = message(running, "t", queue=2), message(running, HALF, 1)
    head = delivered.head
    assert (head.sys_flag, head.flag, head.born_timestamp, head.prepared_transaction_offset) == (
        8, 9, running.now, half.head.physical_offset
    )  # fmt: skip
    wanted = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "U1", "TAGS": "A", "KEYS": "a b", "color": "red"}
    added = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster", "__transactionId__": "U1"}
    assert delivered.properties == wanted | added
    assert half.properties == delivered.properties | {"REAL_TOPIC": "t", "REAL_QID": "2"}
    assert [running.services.store.query("t", key, 9, 0, running.now).count for key in ("U1", "a", "b")] == [1, 1, 1]


def test_the_half_message_cache_is_bounded() -> None:
    record = NewRecord("t", 0, bytes(10_000), b"")
    halves = HalfMessageCache(most_bytes=50_000)
    for place in range(100):
        halves.add(CachedHalfMessage(record, record, "p"), Appended(place, place, 0, 0))
    assert len(halves) == 4
    for place in range(96, 100):
        halves.remove(place)
    assert (len(halves), halves._bytes) == (0, 0)
