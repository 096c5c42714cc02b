"""Messages that cannot be decoded: what a read returns in their place, where it looks again, what it keeps of them."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest

from rocketmq_py.arrow.bad_records import Mode
from rocketmq_py.arrow.decode import COLUMNS
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.options.selection import Topics
from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange
from rocketmq_py.arrow.source.corrupt_records import dead_letter_of, whole_record
from rocketmq_py.arrow.source.reading import read_ranges
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.model import MessageQueue, RecordHead
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import encode_record, pack_host
from tests.unit.arrow.scripted import ScriptedPeer, answer, scripted

HOST = pack_host("127.0.0.1", 10911)
QUEUE = MessageQueue("t", "broker-a", 2)
CORRUPT = ("_corrupt_record", "_corrupt_reason")


def columns(*names: str) -> pa.Schema:
    return pa.schema([(name, COLUMNS[name].kind) for name in names])


OFFSETS = columns("queueOffset", "body")
WITH_CORRUPT = columns("queueOffset", "body", "queueId", "topic", "brokerName", *CORRUPT)
BODY_LENGTH_AT = 84


def record(offset: int, tag: str = "A", more: str = "") -> bytes:
    head = RecordHead(0, 0, 0, 2, 7, offset, 9, 0, 5, HOST, 6, HOST, 0, 0, 0)
    return encode_record(head, "t", b"body %d" % offset, f"TAGS\x01{tag}\x02{more}".encode())


def with_number(raw: bytes, at: int, number: int) -> bytes:
    return raw[:at] + struct.pack(">i", number) + raw[at + 4 :]


def long_body(offset: int) -> bytes:
    """Its body is longer than the record, says the field."""
    return with_number(record(offset), BODY_LENGTH_AT, 1 << 20)


def wrong_body(offset: int) -> bytes:
    """The checksum is that of another body."""
    return record(offset, more="KEYS\x01k\x02UNIQ_KEY\x01u\x02DELAY\x013\x02PGROUP\x01g\x02").replace(b"body", b"BODY")


def wrong_size(offset: int) -> bytes:
    """Where the next record begins is not known."""
    return with_number(record(offset), 0, 1 << 20)


class Broker:
    """A queue with ``bad`` records and ``damaged`` ones, which are not sent; a filter passes every ``tagged`` one."""

    def __init__(
        self, bad: Mapping[int, bytes] | None = None, damaged: frozenset[int] = frozenset(), tagged: int = 1
    ) -> None:
        self.bad = bad or {}
        self.damaged = damaged
        self.tagged = tagged
        self.letters: list[tuple[bytes, dict[str, str], Command]] = []

    def __call__(self, request: Command) -> Command:
        if request.code == RequestCode.GET_MIN_OFFSET:
            return answer(offset=0)
        if request.code != RequestCode.PULL_MESSAGE:
            ((_, body, own),) = decode_batch(request.body)
            self.letters.append((body, decode_properties(own), request))
            return answer(msgId="A", queueId=0, queueOffset=0)
        start, most = int(request.ext["queueOffset"]), int(request.ext["maxMsgNums"])
        every = 1 if request.ext["subscription"] == "*" else self.tagged
        if start in self.damaged:
            return self._pulled(request, b"", start + 1, damaged=start)
        first = next(n for n in range(start, start + every) if n % every == 0)
        offsets = [n for n in range(first, first + most * every, every) if n < 1000][:32]
        until = next((n for n in offsets if n in self.damaged), offsets[-1] + 1)
        body = b"".join(self.bad.get(n, record(n, "A" if n % self.tagged == 0 else "B")) for n in offsets if n < until)
        return self._pulled(request, body, until)

    def _pulled(self, request: Command, body: bytes, reached: int, **more: int) -> Command:
        at = {"suggestWhichBrokerId": 0, "nextBeginOffset": reached, "minOffset": 0, "maxOffset": 1000}
        code = ResponseCode.SUCCESS if body else ResponseCode.PULL_RETRY_IMMEDIATELY
        return answer(code, body, "FOUND" if body else "NO_MATCHED_MESSAGE", **at, **more)


def read(peer: ScriptedPeer, schema: pa.Schema = OFFSETS, slave: ScriptedPeer | None = None, **more: Any) -> list[Any]:
    """The rows of offsets 60 to 139."""
    given = {"num_retries": 0, "mode": Mode.PERMISSIVE, "check_crc": True} | more
    options = ReadOptions(namesrv=(peer.address,), selection=Topics(("t",)), **given)
    at = Addresses(peer.address, ((1, slave.address),) if slave else ())
    batches = read_ranges([LocatedRange(QueueRange(QUEUE, 60, 140), at)], options, schema)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def whole(*without: int) -> list[tuple[int, bytes]]:
    return [(n, b"body %d" % n) for n in range(60, 140) if n not in without]


BAD = {"body": long_body, "checksum": wrong_body, "size": wrong_size}


@pytest.mark.parametrize("kind", BAD)
def test_bad_messages_are_left_out_and_no_other(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    bad = {n: BAD[kind](n) for n in (60, 71, 72, 139)}
    with scripted(Broker(bad), queues=3) as peer, caplog.at_level(logging.WARNING):
        assert read(peer) == whole(*bad)
    told = [one.getMessage() for one in caplog.records]
    assert [text.partition(" cannot be")[0] for text in told] == [
        f"a bad record is left out: offset {n} of t@broker-a:2" for n in bad
    ]


def test_a_bad_message_fails_the_read_if_the_mode_says_so() -> None:
    with scripted(Broker({71: wrong_body(71)}), queues=3) as peer, pytest.raises(CorruptRecord) as told:
        read(peer, mode=Mode.FAILFAST)
    assert str(told.value).startswith("offset 71 of t@broker-a:2 cannot be decoded: record at byte 0")
    assert told.value.__notes__ == [
        "to go on without such messages, set option mode=PERMISSIVE, or mode=DLQ to keep them apart"
    ]


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_message_is_a_row_if_the_schema_has_a_column_for_it(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    bad = BAD[kind](71)
    with scripted(Broker({71: bad}), queues=3) as peer:
        rows = read(peer, WITH_CORRUPT)
    assert [row[0] for row in rows] == list(range(60, 140))
    assert {row[5:] for row in rows if row[0] != 71} == {(None, None)}
    (row,) = [row for row in rows if row[0] == 71]
    assert row[:6] == (71, None, 2, "t", "broker-a", bad)
    assert "record at byte 0 " in row[6]
    (told,) = [one.getMessage() for one in caplog.records]
    assert told.startswith("a bad record becomes a row with a _corrupt_reason: offset 71")


def test_a_message_that_the_broker_does_not_send_is_a_row_without_bytes() -> None:
    with scripted(Broker(damaged=frozenset({71})), queues=3) as peer:
        rows = read(peer, WITH_CORRUPT)
        assert read(peer) == whole(71)
    assert [row[0] for row in rows] == list(range(60, 140))
    assert rows[11][5:] == (None, "its broker found it damaged and does not send it")


def test_either_column_asks_for_the_row() -> None:
    with scripted(Broker({71: long_body(71)}), queues=3) as peer:
        for name in CORRUPT:
            rows = read(peer, columns("queueOffset", name))
            assert [offset for offset, found in rows if found is not None] == [71]
            assert len(rows) == 80


def test_a_bad_message_becomes_a_dead_letter() -> None:
    broker = Broker({71: wrong_body(71), 72: long_body(72)}, frozenset({73}))
    with scripted(broker, queues=3) as peer:
        assert read(peer, mode=Mode.DLQ, dlq_topic="bad") == whole(71, 72, 73)
        (body, own, request), (unlocated, _, _), (unsent, unsent_own, _) = broker.letters
        assert (body, unlocated) == (b"BODY 71", long_body(72)), "the body if it can be told, else the record"
        reason = "its broker found it damaged and does not send it"
        assert (unsent, unsent_own["SPARK_BAD_REASON"]) == (reason.encode(), reason)
        assert (request.ext["b"], request.ext["a"]) == ("bad", "spark_source")
        read(peer, mode=Mode.DLQ, dlq_topic="bad", group="mine")
    assert {letter[2].ext["a"] for letter in broker.letters[3:]} == {"mine"}
    assert "checksum of its body" in own.pop("SPARK_BAD_REASON")
    assert own == {
        "TAGS": "A", "KEYS": "k", "UNIQ_KEY": "u", "WAIT": "true", "DLQ_ORIGIN_TOPIC": "t",
        "SPARK_SOURCE_BROKER": "broker-a", "SPARK_SOURCE_QUEUE": "2", "SPARK_SOURCE_OFFSET": "71",
        "SPARK_ROW_KEY": "t-broker-a-2-71",
    }  # fmt: skip


@pytest.fixture
def master_and_slave() -> Iterator[tuple[ScriptedPeer, ScriptedPeer]]:
    with ExitStack() as stack:
        yield tuple(stack.enter_context(scripted(Broker({71: wrong_body(71)}))) for _ in range(2))  # type: ignore[misc]


def test_the_copy_of_a_slave_is_read_if_it_is_whole(master_and_slave: tuple[ScriptedPeer, ScriptedPeer]) -> None:
    master, slave = master_and_slave
    slave.script = Broker()
    assert read(master, slave=slave, mode=Mode.FAILFAST) == whole()
    pulls = slave.asked(RequestCode.PULL_MESSAGE)
    assert [(one.ext["queueOffset"], one.ext["maxMsgNums"]) for one in pulls] == [("71", "1")], "nothing else"


def test_a_message_that_is_bad_at_all_copies_is_left_out(
    master_and_slave: tuple[ScriptedPeer, ScriptedPeer], caplog: pytest.LogCaptureFixture
) -> None:
    master, slave = master_and_slave
    assert read(master, slave=slave) == whole(71)
    slave.script = lambda _: None
    assert read(master, slave=slave, num_retries=3) == whole(71)
    assert len(slave.asked(RequestCode.PULL_MESSAGE)) == 2, "a slave is asked once"
    slave.script = Broker(damaged=frozenset({71}))
    assert read(master, slave=slave) == whole(71)
    assert len([one for one in caplog.records if "is left out: offset 71" in one.getMessage()]) == 3


def test_only_messages_that_a_filter_may_return_are_looked_at() -> None:
    """A filtered pull reads on behind its offset, so the offset that is bad is pulled without the filter."""
    with scripted(Broker({72: wrong_body(72), 80: long_body(80), 81: long_body(81)}, tagged=4), queues=3) as peer:
        found = read(peer, tags=("A",))
        assert [offset for offset, _ in found] == [n for n in range(60, 140, 4) if n not in (72, 80)]
        rows = read(peer, WITH_CORRUPT, tags=("A",))
        assert [row[0] for row in rows] == list(range(60, 140, 4))
        pulls = peer.asked(RequestCode.PULL_MESSAGE)
        assert {one.ext["subscription"] for one in pulls} == {"A", "*"}
        assert all(one.ext["maxMsgNums"] == "1" for one in pulls if one.ext["subscription"] == "*")


# -- what can be told of a record


def test_the_first_record_of_an_answer() -> None:
    one, other = record(1), record(2)
    for found, expected in (
        (one + other, one),
        (one, one),
        (with_number(one, 0, 90) + other, with_number(one, 0, 90) + other),
        (with_number(one, 0, 91) + other, with_number(one, 0, 91)[:91]),
        (with_number(one, 0, len(one) + 1), with_number(one, 0, len(one) + 1)),
        (with_number(one, 0, -1), with_number(one, 0, -1)),
        (struct.pack(">i", 0), b"\0\0\0\0"),
        (b"\0\0\0", b"\0\0\0"),
        (b"", b""),
    ):
        assert whole_record(found) == expected


def test_a_dead_letter_of_a_record_that_is_cut_is_what_there_is() -> None:
    for cut in (3, 50, 87, len(record(1)) - 1):
        letter = dead_letter_of(record(1)[:cut], QUEUE, 1, "too short", "bad")
        own = decode_properties(letter.properties)
        assert (letter.topic, letter.body, letter.row_key) == ("bad", record(1)[:cut], "t-broker-a-2-1")
        assert (letter.sharding_key, letter.queue_id, letter.waits) == (None, None, False)
        assert own["SPARK_BAD_REASON"] == "too short"
        assert "TAGS" not in own
    assert dead_letter_of(b"", QUEUE, 1, "not sent", "bad").body == b"not sent"
