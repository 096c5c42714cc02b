"""Batches of half messages and their ends are stored like single ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.half_messages import decode_offsets, encode_half_positions
from rocketmq_py.protocol.headers.transaction import EndTransactions
from rocketmq_py.wire.batch import encode_batch
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import send
from tests.unit.broker.transaction.transacting import COMMIT, HALF, ROLLBACK, Transaction, count, message, refuse

Places = list[tuple[int, int]]
OWN = {"TRAN_MSG": "true", "PGROUP": "p", "TAGS": "A", "KEYS": "k"}


def batch(*bodies: bytes, **more: str) -> bytes:
    own = [encode(OWN | {"UNIQ_KEY": f"U{i}"} | more).encode() for i in range(len(bodies))]
    return encode_batch((9, body, properties) for body, properties in zip(bodies, own, strict=True))


def halves(client: Client, *bodies: bytes, **more: str) -> Places:
    """Stores half messages; where they are."""
    answer = client.ask(Code.SEND_HALF_MESSAGES, send(queue_id=2, sys_flag=4, batch=True), batch(*bodies, **more))
    assert (answer.code, answer.ext["queueId"]) == (0, "2"), answer.remark
    first = int(answer.ext["queueOffset"])
    return [(place, first + i) for i, place in enumerate(decode_offsets(answer.body))]


def told(places: Places) -> bytes:
    return encode_half_positions([place for place, _ in places], [offset for _, offset in places])


def end(client: Client, places: Places, outcome: int = COMMIT, **more: Any) -> bytes:
    header = EndTransactions(producer_group="p", commit_or_rollback=outcome, **more)
    answer = client.ask(Code.END_TRANSACTIONS, header, told(places))
    assert answer.code == 0
    return answer.body


def bodies(running: InProcess) -> list[bytes]:
    return [message(running, "t", offset, 2).body for offset in range(count(running, "t", 2))]


@pytest.mark.parametrize("kept", [True, False], ids=["remembered", "read from the log"])
@pytest.mark.parametrize("more", [{}, {"REAL_QID": "1"}], ids=["common", "in a transaction before"])
def test_a_batch_is_stored_and_ended_like_single_half_messages(
    running: InProcess, client: Client, more: dict[str, str], kept: bool
) -> None:
    single = Transaction(running, client, b"0", UNIQ_KEY="U0", **more)
    places = halves(client, b"0", b"1", b"2", **more)
    if not kept:
        running.services.sender._halves._kept.clear()
    same = ("topic", "queue_id", "body", "properties", "sys_flag", "flag")
    one, other = message(running, HALF), message(running, HALF, 1)
    assert [getattr(one, name) for name in same] == [getattr(other, name) for name in same]
    assert [message(running, HALF, offset).commit_log_offset for _, offset in places] == [place for place, _ in places]
    assert single.ended(COMMIT) == (0, None)
    assert end(client, places) == b"\x01\x01\x01"
    assert bodies(running) == [b"0", b"0", b"1", b"2"]
    one, other = message(running, "t", 0, 2), message(running, "t", 1, 2)
    assert [getattr(one, name) for name in same] == [getattr(other, name) for name in same]
    assert other.prepared_transaction_offset == places[0][0]


def test_each_transaction_of_a_batch_ends_once(running: InProcess, client: Client) -> None:
    places = halves(client, b"0", b"1", b"2", b"3")
    assert end(client, places[1:2], ROLLBACK) == b"\x01"
    assert end(client, [*places[:3], (17, 99)]) == b"\x01\x00\x01\x00"
    assert end(client, places) == b"\x01\x00\x01\x01"
    assert bodies(running) == [b"0", b"2", b"3"]


def test_in_order_mode_stops_at_the_first_failure(running: InProcess, client: Client) -> None:
    places = halves(client, b"0", b"1", b"2")
    end(client, places[1:2], ROLLBACK)
    assert end(client, places, in_order=True) == b"\x01\x00"
    assert bodies(running) == [b"0"]


def test_a_batch_of_another_group_ends_nothing(running: InProcess, client: Client) -> None:
    places = halves(client, b"0")
    header = EndTransactions(producer_group="q", commit_or_rollback=COMMIT)
    assert client.ask(Code.END_TRANSACTIONS, header, told(places)).body == b"\x00"
    assert bodies(running) == []


@pytest.mark.parametrize(
    "body",
    [
        b"this is no batch",
        b"",
        batch(b"good", b""),
        batch(b"good", b"x" * (4 * 1024 * 1024 + 1)),
        batch(b"good") + encode_batch([(0, b"asks for no transaction", b"UNIQ_KEY\x01U\x02")]),
    ],
    ids=["no batch", "empty", "empty body", "too large", "no transaction"],
)
def test_no_message_of_an_invalid_batch_is_stored(running: InProcess, client: Client, body: bytes) -> None:
    answer = client.ask(Code.SEND_HALF_MESSAGES, send(queue_id=2, sys_flag=4, batch=True), body)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert (count(running, HALF), count(running, "t", 2)) == (0, 0)


def test_a_failing_store_leaves_transactions_open(running: InProcess, client: Client, monkeypatch: Any) -> None:
    places = halves(client, b"0", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(running.services.store, "append", refuse)
        assert end(client, places) == b"\x00\x00"
    assert end(client, places) == b"\x01\x01"


def test_slaves_and_brokers_without_transactions_refuse_batches(tmp_path: Path) -> None:
    for number, (settings, code) in enumerate(
        [({"reject_transaction_message": True}, 16), ({"broker_role": "SLAVE", "broker_id": 1}, 2)]
    ):
        with broker(tmp_path / str(number), **settings) as running:
            client = running.connect()
            header = send(queue_id=2, sys_flag=4, batch=True)
            assert client.ask(Code.SEND_HALF_MESSAGES, header, batch(b"0")).code == code


@pytest.mark.parametrize("body", [b"x", b"x" * 8, b"x" * 15, b"x" * 25])
def test_a_malformed_list_of_positions_is_refused(
    running: InProcess, client: Client, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    header = EndTransactions(producer_group="p", commit_or_rollback=COMMIT)
    answer = client.ask(Code.END_TRANSACTIONS, header, body)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert f"{len(body)} bytes are not a list of" in str(answer.remark)
    assert not caplog.records


def test_a_request_ends_at_most_2048_transactions(running: InProcess, client: Client) -> None:
    assert end(client, [(7, 0)] * 2048) == bytes(2048)
    header = EndTransactions(producer_group="p", commit_or_rollback=COMMIT)
    refused = client.ask(Code.END_TRANSACTIONS, header, told([(7, 0)] * 2049))
    assert (refused.code, refused.remark) == (
        ResponseCode.INVALID_PARAMETER,
        "2049 transactions are too many for one request: at most 2048 can be ended at once",
    )
