"""Ends of transactions at brokers in memory: what is sent again, what stays open, and what waits for what."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from rocketmq_py.arrow.remoting import retry
from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectionLost
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.half_messages import decode_half_positions
from rocketmq_py.spark.sink import end_transactions
from rocketmq_py.spark.sink.end_transactions import TransactionEnds
from rocketmq_py.spark.sink.half_sender import HalfMessages, HalfRange

Sent = tuple[int, dict[str, str], bytes]
Answer = Callable[[str, Sent], tuple[int, bytes]]
COMMIT = 8
ORDERED = MessageQueue("t", "a", 1)


class Brokers:
    """Connections to brokers that answer in order; ``breaks`` are numbers of answers that never come."""

    def __init__(self, answer: Answer, breaks: Sequence[int] = (), cannot_send: Sequence[int] = ()) -> None:
        self._answer, self._breaks, self._cannot_send = answer, set(breaks), set(cannot_send)
        self.sent: list[tuple[str, Sent]] = []
        self.most = self.received = self.sends = 0
        self.waiting: list[tuple[int, str, Sent]] = []
        self.dropped: list[str] = []
        self.closed = False
        self._address = ""

    def to(self, address: str) -> Brokers:
        self._address = address
        return self

    def send(self, requests: Sequence[Sent]) -> list[int]:
        self.sends += 1
        if self.sends in self._cannot_send:
            raise ConnectionLost("on purpose")
        first = len(self.sent)
        self.sent += [(self._address, request) for request in requests]
        self.waiting += [(first + number, self._address, request) for number, request in enumerate(requests)]
        self.most = max(self.most, len(self.waiting))
        return list(range(first, len(self.sent)))

    def receive(self) -> Reply:
        self.received += 1
        if self.received in self._breaks:
            raise ConnectionLost("on purpose")
        opaque, address, request = self.waiting.pop(0)
        code, body = self._answer(address, request)
        return Reply(code, opaque, 1, "no", body=body)

    def drop(self, address: str) -> None:
        self.dropped.append(address)
        self.waiting.clear()

    def close(self) -> None:
        self.closed = True

    def positions(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        return [decode_half_positions(body) for _, (code, _, body) in self.sent if code == RequestCode.END_TRANSACTIONS]

    def singles(self) -> list[tuple[int, int]]:
        return [
            (int(fields["commitLogOffset"]), int(fields["tranStateTableOffset"]))
            for _, (code, fields, _) in self.sent
            if code == RequestCode.END_TRANSACTION
        ]


def all_ended(_: str, request: Sent) -> tuple[int, bytes]:
    return ResponseCode.SUCCESS, b"\x01" * (len(request[2]) // 16)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr(retry.time, "sleep", taken.append)
    return taken


def ended(brokers: Brokers, halves: HalfMessages, retries: int = 3, masters: str = "ab") -> list[tuple[str, int, int]]:
    """End all; returns broker and both offsets of those that stay open."""
    settings = SendSettings(
        namesrv=("ns:1",), producer_group="g", timeout=5, retries=retries, in_flight=4, max_batch_bytes=5_000
    )
    ends = TransactionEnds(settings, {name: f"{name}:1" for name in masters})
    ends._connections.close()
    ends._connections = brokers  # type: ignore[assignment]
    left = ends.end(halves, COMMIT)
    ends.close()
    assert brokers.closed
    return sorted((half.broker, half.commit_log_offset, half.table_offset) for half in left)


def halves(*ranges: Sequence[int], broker: str = "a", order: MessageQueue | None = None) -> HalfMessages:
    """Ranges of half messages, by their offsets in the half topic; in the log they are a hundred bytes each."""
    made = HalfMessages()
    for offsets in ranges:
        made.add_range(broker, order, HalfRange([100 * offset for offset in offsets], list(offsets)))
    return made


def test_half_messages_of_each_broker_are_ended_there() -> None:
    brokers, given = Brokers(all_ended), halves([1, 2], [5])
    given.add_all(halves([7], broker="b"))
    given.add_all(halves([9], broker="gone"))
    assert ended(brokers, given) == [("gone", 900, 9)]
    assert [address for address, _ in brokers.sent] == ["a:1", "a:1", "b:1"]
    assert brokers.positions() == [((100, 200), (1, 2)), ((500,), (5,)), ((700,), (7,))]
    _, (_, fields, _) = brokers.sent[0]
    assert fields == {"producerGroup": "g", "commitOrRollback": "8", "inOrder": "false", "bname": "a"}


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (511, [511]), (512, [512]), (513, [512, 1]), (1025, [512, 512, 1])]
)
def test_a_request_ends_at_most_512(count: int, sizes: list[int]) -> None:
    brokers = Brokers(all_ended)
    assert ended(brokers, halves(range(count))) == []
    assert [len(places) for places, _ in brokers.positions()] == sizes
    assert [place for places, _ in brokers.positions() for place in places] == [100 * n for n in range(count)]


def test_at_most_eight_requests_are_under_way() -> None:
    brokers = Brokers(all_ended)
    assert ended(brokers, halves(*([number] for number in range(30)))) == []
    assert (len(brokers.sent), brokers.most) == (30, 8)


def test_batches_of_an_ordered_queue_go_one_after_the_other() -> None:
    brokers = Brokers(all_ended)
    assert ended(brokers, halves([1], [2], [3], order=ORDERED)) == []
    assert brokers.most == 1
    assert brokers.positions() == [((100,), (1,)), ((200,), (2,)), ((300,), (3,))]
    assert {fields["inOrder"] for _, (_, fields, _) in brokers.sent} == {"true"}


@pytest.mark.parametrize(("order", "sent", "left"), [(ORDERED, 1, [3, 4, 5]), (None, 2, [3, 4])])
def test_what_a_broker_could_not_end_stays_open_with_what_must_follow_it(
    order: MessageQueue | None, sent: int, left: list[int]
) -> None:
    def some(_: str, request: Sent) -> tuple[int, bytes]:
        return ResponseCode.SUCCESS, b"\x01\x00" if len(request[2]) == 48 else b"\x01"

    brokers = Brokers(some)
    assert ended(brokers, halves([2, 3, 4], [5], order=order)) == [("a", 100 * n, n) for n in left]
    assert len(brokers.sent) == sent


def test_a_broker_that_takes_no_batches_gets_one_request_for_each() -> None:
    def singly(_: str, request: Sent) -> tuple[int, bytes]:
        known = request[0] == RequestCode.END_TRANSACTION
        return (ResponseCode.SUCCESS if known else ResponseCode.REQUEST_CODE_NOT_SUPPORTED), b""

    brokers = Brokers(singly)
    assert ended(brokers, halves([1, 2], [3], range(10, 310))) == []
    assert sorted(brokers.singles()) == [(100 * n, n) for n in (1, 2, 3, *range(10, 310))]
    assert brokers.most == 256
    assert brokers.dropped == ["a:1"]
    _, (_, fields, body) = brokers.sent[-1]
    assert fields == fields | {
        "producerGroup": "g", "commitOrRollback": "8", "msgId": "", "bname": "a", "fromTransactionCheck": "false",
    }  # fmt: skip
    assert body == b""


def test_requests_that_may_have_arrived_are_not_sent_again(pauses: list[float]) -> None:
    brokers = Brokers(all_ended, breaks=[2])
    left = ended(brokers, halves(*([number] for number in range(12))))
    assert left == [("a", 100 * n, n) for n in range(1, 8)], "the first was answered, seven more were under way"
    assert sorted(places for places, _ in brokers.positions()) == [(100 * n,) for n in range(12)]
    assert (brokers.dropped, len(pauses)) == (["a:1"], 1)


def test_requests_whose_send_fails_may_have_arrived() -> None:
    brokers = Brokers(all_ended, cannot_send=[1])
    assert ended(brokers, halves(*([number] for number in range(10)))) == [("a", 100 * n, n) for n in range(8)]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_broker_that_stays_away_is_given_up(retries: int, pauses: list[float]) -> None:
    brokers = Brokers(all_ended, breaks=range(1, 99))
    left = ended(brokers, halves(*([number] for number in range(100))), retries)
    assert left == [("a", 100 * n, n) for n in range(100)]
    assert (brokers.received, len(pauses)) == (retries + 1, retries)


def test_a_busy_broker_is_asked_again(pauses: list[float]) -> None:
    busy = [True, True, False, True, True, True]

    def answer(address: str, request: Sent) -> tuple[int, bytes]:
        return (ResponseCode.SYSTEM_BUSY, b"") if busy and busy.pop(0) else all_ended(address, request)

    brokers = Brokers(answer)
    assert ended(brokers, halves([1], [2], order=ORDERED)) == []
    assert [offsets for _, offsets in brokers.positions()] == [(1,)] * 3 + [(2,)] * 4
    assert len(pauses) == 5, "a success starts the count anew"


def test_a_refused_batch_stays_open_and_others_go_on() -> None:
    def answer(address: str, request: Sent) -> tuple[int, bytes]:
        refused = decode_half_positions(request[2])[1] == (2,)
        return (ResponseCode.SYSTEM_ERROR, b"") if refused else all_ended(address, request)

    brokers = Brokers(answer)
    assert ended(brokers, halves([1], [2], [3])) == [("a", 200, 2)]
    brokers = Brokers(answer)
    assert ended(brokers, halves([1], [2], [3], order=ORDERED)) == [("a", 200, 2), ("a", 300, 3)]
    assert len(brokers.sent) == 2


def test_limits() -> None:
    assert (end_transactions._MAX_INFLIGHT_BATCHES, end_transactions._MAX_INFLIGHT_SINGLES) == (8, 256)
