"""Sends as a broker gets them: their fields, the size of batches, and how many wait for answers. No Spark needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode
from rocketmq_py.arrow.options.compression import BodyCompression
from rocketmq_py.arrow.sink import sender
from rocketmq_py.arrow.sink.blocks import Block
from rocketmq_py.arrow.sink.rows import RowMessage
from rocketmq_py.arrow.sink.sender import BatchSender
from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectionLost, CorruptRecord, MessageRefused, NoRouteError, PermissionDenied
from rocketmq_py.model import MessageQueue
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.bodies.route import BrokerData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.half_messages import encode_offsets
from rocketmq_py.spark.sink import half_sender
from rocketmq_py.spark.sink.half_sender import HalfMessages, HalfRange, HalfSender, SentHalf
from rocketmq_py.wire.batch import decode_batch, encode_batch
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.compression import CompressionType
from tests.unit.arrow.scripted import ScriptedPeer, answer, scripted

STORED = {"msgId": "A" * 32, "queueId": 0, "queueOffset": 0}
ORDERED = MessageQueue("T", "broker-a", 1)
FIELDS = {
    "a": "g", "b": "T", "c": "TBW102", "d": "4", "g": "1700000000500", "h": "0", "j": "0", "k": "false",
    "n": "broker-a",
}  # fmt: skip
"""Those that all sends have in common: group, topic, template, its queues, time, flag, attempts, unit mode, broker."""
Sent = tuple[int, dict[str, str], bytes]


def settings(peer: ScriptedPeer, **more: Any) -> SendSettings:
    given = {"producer_group": "g", "timeout": 5, "retries": 2, "in_flight": 4, "max_batch_bytes": 1 << 20} | more
    return SendSettings(namesrv=(peer.address,), **given)


def row(i: int, body: bytes = b"x", **more: Any) -> RowMessage:
    own = f"UNIQ_KEY\x01key-{i}\x02SPARK_ROW_KEY\x010-{i}\x02".encode()
    return RowMessage("T", body, own, None, None, f"0-{i}", f"key-{i}")._replace(**more)


def block(rows: int, bound: MessageQueue | None = None, prefix: bytes = b"", body: bytes = b"x") -> Block:
    different = [encode_batch([(0, body, prefix + row(i).properties)]) for i in range(min(rows, 10))]
    encoded = [different[i % 10] for i in range(rows)]
    return Block("T", bound, memoryview(b"".join(encoded)), np.cumsum([0, *map(len, encoded)]))


def halves_of(peer: ScriptedPeer, mode: Mode = Mode.FAILFAST, **more: Any) -> HalfSender:
    numbers = count()
    return HalfSender(settings(peer, **more), lambda: f"new-{next(numbers)}", BadRecordPolicy(mode, "%DLQ%g"))


def sender_of(kind: type, peer: ScriptedPeer, mode: Mode = Mode.FAILFAST) -> BatchSender | HalfSender:
    if kind is HalfSender:
        return halves_of(peer, mode)
    return BatchSender(settings(peer), BadRecordPolicy(mode, "%DLQ%g"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses take no time."""
    now = [0.0]
    fake = SimpleNamespace(
        time=lambda: 1_700_000_000.5, monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s)
    )
    monkeypatch.setattr(sender, "time", fake)
    monkeypatch.setattr(half_sender, "time", fake)
    return now


class Wire:
    """Connections to brokers; counts the requests that wait. ``script`` answers the n-th request, None breaks."""

    def __init__(self, script: Callable[[int, Sent], Reply | None]) -> None:
        self._script = script
        self._address = ""
        self.waiting: list[tuple[str, int, Sent]] = []
        self.sent: list[Sent] = []
        self.in_flight: list[int] = []
        """The number of requests that wait, after each write."""

    def to(self, address: str) -> Wire:
        self._address = address
        return self

    def send(self, requests: Sequence[Sent]) -> list[int]:
        numbers = list(range(len(self.sent), len(self.sent) + len(requests)))
        self.sent += requests
        self.waiting += [(self._address, number, one) for number, one in zip(numbers, requests, strict=True)]
        self.in_flight.append(len(self.waiting))
        return numbers

    def receive(self) -> Reply:
        at = next(i for i, (address, _, _) in enumerate(self.waiting) if address == self._address)
        _, number, request = self.waiting.pop(at)
        found = self._script(number, request)
        if found is None:
            raise ConnectionLost("on purpose")
        found.opaque = number
        return found

    def drop(self, address: str) -> None:
        self.waiting = [one for one in self.waiting if one[0] != address]

    def close(self) -> None:
        self.waiting.clear()


def reply(code: int = 0, body: bytes = b"", **ext: object) -> Reply:
    fields = msgspec.Raw(msgspec.json.encode({name: str(text) for name, text in ext.items()}))
    return Reply(code, 0, 1, "no", fields, body)


def stored(number: int, request: Sent) -> Reply:
    if request[0] == RequestCode.SEND_HALF_MESSAGES:
        rows = len(list(decode_batch(request[2])))
        return reply(body=encode_offsets([number * 1000 + i for i in range(rows)]), queueOffset=number * 1000)
    return reply(queueOffset=number, msgId=f"{0:016X}{number:016X}")


def wired(one: Any, script: Callable[[int, Sent], Reply | None]) -> Wire:
    wire = Wire(script)
    one._connections.close()
    one._connections = one._targets.connections = wire
    return wire


# -- at least once


def test_a_batch_and_a_single_message_have_the_fields_of_the_protocol(clock: list[float]) -> None:
    with scripted(lambda _: answer(**STORED), queues=2) as peer:
        with closing(BatchSender(settings(peer))) as ours:
            ours.send(row(1, queue_id=1, flag=-7))
            ours.send(row(2, queue_id=0, waits=True, flag=9, sys_flag=0x301))
            ours.flush()
        sent = [one for one in peer.requests if one.code in (310, 320)]
    single, batch = sent
    assert (single.code, batch.code) == (310, 320)
    assert batch.ext == batch.ext | FIELDS | {"e": "1", "f": "0", "h": "0", "i": "", "m": "true"}
    own = row(2).properties.decode()
    assert single.ext == single.ext | FIELDS | {"e": "0", "f": "769", "h": "9", "i": own, "m": "false"}
    assert (single.body, list(decode_batch(batch.body))) == (b"x", [(-7, b"x", row(1).properties)])


@pytest.mark.parametrize("kind", [BatchSender, HalfSender])
def test_a_request_has_bodies_of_one_compression(kind: type, clock: list[float]) -> None:
    def script(request: Command) -> Command:
        if request.code == 300320:
            return answer(body=encode_offsets([7] * len(list(decode_batch(request.body)))), queueOffset=3)
        return answer(**STORED)

    with scripted(script) as peer, closing(sender_of(kind, peer)) as ours:
        ours.send_block(block(2, MessageQueue("T", "broker-a", 0), prefix=getattr(ours, "prefix", b"")))
        for number in range(4):
            ours.send(row(number, queue_id=0, sys_flag=0 if number < 2 else 0x101))
        ours.flush()
        sent = [(int(one.ext["f"]) & ~4, len(list(decode_batch(one.body)))) for one in peer.requests if one.code > 309]
    expected = [(0, 4), (0x101, 2)] if isinstance(ours, BatchSender) else [(0, 2), (0, 2), (0x101, 2)]
    assert sent == expected, "in the order of the rows"


@pytest.mark.parametrize("kind", [BatchSender, HalfSender])
def test_the_dead_letter_of_a_compressed_row_has_its_body(kind: type, clock: list[float]) -> None:
    def script(request: Command) -> Command:
        if request.ext["b"] == "T":
            return answer(ResponseCode.MESSAGE_ILLEGAL, remark="no")
        return answer(body=encode_offsets([7]) if request.code == 300320 else b"", queueOffset=3, msgId="A")

    zlib = BodyCompression(CompressionType.ZLIB)
    with scripted(script) as peer:
        with closing(sender_of(kind, peer, Mode.DLQ)) as ours:
            ours.send(row(1, zlib.compressed(b"body" * 9), sys_flag=zlib.sys_flag))
            ours.flush()
        (letter,) = [one for one in peer.requests if one.code > 309 and one.ext["b"] != "T"]
    assert int(letter.ext["f"]) & ~4 == 0
    assert [body for _, body, _ in decode_batch(letter.body)] == [b"body" * 9]


def test_batches_have_at_most_1024_messages_and_the_bytes_of_the_option(clock: list[float]) -> None:
    def sizes(fill: Callable[[BatchSender], None], **more: Any) -> list[int]:
        with scripted(lambda _: answer(**STORED)) as peer, closing(BatchSender(settings(peer, **more))) as ours:
            wire = wired(ours, stored)
            fill(ours)
            ours.flush()
            return [len(list(decode_batch(body))) for _, _, body in wire.sent]

    def by_row(number: int) -> Callable[[BatchSender], None]:
        return lambda ours: [ours.send(row(i % 10)) for i in range(number)] and None

    one = len(block(1).data)
    assert sizes(by_row(1025)) == sizes(lambda ours: ours.send_block(block(1025))) == [1024, 1]
    assert sizes(lambda ours: ours.send_block(block(1024))) == [1024]
    assert sizes(by_row(7), max_batch_bytes=3 * one) == [3, 3, 1]
    assert sizes(by_row(7), max_batch_bytes=3 * one - 1) == [2, 2, 2, 1]
    assert sizes(lambda ours: ours.send_block(block(7)), max_batch_bytes=3 * one) == [3, 3, 1]
    assert sizes(by_row(2), max_batch_bytes=1) == sizes(lambda o: o.send_block(block(2)), max_batch_bytes=1) == [1, 1]

    def mixed(ours: BatchSender) -> None:
        ours.send(row(1))
        ours.send_block(block(3))
        ours.send(row(2))

    assert sizes(mixed, max_batch_bytes=3 * one) == [3, 2], "a block fills up what rows have begun"


def test_a_busy_broker_halves_the_requests_that_wait(clock: list[float]) -> None:
    def busy(number: int, request: Sent) -> Reply:
        return reply(ResponseCode.SYSTEM_BUSY) if number == 0 else stored(number, request)

    with scripted(lambda _: None) as peer, closing(BatchSender(settings(peer, max_batch_bytes=1))) as ours:
        wire = wired(ours, busy)
        for i in range(8):
            ours.send(row(i))
        ours.flush()
    assert wire.in_flight[:6] == [1, 2, 3, 4, 4, 2]
    assert max(wire.in_flight[5:]) == 3, "and a success raises them a little"


def test_a_bound_queue_has_one_request_at_a_time(clock: list[float]) -> None:
    with scripted(lambda _: None, queues=2) as peer, closing(BatchSender(settings(peer, max_batch_bytes=1))) as ours:
        wire = wired(ours, stored)
        for i in range(4):
            ours.send(row(i, queue_id=1))
        ours.send(row(4, queue_id=0))
        ours.flush()
    assert wire.in_flight == [1, 1, 1, 1, 2]


def test_batches_of_a_broken_connection_are_sent_again_in_their_order(clock: list[float]) -> None:
    def broken(number: int, request: Sent) -> Reply | None:
        return None if number == 1 else stored(number, request)

    with scripted(lambda _: None, queues=3) as peer, closing(BatchSender(settings(peer, max_batch_bytes=1))) as ours:
        wire = wired(ours, broken)
        for i in range(3):
            ours.send(row(i, body=b"%d" % i, queue_id=i))
        ours.flush()
    bodies = [next(iter(decode_batch(body)))[1] for _, _, body in wire.sent]
    assert bodies == [b"0", b"1", b"2", b"1", b"2"]


def test_a_dead_letter_that_is_refused_is_given_up(clock: list[float]) -> None:
    bad = BadRecordPolicy(Mode.DLQ, "%DLQ%g")
    with scripted(lambda _: None) as peer, closing(BatchSender(settings(peer), bad)) as ours:
        wire = wired(ours, lambda *_: reply(ResponseCode.MESSAGE_ILLEGAL))
        ours.send(row(0))
        ours.flush()
        assert [fields["b"] for _, fields, _ in wire.sent] == ["T", "%DLQ%g"]
        assert bad.count == 1
    with scripted(lambda _: None) as peer, closing(BatchSender(settings(peer))) as ours:
        wired(ours, lambda *_: reply(ResponseCode.MESSAGE_ILLEGAL))
        ours.send(row(0))
        with pytest.raises(MessageRefused):
            ours.flush()


# -- half messages


def test_half_messages_have_the_fields_of_the_protocol(clock: list[float]) -> None:
    def script(request: Command) -> Command:
        if request.code == 300320 and request.ext["e"] == "0":
            return answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        return answer(body=encode_offsets([7]) if request.code == 300320 else b"", queueOffset=3, msgId="0" * 31 + "9")

    with scripted(script, queues=2) as peer:
        ours = halves_of(peer)
        with closing(ours):
            ours.send(row(1, queue_id=1))
            ours.flush()
            ours.send(row(2, queue_id=0, flag=5, sys_flag=0x201))
            ours.flush()
        batch, _, single = [one for one in peer.requests if one.code in (310, 300320)]
    properties = b"TRAN_MSG\x01true\x02PGROUP\x01g\x02"
    assert decode_properties(ours.prefix) == {"TRAN_MSG": "true", "PGROUP": "g"}
    assert len(ours.prefix) == len(properties)
    assert (single.code, batch.code) == (310, 300320)
    assert batch.ext == batch.ext | FIELDS | {"e": "1", "f": "4", "i": "", "m": "true"}
    own = (ours.prefix + row(2).properties).decode()
    assert single.ext == single.ext | FIELDS | {"e": "0", "f": "517", "h": "5", "i": own, "m": "false"}
    assert (single.body, list(decode_batch(batch.body))) == (b"x", [(0, b"x", ours.prefix + row(1).properties)])
    assert sorted(ours.halves()) == [
        SentHalf("broker-a", 7, 3, MessageQueue("T", "broker-a", 1)),
        SentHalf("broker-a", 9, 3, MessageQueue("T", "broker-a", 0)),
    ]


def test_batches_of_half_messages_have_at_most_512_and_the_bytes_of_the_option(clock: list[float]) -> None:
    def sizes(fill: Callable[[HalfSender], None], **more: Any) -> list[int]:
        with scripted(lambda _: None) as peer, closing(halves_of(peer, **more)) as ours:
            wire = wired(ours, stored)
            fill(ours)
            ours.flush()
            assert len(ours.halves()) == sum(len(list(decode_batch(body))) for _, _, body in wire.sent)
            return [len(list(decode_batch(body))) for _, _, body in wire.sent]

    def blocks(number: int) -> Callable[[HalfSender], None]:
        return lambda ours: ours.send_block(block(number, prefix=ours.prefix))

    def by_row(number: int, body: bytes = b"x") -> Callable[[HalfSender], None]:
        return lambda ours: [ours.send(row(i % 10, body)) for i in range(number)] and None

    assert sizes(blocks(513)) == sizes(by_row(513)) == [512, 1]
    assert sizes(blocks(512)) == [512]
    with scripted(lambda _: None) as peer, closing(halves_of(peer)) as other:
        one = len(block(1, prefix=other.prefix).data)
    assert sizes(blocks(7), max_batch_bytes=3 * one) == [3, 3, 1]
    assert sizes(by_row(7, b"x" * 1000), max_batch_bytes=3500) == [3, 3, 1]
    assert sizes(by_row(2), max_batch_bytes=1) == [1, 1]


def test_at_most_the_requests_of_the_option_wait(clock: list[float]) -> None:
    with scripted(lambda _: None) as peer, closing(halves_of(peer, in_flight=2, max_batch_bytes=1)) as ours:
        wire = wired(ours, stored)
        ours.send_block(block(6, prefix=ours.prefix))
        assert wire.in_flight == [1, 2, 3, 3, 3, 3]
        assert len(wire.waiting) == 2
        ours.flush()
        assert wire.waiting == []


def test_a_busy_broker_gets_half_messages_again_after_a_pause(clock: list[float]) -> None:
    def busy(number: int, request: Sent) -> Reply:
        return reply(ResponseCode.SYSTEM_BUSY) if number < 2 else stored(number, request)

    with scripted(lambda _: None) as peer, closing(halves_of(peer, in_flight=4, max_batch_bytes=1)) as ours:
        wire = wired(ours, busy)
        ours.send_block(block(2, prefix=ours.prefix))
        ours.flush()
        assert len(ours.halves()) == 2
        assert int(ours._limit) == 2, "4, halved twice, and raised by two successes"
        assert (len(wire.sent), ours.resent) == (4, {}), "a refused one was not stored"
        assert clock[0] > 0


def test_half_messages_whose_answer_is_lost_have_new_keys(clock: list[float]) -> None:
    def broken(number: int, request: Sent) -> Reply | None:
        return None if number == 0 else stored(number, request)

    with scripted(lambda _: None) as peer, closing(halves_of(peer, max_batch_bytes=200)) as ours:
        wire = wired(ours, broken)
        ours.send_block(block(4, prefix=ours.prefix))
        ours.flush()
        keys = {}
        for _, _, body in wire.sent:
            for _, _, own in decode_batch(body):
                found = decode_properties(own)
                keys[found["SPARK_ROW_KEY"]] = found["UNIQ_KEY"]
    assert keys == ours.resent == {f"0-{i}": f"new-{i}" for i in range(4)}
    assert len(ours.halves()) == 4


def test_a_write_that_fails_sends_half_messages_again(clock: list[float]) -> None:
    for in_block in (True, False):
        with scripted(lambda _: None) as peer, closing(halves_of(peer)) as ours:
            wire = wired(ours, stored)
            send, failing = wire.send, iter([True])

            def broken(requests: Sequence[Sent], send: Any = send, failing: Any = failing) -> list[int]:
                if next(failing, False):
                    raise ConnectionLost("on purpose")
                return send(requests)

            wire.send = broken  # type: ignore[method-assign]
            ours.send_block(block(2, prefix=ours.prefix)) if in_block else ours.send(row(0))
            ours.flush()
            assert len(ours.halves()) == 1 + in_block
            assert ours.resent == {f"0-{i}": f"new-{i}" for i in range(1 + in_block)}, "part of it may have arrived"


def test_half_messages_wait_for_a_broker_without_a_master(clock: list[float]) -> None:
    for in_block in (True, False):
        with scripted(lambda _: None) as peer, closing(halves_of(peer)) as ours:
            wire = wired(ours, stored)
            (known,) = peer.brokers
            peer.brokers = [BrokerData(broker_name="broker-a", cluster="c", broker_addrs={1: "n:1"})]
            if in_block:
                ours.send_block(block(2, prefix=ours.prefix))
            else:
                ours.send(row(0))
            peer.brokers = [known]
            ours.flush()
            assert (len(ours.halves()), ours.resent) == (1 + in_block, {}), (
                "they were not sent, so they keep their keys"
            )
            assert len(wire.sent) >= 1
    with scripted(lambda _: None) as peer, closing(halves_of(peer, retries=1)) as ours:
        wired(ours, stored)
        peer.brokers = [BrokerData(broker_name="broker-a", cluster="c", broker_addrs={1: "n:1"})]
        ours.send(row(0))
        with pytest.raises(NoRouteError, match="no master of broker-a is registered"):
            ours.flush()


def test_answers_that_do_not_fit_are_an_error(clock: list[float]) -> None:
    for offsets in ([1], [1, 2, 3]):
        with scripted(lambda _: None) as peer, closing(halves_of(peer)) as ours:
            wired(ours, lambda *_, offsets=offsets: reply(body=encode_offsets(offsets), queueOffset=0))
            ours.send_block(block(2, prefix=ours.prefix))
            with pytest.raises(CorruptRecord, match=f"broker-a returned {len(offsets)} offsets for 2 half messages"):
                ours.flush()


def test_a_refusal_says_how_many_half_messages_it_is_about(clock: list[float]) -> None:
    with scripted(lambda _: None) as peer, closing(halves_of(peer)) as ours:
        wired(ours, lambda *_: reply(ResponseCode.NO_PERMISSION))
        ours.send_block(block(3, prefix=ours.prefix))
        with pytest.raises(PermissionDenied) as told:
            ours.flush()
    assert told.value.__notes__ == ["while 3 half messages were sent to T@broker-a:0"]


def test_a_refused_half_message_fails_the_task_or_becomes_a_dead_letter_once(clock: list[float]) -> None:
    def refused(number: int, request: Sent) -> Reply:
        return reply(ResponseCode.MESSAGE_ILLEGAL)

    with scripted(lambda _: None) as peer, closing(halves_of(peer)) as ours:
        wired(ours, refused)
        ours.send(row(0))
        with pytest.raises(MessageRefused):
            ours.flush()
    with scripted(lambda _: None) as peer, closing(halves_of(peer, Mode.DLQ)) as ours:
        wire = wired(ours, refused)
        ours.send(row(0, sharding_key="k"))
        ours.flush()
        assert [fields["b"] for _, fields, _ in wire.sent] == ["T", "%DLQ%g"]
        assert (len(ours.halves()), ours.topics) == (0, {"T", "%DLQ%g"})


def test_offsets_of_half_messages_are_kept_in_parts_of_512() -> None:
    found, others = HalfMessages(), HalfMessages()
    for i in range(513):
        found.add("a", None, i * 10, i)
    assert [(len(one.log_offsets), one.is_whole) for one in found.ranges["a", None]] == [(512, False), (1, False)]
    found.add_range("a", None, HalfRange([9000], [900]))
    found.add("a", None, 9010, 901)
    assert [one.is_whole for one in found.ranges["a", None]] == [False, False, True, False], "a batch stays one"
    others.add("a", None, 9020, 902)
    others.add("b", ORDERED, 5, 6)
    found.add_all(others)
    assert len(found) == 517
    assert list(found)[-5:] == [
        SentHalf("a", 5120, 512, None), SentHalf("a", 9000, 900, None), SentHalf("a", 9010, 901, None),
        SentHalf("a", 9020, 902, None), SentHalf("b", 5, 6, ORDERED),
    ]  # fmt: skip


def test_single_half_messages_may_be_sent_in_place_of_batches(clock: list[float]) -> None:
    """64 for each batch, to a broker that takes none."""

    def singles(number: int, request: Sent) -> Reply:
        is_batch = request[0] == RequestCode.SEND_HALF_MESSAGES
        return reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED) if is_batch else stored(number, request)

    with scripted(lambda _: None) as peer, closing(halves_of(peer, in_flight=1)) as ours:
        wire = wired(ours, singles)
        ours.send(row(0))
        ours.flush()
        for i in range(512):
            ours.send(row(i % 10))
        assert len(wire.waiting) == 64
        ours.flush()
        assert len(ours.halves()) == 513


def test_an_error_names_the_number_of_messages_and_their_queue(clock: list[float]) -> None:
    for waits, rows, told in ((True, 1, 1), (False, 3, 3)):
        with scripted(lambda _: None) as peer, closing(BatchSender(settings(peer))) as ours:
            wired(ours, lambda *_: reply(ResponseCode.NO_PERMISSION))
            for i in range(rows):
                ours.send(row(i, waits=waits))
            with pytest.raises(PermissionDenied) as refused:
                ours.flush()
        assert refused.value.__notes__ == [f"while {told} messages were sent to T@broker-a:0"]
