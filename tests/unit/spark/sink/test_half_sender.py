"""Half messages and their ends: in batches where a broker takes them, one by one where it does not. No Spark needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode
from rocketmq_py.arrow.remoting.connection import BlockingConnections
from rocketmq_py.arrow.sink.blocks import Block
from rocketmq_py.arrow.sink.rows import RowMessage
from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.errors import ConnectionLost
from rocketmq_py.model import MessageQueue
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.half_messages import decode_half_positions, encode_offsets
from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT
from rocketmq_py.spark.sink.end_transactions import TransactionEnds
from rocketmq_py.spark.sink.half_sender import HalfMessages, HalfSender, SentHalf
from rocketmq_py.wire.batch import decode_batch, encode_batch
from rocketmq_py.wire.command import Command
from tests.unit.arrow.scripted import ScriptedPeer, answer, scripted

IN_BLOCKS = pytest.mark.parametrize("in_blocks", [True, False], ids=["columns", "rows"])
NOT_SUPPORTED = answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=" request type 300320 not supported")


class Log:
    """Keeps half messages by their place: one that takes no batches, or does something else with its n-th answer."""

    def __init__(self, in_batches: bool = True, at: int = 0, instead: Command | None = None) -> None:
        self.in_batches, self.at, self.instead = in_batches, at, instead
        self.stored: list[tuple[bytes, dict[str, str]]] = []
        self.requests: list[int] = []

    def __call__(self, request: Command) -> Command | None:
        self.requests.append(request.code)
        if request.code == RequestCode.SEND_HALF_MESSAGES:
            if not self.in_batches:
                return NOT_SUPPORTED
            found = [(body, own) for _, body, own in decode_batch(request.body)]
        else:
            found = [(request.body, request.ext["i"].encode())]
        if any(len(body) > 5 for body, _ in found) and request.ext["b"] != "%DLQ%g":
            return answer(ResponseCode.MESSAGE_ILLEGAL, remark="the message is too large")
        first = len(self.stored)
        self.stored += [(body, decode_properties(own)) for body, own in found]
        if len(self.requests) == self.at:
            return self.instead
        places = [number * 100 for number in range(first, len(self.stored))]
        if request.code == RequestCode.SEND_HALF_MESSAGES:
            return answer(body=encode_offsets(places), queueId=request.ext["e"], queueOffset=first)
        return answer(msgId=f"{0:016X}{places[0]:016X}", queueId=request.ext["e"], queueOffset=first)

    def at_place(self, half: SentHalf) -> tuple[bytes, dict[str, str]]:
        assert half.commit_log_offset == half.table_offset * 100
        return self.stored[half.table_offset]


def settings(peer: ScriptedPeer, **more: Any) -> SendSettings:
    common = {"producer_group": "g", "timeout": 5, "retries": 5, "in_flight": 4, "max_batch_bytes": 5_000}
    return SendSettings(namesrv=(peer.address,), **common | more)


@pytest.fixture
def keys() -> Iterator[str]:
    return (f"again-{number}" for number in count())


def row(i: int, key: str | None = None) -> RowMessage:
    unique = f"key-{i}"
    own = f"UNIQ_KEY\x01{unique}\x02SPARK_ROW_KEY\x010-{i}\x02".encode()
    return RowMessage("T", b"%d" % i, own, key, None, f"0-{i}", unique)


def send(
    peer: ScriptedPeer,
    keys: Iterator[str],
    rows: list[RowMessage],
    mode: Mode = Mode.FAILFAST,
    *,
    in_blocks: bool = False,
) -> HalfSender:
    sender = HalfSender(settings(peer), lambda: next(keys), BadRecordPolicy(mode, "%DLQ%g"))
    try:
        for place in blocks(rows, sender) if in_blocks else []:
            sender.send_block(place)
        for one in [] if in_blocks else rows:
            sender.send(one)
        sender.flush()
    finally:
        sender.close()
    return sender


def blocks(rows: list[RowMessage], sender: HalfSender) -> Iterator[Block]:
    """The rows as blocks of up to a hundred, one for each queue they are bound to and one of those that are free."""
    for at in range(0, len(rows), 100):
        places: dict[MessageQueue | None, list[bytes]] = {}
        for one in rows[at : at + 100]:
            bound = sender.bound(one.topic, one.sharding_key, one.queue_id)
            places.setdefault(bound, []).append(encode_batch([(0, one.body, sender.prefix + one.properties)]))
        for bound, encoded in places.items():
            ends = np.cumsum([0, *map(len, encoded)])
            yield Block("T", bound, memoryview(b"".join(encoded)), ends)


def packed(halves: Iterable[SentHalf]) -> HalfMessages:
    found = HalfMessages()
    for half in halves:
        found.add(half.broker, half.order, half.commit_log_offset, half.table_offset)
    return found


@IN_BLOCKS
@pytest.mark.parametrize("in_batches", [True, False])
def test_half_messages_are_at_the_reported_offsets(keys: Iterator[str], in_batches: bool, in_blocks: bool) -> None:
    log = Log(in_batches)
    with scripted(log, queues=4) as peer:
        rows = [row(i, f"k{i % 3}" if i % 2 else None) for i in range(1200)]
        sender = send(peer, keys, rows, in_blocks=in_blocks)
    halves = list(sender.halves())
    assert sorted(int(log.at_place(half)[0]) for half in halves) == list(range(1200))
    ordered = [int(log.at_place(half)[0]) for half in halves if half.order is not None]
    assert [i for i in ordered if i % 3 == 0] == list(range(3, 1200, 6)), "in the order of the rows"
    assert all(own["PGROUP"] == "g" and own["TRAN_MSG"] == "true" for _, own in log.stored)
    assert len(log.stored) == 1200
    singles = log.requests.count(RequestCode.SEND_MESSAGE_V2)
    assert singles == (0 if in_batches else 1200)
    assert log.requests.count(RequestCode.SEND_HALF_MESSAGES) < 60, "who takes no batches is asked a few times only"


@pytest.mark.parametrize(
    "instead", [None, answer(ResponseCode.FLUSH_DISK_TIMEOUT, remark="slow disk")], ids=["cut", "unsafe"]
)
@IN_BLOCKS
def test_a_repeated_half_message_counts_once(keys: Iterator[str], instead: Command | None, in_blocks: bool) -> None:
    log = Log(at=2, instead=instead)
    with scripted(log, queues=2) as peer:
        sender = send(peer, keys, [row(i) for i in range(300)], in_blocks=in_blocks)
    found = [log.at_place(half) for half in sender.halves()]
    assert sorted(int(body) for body, _ in found) == list(range(300))
    assert len(log.stored) > 300
    for body, own in found:
        assert own["UNIQ_KEY"] == sender.resent.get(f"0-{int(body)}", f"key-{int(body)}")
    assert 0 < len(sender.resent) < 300


@IN_BLOCKS
def test_a_refused_half_message_does_not_fail_others(keys: Iterator[str], in_blocks: bool) -> None:
    rows = [row(i) for i in range(50)]
    rows[7] = rows[7]._replace(body=b"0000007")
    log = Log()
    with scripted(log) as peer:
        sender = send(peer, keys, rows, Mode.DLQ, in_blocks=in_blocks)
    found = [log.at_place(half) for half in sender.halves()]
    assert sorted(int(body) for body, _ in found) == list(range(50))
    (reason,) = [own["SPARK_BAD_REASON"] for _, own in found if "SPARK_BAD_REASON" in own]
    assert reason.endswith("the message is too large")


@IN_BLOCKS
@pytest.mark.parametrize("in_batches", [True, False])
def test_a_missing_queue_is_not_an_error_of_the_row(keys: Iterator[str], in_batches: bool, in_blocks: bool) -> None:
    log = Log(in_batches)

    def shrunk(request: Command) -> Command | None:
        if int(request.ext["e"]) < 2:
            return log(request)
        peer.queues = 2
        return answer(ResponseCode.INVALID_PARAMETER, remark=f"request queueId[{request.ext['e']}] is illegal")

    with scripted(shrunk, queues=4) as peer:
        sender = send(peer, keys, [row(i) for i in range(300)], Mode.PERMISSIVE, in_blocks=in_blocks)
    assert sorted(int(log.at_place(half)[0]) for half in sender.halves()) == list(range(300))


class Ending:
    """Ends what it is told to end but for half messages at some places."""

    def __init__(self, in_batches: bool, refused: set[int]) -> None:
        self.in_batches, self.refused = in_batches, refused
        self.ended: list[int] = []
        self.batches: list[int] = []

    def __call__(self, request: Command) -> Command:
        if request.code == RequestCode.END_TRANSACTION:
            offset = int(request.ext["tranStateTableOffset"])
            return answer() if self._end(offset) else answer(ResponseCode.SYSTEM_ERROR, remark="no")
        if not self.in_batches:
            return NOT_SUPPORTED
        said, (_, offsets) = bytearray(), decode_half_positions(request.body)
        self.batches.append(len(offsets))
        for offset in offsets:
            said.append(self._end(offset))
            if not said[-1] and request.ext["inOrder"] == "true":
                break
        return answer(body=bytes(said))

    def _end(self, offset: int) -> bool:
        if offset not in self.refused:
            self.ended.append(offset)
        return offset not in self.refused


@pytest.mark.parametrize("in_batches", [True, False])
def test_all_transactions_end_once_and_in_order_per_queue(in_batches: bool) -> None:
    queues = [MessageQueue("T", "broker-a", number) for number in range(2)]
    halves = [SentHalf("broker-a", i * 100, i, [*queues, None][i % 3]) for i in range(3000)]
    ending = Ending(in_batches, {600, 1502})
    with scripted(ending) as peer:
        ends = TransactionEnds(settings(peer), {"broker-a": peer.address})
        left = ends.end(packed(halves), TRANSACTION_COMMIT)
        ends.close()
    # 600 is of the first queue: nothing after it; 1502 has no order.
    assert sorted(half.table_offset for half in left) == sorted([*range(600, 3000, 3), 1502])
    assert sorted([*ending.ended, *(half.table_offset for half in left)]) == list(range(3000))
    assert [i for i in ending.ended if i % 3 == 1] == list(range(1, 3000, 3))
    assert [i for i in ending.ended if i % 3 == 0] == list(range(0, 600, 3))
    assert ending.batches == [] if not in_batches else max(ending.batches) > 100


def test_an_end_with_a_lost_answer_is_not_repeated() -> None:
    told: list[int] = []

    def cut(request: Command) -> Command | None:
        offsets = decode_half_positions(request.body)[1]
        told.extend(offsets)
        return None if len(told) > 600 else answer(body=b"\x01" * len(offsets))

    with scripted(cut) as peer:
        ends = TransactionEnds(settings(peer, retries=0), {"broker-a": peer.address})
        left = ends.end(packed(SentHalf("broker-a", i, i, None) for i in range(2000)), TRANSACTION_COMMIT)
        ends.close()
    assert len(told) == len(set(told))
    assert set(range(2000)) - {half.table_offset for half in left} <= set(told)
    assert len(left) >= 2000 - 600


def test_transactions_whose_request_cannot_be_sent_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Part of a write may have arrived before the connection broke, so the request is not sent again."""

    class Broken:
        def send(self, _: Any) -> list[int]:
            raise ConnectionLost("the peer closed it")

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(BlockingConnections, "to", lambda *_: Broken())
    given = SendSettings(namesrv=("n:1",), producer_group="g", timeout=5, retries=3, in_flight=4, max_batch_bytes=200)
    ends = TransactionEnds(given, {"broker-a": "b:1"})
    left = ends.end(packed(SentHalf("broker-a", i, i, None) for i in range(30_000)), TRANSACTION_COMMIT)
    assert sorted(half.table_offset for half in left) == list(range(30_000))


def test_transactions_of_a_broker_without_a_master_stay_open() -> None:
    given = SendSettings(namesrv=("n:1",), producer_group="g", timeout=5, retries=3, in_flight=4, max_batch_bytes=200)
    left = TransactionEnds(given, {}).end(
        packed(SentHalf("broker-a", i, i, None) for i in range(9)), TRANSACTION_COMMIT
    )
    assert [half.table_offset for half in left] == list(range(9))


def test_a_batch_is_filled_to_the_last_byte(keys: Iterator[str]) -> None:
    """A message counts with 128 bytes for what is stored with it."""
    rows = [row(i) for i in range(3)]
    size = len(rows[0].body) + len(rows[0].properties) + 128
    with scripted(Log()) as peer:
        for room, together in ((3 * size, [3]), (3 * size - 1, [2, 1]), (2 * size, [2, 1])):
            sender = HalfSender(
                settings(peer, max_batch_bytes=room), lambda: next(keys), BadRecordPolicy(Mode.FAILFAST, "")
            )
            for one in rows:
                sender.send(one)
            assert [len(group) for group in sender._groups(list(sender._waiting))] == together
            sender.flush()
            sender.close()
