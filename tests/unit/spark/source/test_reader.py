"""Reading partitions: a task gives every planned offset, or it fails."""

from __future__ import annotations

import logging
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, InputPartition, LessThan
from pyspark.sql.types import StructType

from rocketmq_py.arrow.decode import Decoder
from rocketmq_py.arrow.fetched import DecoderChoice
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.options.selection import Topics
from rocketmq_py.arrow.ranges import DataLossError, QueueRange
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange
from rocketmq_py.arrow.source import reading
from rocketmq_py.errors import NoRouteError
from rocketmq_py.model import MessageQueue, RecordHead
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.spark.schema import default_schema
from rocketmq_py.spark.source import reader
from rocketmq_py.spark.source.partitions import members, partition
from rocketmq_py.spark.source.reader import BatchReader, PruningReader, QueueRanges
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import encode_record, pack_host
from tests.unit.arrow.scripted import ScriptedPeer, answer, scripted

HOST = pack_host("127.0.0.1", 10911)
QUEUES = [MessageQueue("t", "broker-a", queue_id) for queue_id in range(3)]


def record(queue_id: int, offset: int) -> bytes:
    head = RecordHead(0, 0, 0, queue_id, 7, offset, 9, 0, 5, HOST, 6, HOST, 0, 0, 0)
    return encode_record(head, "t", b"%d" % offset, b"TAGS\x01A\x02")


class Broker:
    """Queues without the messages at offsets ``missing``; ``first`` is where they begin."""

    def __init__(self, missing: range = range(0), first: int = 0) -> None:
        self.missing, self.first = missing, first

    def __call__(self, request: Command) -> Command:
        if request.code == RequestCode.GET_MIN_OFFSET:
            return answer(offset=self.first)
        queue_id, start = int(request.ext["queueId"]), int(request.ext["queueOffset"])
        stop = start + min(int(request.ext["maxMsgNums"]), 32)
        body = b"".join(record(queue_id, offset) for offset in range(start, stop) if offset not in self.missing)
        code = ResponseCode.SUCCESS if body else ResponseCode.PULL_RETRY_IMMEDIATELY
        remark = "FOUND" if body else "NO_MATCHED_MESSAGE"
        at = {"suggestWhichBrokerId": 0, "nextBeginOffset": stop, "minOffset": self.first, "maxOffset": 1000}
        return answer(code, body, remark, **at)


def read(peer: ScriptedPeer, start: int, stop: int, queues: int = 1, **more: Any) -> list[tuple[int, int]]:
    """Queue and offset of each row; several queues share a task."""
    options = ReadOptions(namesrv=(peer.address,), selection=Topics(("t",)), num_retries=1, **more)
    ranges = QueueRanges(options, StructType([default_schema(options)[name] for name in ("queueId", "queueOffset")]))
    at = Addresses(peer.address)
    parts = [LocatedRange(QueueRange(queue, start, stop), at) for queue in QUEUES[:queues]]
    batches = ranges.read(partition(parts))
    return [(row["queueId"], row["queueOffset"]) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("queues", [1, 3])
def test_a_task_returns_every_planned_offset_once(queues: int) -> None:
    with scripted(Broker(), queues=3) as peer:
        assert read(peer, 5, 300, queues) == [(queue, offset) for queue in range(queues) for offset in range(5, 300)]


@pytest.mark.parametrize("queues", [1, 3])
def test_a_gap_in_an_answer_fails_the_task(queues: int) -> None:
    """Where a file of the log is missing, a broker reads on behind it and says nothing."""
    with (
        scripted(Broker(missing=range(70, 74)), queues=3) as peer,
        pytest.raises(DataLossError, match="4 of offsets 0 to 299 of t@broker-a:0 hold no messages"),
    ):
        read(peer, 0, 300, queues)


def test_a_gap_is_a_warning_if_configured(caplog: pytest.LogCaptureFixture) -> None:
    with scripted(Broker(missing=range(70, 74))) as peer, caplog.at_level(logging.WARNING):
        assert len(read(peer, 0, 300, fail_on_data_loss=False)) == 296
    assert "4 of offsets 0 to 299 of t@broker-a:0 hold no messages" in caplog.text


def test_a_compacted_topic_may_have_gaps() -> None:
    with scripted(Broker(missing=range(70, 74))) as peer:
        peer.attributes = {"cleanup.policy": "COMPACTION"}
        assert len(read(peer, 0, 300)) == 296


def test_a_filter_may_return_fewer_rows() -> None:
    with scripted(Broker(missing=range(70, 140))) as peer:
        assert len(read(peer, 0, 300, tags=("A",))) == 230


def test_messages_removed_under_a_filter_fail_the_task() -> None:
    with (
        scripted(Broker(missing=range(140), first=140)) as peer,
        pytest.raises(DataLossError, match="offsets of t@broker-a:0 below 140 have been removed by retention"),
    ):
        read(peer, 0, 300, tags=("A",))


def test_a_filtered_queue_with_an_unknown_beginning_fails_the_task() -> None:
    """Its broker has gone since, and the route names others."""
    with scripted(Broker(missing=range(70, 140))) as peer:
        options = ReadOptions(namesrv=(peer.address,), selection=Topics(("t",)), tags=("A",))
        ranges = QueueRanges(options, StructType([default_schema(options)["queueOffset"]]))
        gone = MessageQueue("t", "broker-b", 0)
        with pytest.raises(NoRouteError, match="no broker serves t@broker-b:0 now, so whether retention removed"):
            list(ranges.read(partition([LocatedRange(QueueRange(gone, 0, 300), Addresses(peer.address))])))


def test_queues_that_share_a_task_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a limit of bytes; each row once, queue after queue."""
    batches: list[int] = []
    together = Decoder.decode_together

    def counted(self: Decoder, ranges: Any) -> Any:
        batches.append(len(ranges))
        return together(self, ranges)

    monkeypatch.setattr(Decoder, "decode_together", counted)
    with scripted(Broker(), queues=3) as peer:
        found = read(peer, 5, 300, queues=3, decoder=DecoderChoice.NUMPY)
        assert found == [(queue, offset) for queue in range(3) for offset in range(5, 300)]
        assert batches == [3]
        batches.clear()
        monkeypatch.setattr(reading, "_DECODE_BYTES", 700 * len(record(0, 100)))
        assert read(peer, 5, 300, queues=3, decoder=DecoderChoice.NUMPY) == found
        assert batches == [2]


def test_a_task_uses_few_connections() -> None:
    with scripted(Broker(), queues=30) as peer:
        taken: set[object] = set()
        process = peer.process_request
        peer.process_request = lambda *a: (taken.add(a[1]), process(*a))[1]  # type: ignore[method-assign]
        options = ReadOptions(namesrv=(peer.address,), selection=Topics(("t",)), num_retries=1)
        ranges = QueueRanges(
            options, StructType([default_schema(options)[name] for name in ("queueId", "queueOffset")])
        )
        queues = [MessageQueue("t", "broker-a", number) for number in range(30)]
        at = Addresses(peer.address)
        batches = list(ranges.read(partition([LocatedRange(QueueRange(queue, 0, 50), at) for queue in queues])))
        assert sum(batch.num_rows for batch in batches) == 30 * 50
        assert len(taken) <= 4


class Times(Broker):
    """Keeps each message for the time that its offset says, in seconds since 1970."""

    def __call__(self, request: Command) -> Command:
        if request.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
            return answer(offset=min(-(-int(request.ext["timestamp"]) // 1000), 1000))
        if request.code == RequestCode.GET_MAX_OFFSET:
            return answer(offset=1000)
        return super().__call__(request)


def planned(reader: BatchReader) -> list[tuple[int, int, int]]:
    """Queue id, start and stop of each range."""
    found = [one.range for partition in reader.partitions() for one in members(partition)]
    return sorted((one.queue.queue_id, one.start, one.stop) for one in found)


def second(number: int) -> datetime:
    return datetime.fromtimestamp(number, UTC)


def test_a_batch_read_plans_the_messages_that_pushed_filters_may_accept() -> None:
    with scripted(Times(first=50), queues=2) as peer:
        options = ReadOptions(namesrv=(peer.address,), selection=Topics(("t",)), num_retries=0)
        schema = StructType([default_schema(options)[name] for name in ("queueId", "queueOffset")])
        plans = {}
        for name, filters in {
            "nothing": [],
            "queue": [EqualTo(("queueId",), 1)],
            "offsets": [GreaterThan(("queueOffset",), 99), LessThan(("queueOffset",), 120)],
            "times": [GreaterThan(("storeTimestamp",), second(700)), LessThan(("storeTimestamp",), second(800))],
        }.items():
            reader = PruningReader(options, schema)
            assert reader.pushFilters(filters) == filters, "Spark checks them all again"
            plans[name] = planned(reader)
        assert planned(BatchReader(options, schema)) == plans["nothing"]
        reader = PruningReader(options, schema)
        reader.pushFilters([EqualTo(("queueId",), 1), LessThan(("queueOffset",), 60)])
        rows = [row for one in reader.partitions() for batch in reader.read(one) for row in batch.to_pylist()]
    assert rows == [{"queueId": 1, "queueOffset": offset} for offset in range(50, 60)]
    assert plans == {
        "nothing": [(0, 50, 1000), (1, 50, 1000)],
        "queue": [(1, 50, 1000)],
        "offsets": [(0, 100, 120), (1, 100, 120)],
        "times": [(0, 701, 800), (1, 701, 800)],
    }


def test_pushed_tags_filter_at_the_broker_unless_the_query_has_a_filter() -> None:
    def subscription(**more: Any) -> set[str]:
        with scripted(Times(), queues=1) as peer:
            options = ReadOptions(namesrv=(peer.address,), selection=Topics(("t",)), num_retries=0, **more)
            reader = PruningReader(options, StructType([default_schema(options)["queueOffset"]]))
            reader.pushFilters([In(("tags",), ("A", "C")), LessThan(("queueOffset",), 5)])
            for one in reader.partitions():
                assert len([row for batch in reader.read(one) for row in batch.to_pylist()]) == 5
            return {one.ext["subscription"] for one in peer.asked(RequestCode.PULL_MESSAGE)}

    assert subscription() == {"A || C"}
    assert subscription(tags=("A", "B")) == {"A || B"}
    assert subscription(sql="a > 1") == {"a > 1"}


def test_a_batch_read_that_starts_or_ends_elsewhere() -> None:
    def plan(**more: Any) -> list[tuple[int, int, int]]:
        with scripted(Times(first=50)) as peer:
            options = ReadOptions(namesrv=(peer.address,), selection=Topics(("t",)), num_retries=0, **more)
            return planned(BatchReader(options, StructType([])))

    assert plan(start={QUEUES[0]: 70}, end={QUEUES[0]: 90}) == [(0, 70, 90)]
    assert plan(start={QUEUES[0]: 1200}, fail_on_data_loss=False) == []
    with pytest.raises(DataLossError, match="t@broker-a:0"):
        plan(start={QUEUES[0]: 1200})
    with pytest.raises(DataLossError, match="offsets 20 to 49 of t@broker-a:0 have been removed"):
        plan(start={QUEUES[0]: 20})


def test_message_sizes_stay_on_the_driver() -> None:
    options = ReadOptions(namesrv=("n:1",), selection=Topics(("t",)))
    ranges = QueueRanges(options, StructType([default_schema(options)["queueOffset"]]))
    ranges.row_bytes["t"] = 100.0
    copy = pickle.loads(pickle.dumps(ranges))
    assert (copy.row_bytes, ranges.row_bytes, copy.options) == ({}, {"t": 100.0}, options)


def test_a_placeholder_partition_has_no_rows() -> None:
    options = ReadOptions(namesrv=("n:1",), selection=Topics(("t",)))
    reader = BatchReader(options, StructType([default_schema(options)["queueOffset"]]))
    assert list(reader.read(InputPartition(None))) == []
    with pytest.raises(TypeError, match="a partition of this source is expected"):
        list(reader.read(InputPartition(3)))


def test_the_imports_of_a_worker_are_kept_by_each_task(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    monkeypatch.setattr(reader, "keep_imports", lambda: kept.append(1))
    with scripted(Broker()) as peer:
        read(peer, 0, 3)
        read(peer, 0, 3)
    assert kept == [1, 1]


def test_pulls_name_the_group_of_the_query() -> None:
    def group(**more: Any) -> set[str]:
        with scripted(Broker()) as peer:
            assert len(read(peer, 5, 10, **more)) == 5
            return {one.ext["consumerGroup"] for one in peer.asked(RequestCode.PULL_MESSAGE)}

    assert (group(), group(group="g")) == ({"TOOLS_CONSUMER"}, {"g"})
