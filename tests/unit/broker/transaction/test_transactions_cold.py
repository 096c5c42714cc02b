"""Half messages that are not in memory: a thread loads them, then their transactions are ended or checked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.half_messages import encode_half_positions
from rocketmq_py.protocol.headers.transaction import EndTransactions
from rocketmq_py.wire.command import ONEWAY_FLAG, Command
from tests.unit.broker import cold
from tests.unit.broker.cold import cold_broker, thread
from tests.unit.broker.harness import Client, InProcess
from tests.unit.broker.requests import send
from tests.unit.broker.transaction.transacting import (
    COMMIT,
    HALF,
    ROLLBACK,
    ROUND,
    Transaction,
    count,
    producer_of,
    questions,
)  # fmt: skip

HALVES = 20
READER = "half-read"


def fill(running: InProcess) -> None:
    """Half messages, between larger ones of another topic."""
    client = running.connect()
    for number in range(HALVES):
        Transaction(running, client, b"%d" % number, UNIQ_KEY=f"U{number}")
        assert client.ask(Code.SEND_MESSAGE_V2, send("other"), bytes(700)).code == 0


def transactions(running: InProcess) -> list[Transaction]:
    client = running.connect()
    entries = running.services.store.queue_entries(HALF, 0, 0, HALVES)
    return [Transaction.at(client, f"U{at}", place, at) for at, (place, _, _) in enumerate(entries)]


def test_a_cold_half_message_is_committed_once(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill) as (running, fs):
        one = transactions(running)[7]
        running.services.transactions._update_from_index = lambda *_: None  # type: ignore[method-assign]
        fs.chill()
        header = one.header(COMMIT)
        for _ in range(2):
            assert asyncio.run(cold.answer(one.client, Code.END_TRANSACTION, header)).code == 0
        assert fs.cold_reads == []
        assert count(running, "t", 2) == 1


def test_cold_half_messages_are_committed_together(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill) as (running, fs):
        places = [one.place for one in transactions(running)]
        running.services.transactions._update_from_index = lambda *_: None  # type: ignore[method-assign]
        fs.chill()
        body = encode_half_positions(
            [place["commit_log_offset"] for place in places], [place["tran_state_table_offset"] for place in places]
        )
        header = EndTransactions(producer_group="p", commit_or_rollback=COMMIT)
        found = asyncio.run(cold.answer(running.connect(), Code.END_TRANSACTIONS, header, body))
        assert (found.code, found.body) == (0, b"\1" * HALVES)
        assert fs.cold_reads == []
        assert count(running, "t", 2) == HALVES


def test_a_disk_that_fails_is_an_error_answer_and_leaves_the_transaction_open(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill) as (running, fs):
        one = transactions(running)[7]
        fs.chill()
        fs.failing = {"load"}
        failed = asyncio.run(cold.answer(one.client, Code.END_TRANSACTION, one.header(COMMIT)))
        assert failed.code == ResponseCode.SYSTEM_ERROR
        fs.failing, fs.resident = set(), None
        assert one.ended(COMMIT) == (0, None)
        assert count(running, "t", 2) == 1


# -- transactions that checks have asked about before the restart: the index shows what became of them

ENDS = "end-read"


def fill_checked(running: InProcess) -> None:
    """Half messages, a copy of each by a check, and larger messages of another topic behind them."""
    fill(running)
    producer_of(running)
    running.now += ROUND
    for _ in range(10):
        running.services.tick_store()
    assert count(running, HALF) == 2 * HALVES
    for _ in range(HALVES):
        assert running.connect().ask(Code.SEND_MESSAGE_V2, send("other"), bytes(700)).code == 0


def end_oneway(running: InProcess, one: Transaction, outcome: int) -> None:
    one.client.read([Command(Code.END_TRANSACTION, flag=ONEWAY_FLAG, ext=one.header(outcome).to_ext())])
    running.run_callbacks()


def load(running: InProcess) -> None:
    """Let the thread load until nothing waits for it."""
    while thread(running, ENDS).work:
        thread(running, ENDS).finish()
        running.services.tick_store()


def test_look_ups_of_an_old_half_message_read_nothing_cold(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill_checked) as (running, fs):
        one = transactions(running)[7]
        assert running.services.transactions.table.since > 7
        fs.chill()
        for _ in range(2):
            assert asyncio.run(cold.answer(one.client, Code.END_TRANSACTION, one.header(COMMIT))).code == 0
        assert fs.cold_reads == []
        assert count(running, "t", 2) == 1


def test_a_oneway_end_waits_for_its_look_ups(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill_checked, by_hand=[ENDS]) as (running, fs):
        first, second, third = transactions(running)[6:9]
        fs.chill()
        for one, outcome in ((first, COMMIT), (first, COMMIT), (second, ROLLBACK), (third, COMMIT)):
            end_oneway(running, one, outcome)
        assert count(running, "t", 2) == 0
        load(running)
        assert fs.cold_reads == []
        assert count(running, "t", 2) == 2
        fs.resident = None
        assert [one.ended(ROLLBACK)[0] for one in (first, second, third)] == [1, 0, 1]


def test_a_oneway_end_in_memory_needs_no_thread(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill_checked, by_hand=[ENDS]) as (running, fs):
        fs.resident = None
        end_oneway(running, transactions(running)[7], COMMIT)
        assert thread(running, ENDS).work == []
        assert count(running, "t", 2) == 1


def test_a_oneway_end_is_tried_again_when_the_disk_has_failed(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill_checked, by_hand=[ENDS]) as (running, fs):
        one = transactions(running)[7]
        fs.chill()
        fs.failing = {"load"}
        end_oneway(running, one, COMMIT)
        for _ in range(3):
            thread(running, ENDS).finish()
            running.services.tick_store()
        assert count(running, "t", 2) == 0
        fs.failing = set()
        load(running)
        assert count(running, "t", 2) == 1


def test_a_oneway_end_that_waits_is_not_lost_at_shutdown(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill_checked, by_hand=[ENDS]) as (running, fs):
        one = transactions(running)[7]
        fs.chill()
        end_oneway(running, one, COMMIT)
        assert thread(running, ENDS).work
        running.services.transactions.close()
        assert count(running, "t", 2) == 1


# -- checks


def asked(running: InProcess, producer: Client) -> list[str]:
    """The transactions that a round of checks asks about, by their keys."""
    found = list[str]()
    running.now += ROUND
    for _ in range(10):
        running.services.tick_store()
        found += [question.ext["msgId"] for question in questions(producer)]
        while thread(running, READER).work:
            thread(running, READER).finish()
    return found


ALL = [f"U{number}" for number in range(HALVES)]


def test_cold_half_messages_are_loaded_together_and_checked_once(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[READER]) as (running, fs):
        assert asked(running, producer_of(running)) == ALL
        assert fs.cold_reads == []


def test_a_disk_that_fails_delays_checks_and_skips_none(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[READER]) as (running, fs):
        producer = producer_of(running)
        fs.failing = {"load"}
        assert asked(running, producer) == []
        fs.failing = set()
        assert asked(running, producer) == ALL


@pytest.mark.parametrize("tells", [True, False])
def test_checks_of_half_messages_in_memory_need_no_thread(tmp_path: Path, tells: bool) -> None:
    with cold_broker(tmp_path, fill, by_hand=[READER]) as (running, fs):
        fs.tells_residency = tells
        if tells:
            fs.resident = None
        producer = producer_of(running)
        running.now += ROUND
        running.services.tick_store()
        assert thread(running, READER).work == []
        assert [question.ext["msgId"] for question in questions(producer)] == ALL


def test_half_messages_that_another_reader_has_loaded_meanwhile_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cold_broker(tmp_path, fill, by_hand=[READER]) as (running, fs):
        producer = producer_of(running)
        looks_ahead = running.services.store.queue_entries

        def entries(*where: Any) -> Any:
            fs.resident = None
            return looks_ahead(*where)

        monkeypatch.setattr(running.services.store, "queue_entries", entries)
        assert asked(running, producer) == ALL
