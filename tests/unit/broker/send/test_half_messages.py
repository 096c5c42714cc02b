"""Half messages of one form are stored and ended together, with the same result as one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.broker.send.half_messages import HalfMessageCache
from rocketmq_py.core.metrics.counters import MessageCounts
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.half_messages import decode_offsets, encode_half_positions
from rocketmq_py.protocol.headers.transaction import EndTransactions
from rocketmq_py.wire.batch import encode_batch
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.requests import send
from tests.unit.broker.transaction.transacting import (
    COMMIT,
    HALF,
    OP,
    ROLLBACK,
    ROUND,
    answer,
    count,
    crash,
    message,
    ops,
    producer_of,
    questions,
    refuse,
)

Rows = list[tuple[bytes, dict[str, str]]]
OWN = {"TRAN_MSG": "true", "PGROUP": "p", "QUERY": "q"}


def rows(number: int, first: int = 0, **more: str) -> Rows:
    """Rows that are alike; ``{i}`` in a value is the number of the row."""
    return [
        (b"body %03d" % i, {name: text.format(i=i) for name, text in {**OWN, "UNIQ_KEY": "U{i:03}", **more}.items()})
        for i in range(first, first + number)
    ]


def changed(found: Rows, at: int, body: bytes | None = None, **more: str) -> Rows:
    """The same with another row at one place."""
    old, own = found[at]
    found[at] = (old if body is None else body, own | more)
    return found


ALIKE = {
    "plain": rows(9),
    "with what a row has": rows(9, TAGS="A", KEYS="k{i:03} all", ROW="0-{i:09}"),
    "a name that only looks like one that matters": rows(9, XPGROUP="{i:03}"),
}
DIFFERENT = {
    "a name that looks too much like one": rows(9, XTRAN_MSG="{i:03}"),
    "three": rows(3),
    "keys of other lengths": rows(12, KEYS="k{i}"),
    "bodies of other lengths": changed(rows(9), 4, b"longer than the others"),
    "another tag": changed(rows(9, TAGS="A"), 4, TAGS="B"),
    "made to wait": rows(9, DELAY="1"),
    "immune": rows(9, CHECK_IMMUNITY_TIME_IN_SECONDS="30"),
    "in a transaction before": rows(9, REAL_QID="1"),
    "without a key": [(body, OWN) for body, _ in rows(9)],
    "another property": changed(rows(9), 8, more="1"),
}


@pytest.fixture
def single(tmp_path: Path) -> Any:
    """Another broker, which is told of everything one by one."""
    with broker(tmp_path / "single") as opened:
        yield opened


def stored(client: Client, found: Rows, first: int = 0, **header: Any) -> list[tuple[int, int]]:
    """Sends half messages in one batch; where they are."""
    body = encode_batch((9, body, encode(own).encode()) for body, own in found)
    fields = send(queue_id=2, sys_flag=4, batch=True, born_timestamp=START_MS, properties={}, **header)
    answered = client.ask(Code.SEND_HALF_MESSAGES, fields, body)
    assert answered.code == 0, answered.remark
    assert int(answered.ext["queueOffset"]) == first
    return [(place, first + i) for i, place in enumerate(decode_offsets(answered.body))]


def stored_singly(client: Client, found: Rows) -> list[tuple[int, int]]:
    places = []
    for body, own in found:
        fields = send(queue_id=2, sys_flag=4, flag=9, born_timestamp=START_MS, properties=own)
        answered = client.ask(Code.SEND_MESSAGE_V2, fields, body)
        places.append((int(answered.ext["msgId"][16:], 16), int(answered.ext["queueOffset"])))
    return places


def end(client: Client, places: list[tuple[int, int]], outcome: int = COMMIT, **more: Any) -> bytes:
    header = EndTransactions(**{"producer_group": "p", "commit_or_rollback": outcome} | more)
    body = encode_half_positions([place for place, _ in places], [offset for _, offset in places])
    answered = client.ask(Code.END_TRANSACTIONS, header, body)
    assert answered.code == 0
    return answered.body


def records(running: InProcess, topic: str, queue: int = 0) -> list[bytes | None]:
    """The bytes of all records of a queue."""
    store = running.services.store
    return [store.record_at_queue(topic, queue, offset) for offset in range(count(running, topic, queue))]


def bodies(running: InProcess) -> list[bytes]:
    return [message(running, "t", offset, 2).body for offset in range(count(running, "t", 2))]


@pytest.mark.parametrize("name", ALIKE | DIFFERENT)
def test_batch_storage_equals_single_storage(running: InProcess, single: InProcess, client: Client, name: str) -> None:
    found, one_by_one = (ALIKE | DIFFERENT)[name], single.connect()
    places = stored(client, found)
    if "UNIQ_KEY" in found[0][1]:  # otherwise brokers make keys, each its own
        assert stored_singly(one_by_one, found) == places
        assert records(running, HALF) == records(single, HALF)
    else:
        stored_singly(one_by_one, found)
    for running_, client_ in ((running, client), (single, one_by_one)):
        sizes = [1] * len(places) if running_ is single else [len(places)]
        for at in range(0, len(places), sizes[0]):
            assert end(client_, places[at : at + sizes[0]]) == b"\x01" * sizes[0]
        running_.services.transactions.write_ops()
    assert bodies(running) == bodies(single)
    if "UNIQ_KEY" in found[0][1]:
        assert records(running, "t", 2) == records(single, "t", 2)
        assert records(running, OP) == records(single, OP)
    assert ops(running) == ops(single)


@pytest.mark.parametrize("name", ["plain", "three"], ids=["together", "one by one"])
def test_stored_and_ended_half_messages_are_counted(running: InProcess, client: Client, name: str) -> None:
    found, counts = (ALIKE | DIFFERENT)[name], MessageCounts()
    running.services.count(counts)
    places = stored(client, found)
    sizes = sum(len(record or b"") for record in records(running, HALF))
    flow = counts.received[HALF, "transaction"]
    assert (flow.messages, flow.size, counts.open_halves) == (len(found), sizes, {"t": len(found)})
    running.now += 4_000
    end(client, places[:1], ROLLBACK)
    end(client, places[1:])
    assert (counts.rolled_back, counts.committed, counts.open_halves) == ({"t": 1}, {"t": len(found) - 1}, {"t": 0})
    assert counts.finish_seconds["t"].total == 4.0 * (len(found) - 1)


def test_half_messages_of_other_forms_are_in_the_cache(running: InProcess, client: Client) -> None:
    stored(client, DIFFERENT["three"])
    assert len(running.services._halves) == 3


@pytest.mark.parametrize("name", ALIKE)
def test_messages_of_the_same_form_are_stored_and_ended_together(
    running: InProcess, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for way in ("append", "append_many"):
        monkeypatch.setattr(running.services.store, way, refuse)
    monkeypatch.setattr(running.services.transactions, "end", refuse)
    places = stored(client, ALIKE[name])
    assert end(client, places[2:7]) == b"\x01" * 5
    assert end(client, places[:2] + places[7:], ROLLBACK) == b"\x00" * 4, "two and two are too few"
    monkeypatch.undo()
    assert bodies(running) == [body for body, _ in ALIKE[name][2:7]]
    assert end(client, places[:2] + places[7:], ROLLBACK) == b"\x01" * 4


def test_batch_messages_are_indexed_by_key(running: InProcess, client: Client) -> None:
    places = stored(client, rows(9, KEYS="k{i:03} all", TAGS="A"))
    end(client, places)
    running.services.store.commit_pending()
    query = running.services.store.query
    assert query(HALF, "U004", 10, 0, 1 << 60).count == 1
    assert query("t", "U004", 10, 0, 1 << 60).count == 1
    assert query("t", "all", 20, 0, 1 << 60).count == 9
    assert message(running, "t", 4, 2).prepared_transaction_offset == places[4][0]


def test_transactions_ended_singly_are_not_ended_with_the_batch(running: InProcess, client: Client) -> None:
    places = stored(client, rows(9))
    assert end(client, places[4:5], ROLLBACK) == b"\x01"
    assert end(client, places) == b"\x01" * 4 + b"\x00" + b"\x01" * 4
    assert end(client, places, ROLLBACK) == b"\x00" * 4 + b"\x01" + b"\x00" * 4
    assert [int(body[5:]) for body in bodies(running)] == [0, 1, 2, 3, 5, 6, 7, 8]


def test_each_half_message_is_ended_once(running: InProcess, client: Client) -> None:
    places = stored(client, rows(9))
    assert end(client, places) == end(client, places) == b"\x01" * 9
    assert len(bodies(running)) == 9


def test_two_batches_of_different_form_are_stored(running: InProcess, client: Client) -> None:
    places = stored(client, rows(6)) + stored(client, rows(6, 6), 6, reconsume_times=1)
    assert end(client, places) == b"\x01" * 12
    assert [int(body[5:]) for body in bodies(running)] == list(range(12))
    assert [message(running, "t", offset, 2).reconsume_times for offset in (5, 6)] == [0, 1]


def test_another_group_cannot_end_the_batch(running: InProcess, client: Client) -> None:
    places = stored(client, rows(9))
    assert end(client, places, producer_group="q") == b"\x00" * 9
    mixed = stored(client, changed(rows(9), 4, PGROUP="x"), 9)
    assert end(client, mixed) == b"\x01" * 4 + b"\x00" + b"\x01" * 4
    assert end(client, mixed[4:5], producer_group="x") == b"\x01"
    assert len(bodies(running)) == 9


@pytest.mark.parametrize("wrong", ["place", "offset", "both", "size"])
def test_wrong_positions_end_nothing(running: InProcess, client: Client, wrong: str) -> None:
    places = stored(client, rows(9))
    size = places[1][0] - places[0][0]
    pushed = {
        "place": [(place + size, offset) for place, offset in places],
        "offset": [(place, offset + 1) for place, offset in places],
        "both": [(place + size * 50, offset + 50) for place, offset in places],
        "size": [(i * (size - 1), offset) for i, (_, offset) in enumerate(places)],
    }[wrong]
    good = wrong == "size"  # the first one is what it says it is
    assert end(client, pushed) == bytes([good]) + b"\x00" * 8
    assert len(bodies(running)) == good


def test_a_body_that_looks_like_half_messages_is_refused(running: InProcess, client: Client) -> None:
    stored(client, rows(9))
    fake = b"".join(bytes(record or b"") for record in records(running, HALF))
    client.ask(Code.SEND_MESSAGE_V2, send(queue_id=1), fake)
    begin = message(running, "t", 0, 1).commit_log_offset + 88
    size = len(fake) // 9
    assert end(client, [(begin + i * size, i) for i in range(9)]) == b"\x00" * 9
    assert bodies(running) == []


def test_a_checked_half_message_is_ended_at_its_new_position(running: InProcess, client: Client) -> None:
    producer = producer_of(running)
    places = stored(client, rows(9))
    running.turn(ROUND)
    asked = questions(producer)
    assert len(asked) == 9
    answer(producer, asked[3], ROLLBACK)
    assert end(client, places) == b"\x01" * 3 + b"\x00" + b"\x01" * 5
    assert len(bodies(running)) == 8
    for _ in range(3):
        running.turn(ROUND)
    assert questions(producer) == []


@pytest.mark.parametrize("crashes", [False, True])
def test_a_batch_can_be_ended_after_a_restart(tmp_path: Path, crashes: bool) -> None:
    running = InProcess(tmp_path)
    client = running.connect()
    places = stored(client, rows(20))
    end(client, places[6:10], ROLLBACK)
    running.services.transactions.write_ops()
    end(client, places[:6])
    if crashes:
        crash(running)
    else:
        running.services.close()
    with broker(tmp_path) as running:
        told_before = bytes([crashes]) * 6  # the log tells of a commit after a crash, and says so
        assert end(running.connect(), places) == told_before + b"\x00" * 4 + b"\x01" * 10
        assert sorted(bodies(running)) == sorted(body for body, _ in rows(6) + rows(10, 10))


def test_a_failing_store_leaves_transactions_open(running: InProcess, client: Client, monkeypatch: Any) -> None:
    places = stored(client, rows(9))
    with monkeypatch.context() as patch:
        for way in ("append", "append_uniform"):
            patch.setattr(running.services.store, way, refuse)
        assert end(client, places) == b"\x00" * 9
        assert end(client, places, in_order=True) == b"\x00"
    assert end(client, places) == b"\x01" * 9
    assert len(bodies(running)) == 9


def test_half_messages_are_refused_with_too_few_replicas(tmp_path: Path) -> None:
    pair = {
        "broker_role": "SYNC_MASTER",
        "in_sync_replicas": 2,
        "total_replicas": 2,
        "enable_slave_acting_master": True,
    }
    with broker(tmp_path, **pair) as running:
        body = encode_batch((9, body, encode(own).encode()) for body, own in rows(9))
        answered = running.connect().ask(Code.SEND_HALF_MESSAGES, send(queue_id=2, sys_flag=4, batch=True), body)
        assert (answered.code, answered.remark) == (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")
        assert count(running, HALF) == 0


def test_half_messages_may_take_64_mebibytes_of_memory() -> None:
    assert HalfMessageCache()._most_bytes == 64 * 1024 * 1024
