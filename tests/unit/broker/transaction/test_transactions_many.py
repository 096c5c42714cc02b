"""Transactions: open half messages for others, many ends at once, and what a start takes over."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.broker.transaction import transactions as transactions_module
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.headers.transaction import EndTransactions
from rocketmq_py.store import NewRecord
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.transaction.transacting import (
    COMMIT,
    HALF,
    OP,
    ROLLBACK,
    UNKNOWN,
    Transaction,
    count,
    message,
    ops,
    refuse,
)


def told(running: InProcess) -> dict[int, NewRecord | None]:
    """The open half messages, each done with at once."""
    found = {}
    for half, record in running.services.transactions.open_halves():
        found[half] = record
        running.services.transactions.table.advance(half + 1)
    return found


# -- what the acting master asks: open half messages, as their producers sent them


def test_open_half_messages_are_restored_as_their_producer_sent_them(running: InProcess, client: Client) -> None:
    first, *_ = (Transaction(running, client, f"body {n}".encode(), UNIQ_KEY=f"U{n}") for n in range(3))
    first.end(COMMIT)
    found = told(running)
    assert found.keys() == {1, 2}
    record = found[1]
    assert record is not None
    assert (record.topic, record.queue_id, record.body, record.flag, record.uniq_key, record.keys) == (
        "t", 2, b"body 1", 9, "U1", "k",
    )  # fmt: skip
    assert record.sys_flag & 0xC == 4, "a half message again"
    assert (record.prepared_transaction_offset, record.reconsume_times) == (0, 0)
    properties = decode_properties(record.properties)
    assert properties["TRAN_MSG"] == "true"
    assert not {"REAL_TOPIC", "REAL_QID", "TRAN_PREPARED_QUEUE_OFFSET"} & properties.keys()
    assert properties["PGROUP"] == "p"
    assert record.tags_code == 65, 'the hash of "A"'
    assert told(running) == {}, "each is told once"


def test_a_half_message_without_its_queue_goes_to_queue_0(running: InProcess, client: Client) -> None:
    """And one without its topic stays in the half topic."""
    Transaction(running, client)
    raw = running.services.store.record_at_queue(HALF, 0, 0)
    assert raw is not None
    stored = read_stored(raw)
    bare = transactions_module._as_sent(stored._replace(properties=b"KEYS\x01k\x02"))
    assert (bare.topic, bare.queue_id, decode_properties(bare.properties)) == (
        HALF, 0, {"KEYS": "k", "TRAN_MSG": "true"},
    )  # fmt: skip


@pytest.mark.parametrize("found", [None, b"no record"])
def test_an_open_half_message_that_cannot_be_read_is_passed_over(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    found: bytes | None,
) -> None:  # fmt: skip
    for number in range(2):
        Transaction(running, client, UNIQ_KEY=f"U{number}")
    store = running.services.store
    read = store.record_at_queue
    monkeypatch.setattr(store, "record_at_queue", lambda topic, queue, at: found if at == 0 else read(topic, queue, at))
    halves = told(running)
    assert halves.keys() == {0, 1}
    assert halves[0] is None
    assert halves[1] is not None
    said = "skipping the half message at queue offset 0, it cannot be read"
    assert caplog.text.count(said) == (0 if found is None else 1)


# -- the start


def test_offsets_beyond_the_queues_are_corrected_at_the_start(tmp_path: Path) -> None:
    """After a crash the queues may end before the offset that was committed, or begin after it."""
    with broker(tmp_path) as running:
        client = running.connect()
        for number in range(3):
            Transaction(running, client, UNIQ_KEY=f"U{number}").end(ROLLBACK)
        running.services.transactions.write_ops()
    for committed, expected in ((99, 3), (2, 2), (-5, 0)):
        with broker(tmp_path) as running:
            offsets = running.services.offsets
            offsets.commit("CID_RMQ_SYS_TRANS", HALF, 0, committed, "here")
            running.services.transactions.load()
            assert running.services.transactions._start_offset(HALF) == expected


def test_half_messages_that_ended_before_a_restart_stay_ended(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        client = running.connect()
        ended, still_open = (Transaction(running, client, UNIQ_KEY=f"U{n}") for n in range(2))
        assert ended.ended(COMMIT)[0] == 0
    with broker(tmp_path) as running:
        client = running.connect()
        again = Transaction.at(client, "U1", still_open.place["commit_log_offset"], 1)
        assert again.ended(COMMIT)[0] == 0
        assert count(running, "t", 2) == 2
        assert told(running) == {}


# -- op messages


@pytest.mark.parametrize(("passed", "written"), [(2_999, 0), (3_000, 1)])
def test_ends_are_written_together_after_three_seconds(
    running: InProcess, client: Client, passed: int, written: int
) -> None:
    running.services.transactions.write_ops()
    for number in range(2):
        Transaction(running, client, UNIQ_KEY=f"U{number}").end(COMMIT)
    running.services.transactions.tick(running.now + passed)
    assert ops(running) == [b"0,1,"] * written
    running.services.transactions.tick(running.now + passed + 10_000)
    running.services.transactions.tick(running.now + passed + 90_000)
    assert ops(running) == [b"0,1,"]
    assert message(running, OP).tags == "d"


def test_a_warning_about_op_messages_is_repeated_after_a_success(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    transactions = running.services.transactions
    for number in range(2):
        Transaction(running, client, UNIQ_KEY=f"U{number}").end(ROLLBACK)
        with monkeypatch.context() as patched:
            patched.setattr(running.services.store, "append", refuse)
            for _ in range(3):
                transactions.write_ops()
        assert caplog.text.count("the op messages of 1 transactions wait") == number + 1
        transactions.write_ops()
    assert ops(running) == [b"0,", b"1,"]


# -- many at once


class Many:
    """Three half messages of the same form, adjacent in the log, and requests that end all of them."""

    def __init__(self, running: InProcess, client: Client, group: str = "p") -> None:
        self.running = running
        self.all = [Transaction(running, client, UNIQ_KEY=f"U{n}") for n in range(3)]
        self.places = [one.place["commit_log_offset"] for one in self.all]
        self.group = group

    def end(self, outcome: int, places: list[int] | None = None, in_order: bool = False) -> bytes:
        header = EndTransactions(producer_group=self.group, commit_or_rollback=outcome, in_order=in_order)
        steps = self.running.services.transactions.end_all(header, places or self.places, [0, 1, 2], "peer")
        self.steps = 0
        while True:
            try:
                next(steps)
            except StopIteration as result:
                return cast("bytes", result.value)
            self.steps += 1

    @property
    def delivered(self) -> list[bytes]:
        return [message(self.running, "t", at, 2).body for at in range(count(self.running, "t", 2))]


@pytest.fixture
def many(running: InProcess, client: Client) -> Many:
    return Many(running, client)


@pytest.mark.parametrize(("outcome", "delivered"), [(COMMIT, 3), (ROLLBACK, 0)])
def test_adjacent_half_messages_end_together(many: Many, outcome: int, delivered: int) -> None:
    assert many.end(outcome) == b"\1\1\1"
    assert many.delivered == [b"body"] * delivered
    many.running.services.transactions.write_ops()
    assert ops(many.running) == [b"0,1,2,"]
    other = {COMMIT: ROLLBACK, ROLLBACK: COMMIT}[outcome]
    assert many.end(outcome) == b"\1\1\1", "as before"
    assert many.end(other) == b"\0\0\0"
    assert many.delivered == [b"body"] * delivered


def test_those_that_end_together_are_one_step(many: Many, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many.running.services.transactions, "_end_adjacent", lambda *_: True)
    assert many.end(COMMIT) == b"\1\1\1"
    assert many.steps == 1


def test_if_one_has_ended_the_others_are_ended_one_by_one(many: Many) -> None:
    assert many.all[1].ended(ROLLBACK)[0] == 0
    assert many.end(COMMIT) == b"\1\0\1"
    assert many.steps == 3, "a request with thousands of them is handled in several turns of the event loop"
    assert len(many.delivered) == 2


def test_in_order_nothing_is_ended_after_the_first_failure(many: Many) -> None:
    assert many.all[1].ended(ROLLBACK)[0] == 0
    assert many.end(COMMIT, in_order=True) == b"\1\0"
    assert len(many.delivered) == 1
    assert many.all[2].ended(COMMIT)[0] == 0


def test_places_that_are_no_half_messages_end_nothing(many: Many, caplog: pytest.LogCaptureFixture) -> None:
    assert many.end(COMMIT, [place + 1 for place in many.places]) == b"\0\0\0"
    assert many.delivered == []
    assert f"the half message at {many.places[0] + 1} cannot be ended for peer" in caplog.text
    assert many.end(COMMIT) == b"\1\1\1"


def test_half_messages_of_another_group_are_not_ended(many: Many) -> None:
    many.group = "other"
    assert many.end(COMMIT) == b"\0\0\0"
    assert many.delivered == []


def test_a_batch_that_cannot_be_stored_is_ended_one_by_one(many: Many, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many.running.services.store, "append_uniform", refuse)
    assert many.end(COMMIT) == b"\1\1\1"
    assert len(many.delivered) == 3


def test_neither_a_slave_nor_an_unknown_outcome_ends_many(many: Many) -> None:
    assert many.end(UNKNOWN) == b"\0\0\0"
    many.running.config.broker_role = "SLAVE"
    assert many.end(COMMIT) == b"\0\0\0"
    many.running.config.broker_role = "ASYNC_MASTER"
    assert many.delivered == []
