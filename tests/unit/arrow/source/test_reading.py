"""Reads of many small ranges: few batches, few writes, and each missing message is noticed."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from rocketmq_py.arrow.bad_records import Mode
from rocketmq_py.arrow.decode import Decoder
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.options.selection import Topics
from rocketmq_py.arrow.ranges import DataLossError, QueueRange
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange
from rocketmq_py.arrow.source.reading import read_ranges
from rocketmq_py.arrow.topics import read_schema
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.remoting.blocking import BlockingConnection
from rocketmq_py.wire.command import Command
from tests.accelerated import needs_accelerator
from tests.unit.arrow.scripted import ScriptedPeer, scripted
from tests.unit.arrow.stored import StoredMessages, record

QUEUES, EACH = 100, 20
SCHEMA = read_schema({"columns": ["queueId", "queueOffset"]})


class Holed(StoredMessages):
    """Without the message at offset 7 of queue 41, in the middle of an answer."""

    def pulled(self, queue_id: int, start: int, request: Command) -> Command:
        given = super().pulled(queue_id, start, request)
        if queue_id == 41:
            body = b"".join(record(41, offset) for offset in range(start, self.count) if offset != 7)
            given.body = body
        return given
        return given


def ranges(peer: ScriptedPeer) -> list[LocatedRange]:
    at = Addresses(peer.address)
    return [LocatedRange(QueueRange(MessageQueue("t", "broker-a", q), 0, EACH), at) for q in range(QUEUES)]


def options(peer: ScriptedPeer, **more: Any) -> ReadOptions:
    return ReadOptions(namesrv=(peer.address,), selection=Topics(("t",)), num_retries=1, **more)


def read(peer: ScriptedPeer, **more: Any) -> list[Any]:
    return list(read_ranges(ranges(peer), options(peer, **more), SCHEMA))


def rows(batches: list[Any]) -> list[tuple[int, int]]:
    return [
        row
        for batch in batches
        for row in zip(batch["queueId"].to_pylist(), batch["queueOffset"].to_pylist(), strict=True)
    ]


ALL = [(queue, offset) for queue in range(QUEUES) for offset in range(EACH)]


def test_small_ranges_take_few_writes_and_are_one_batch() -> None:
    sent = []
    send = BlockingConnection.send

    def counted(self: BlockingConnection, requests: Any) -> list[int]:
        sent.append(1)
        return send(self, requests)

    with scripted(StoredMessages(EACH)) as peer, patch.object(BlockingConnection, "send", counted):
        batches = read(peer)
        assert len(peer.asked(RequestCode.PULL_MESSAGE)) == QUEUES
    assert rows(batches) == ALL
    assert len(batches) == 1
    assert len(sent) == 4


@needs_accelerator
def test_a_message_that_is_missing_in_one_of_many_ranges_is_a_loss() -> None:
    with scripted(Holed(EACH)) as peer:
        with pytest.raises(DataLossError, match="1 of offsets 0 to 19 of t@broker-a:41 hold no messages"):
            read(peer)
        assert rows(read(peer, fail_on_data_loss=False)) == [one for one in ALL if one != (41, 7)]
        peer.attributes["cleanup.policy"] = "COMPACTION"
        assert rows(read(peer)) == [one for one in ALL if one != (41, 7)]


def test_ranges_are_decoded_one_by_one_if_one_of_them_is_odd() -> None:
    class Odd(StoredMessages):
        def pulled(self, queue_id: int, start: int, request: Command) -> Command:
            given = super().pulled(queue_id, start, request)
            if queue_id == 3:
                given.body = given.body[:-1]
            return given

    with scripted(Odd(EACH)) as peer:
        found = rows(read(peer, mode=Mode.PERMISSIVE))
    assert [row for row in found if row[0] != 3] == [row for row in ALL if row[0] != 3]


def test_ranges_are_decoded_together_up_to_the_limit() -> None:
    size, together = len(record(0, 0)) * EACH, []
    decode_together = Decoder.decode_together

    def noted(self: Decoder, ranges: Any) -> Any:
        together.append(sum(len(chunk.body) for chunks in ranges for chunk in chunks))
        return decode_together(self, ranges)

    with (
        scripted(StoredMessages(EACH)) as peer,
        patch.object(Decoder, "decode_together", noted),
        patch("rocketmq_py.arrow.source.reading._DECODE_BYTES", 5 * size + 100),
    ):
        assert rows(read(peer)) == ALL
    assert all(4 * size < one <= 5 * size + 100 for one in together[:-1])
    assert len(together) >= QUEUES // 5 - 1


@pytest.mark.parametrize("count", [33, 64, 100])
def test_a_range_of_several_parts_is_read_to_its_end(count: int) -> None:
    size = len(record(0, 0))
    with scripted(StoredMessages(count)) as peer, patch("rocketmq_py.arrow.source.reading._DECODE_BYTES", 32 * size):
        long = LocatedRange(QueueRange(MessageQueue("t", "broker-a", 0), 0, count), Addresses(peer.address))
        batches = list(read_ranges([long], options(peer), SCHEMA))
    assert rows(batches) == [(0, offset) for offset in range(count)]
