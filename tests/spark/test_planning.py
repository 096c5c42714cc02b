"""The streaming readers as Spark calls them on the driver, without a Spark session."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from rocketmq_py.errors import ConfigError, NetworkError, PermissionDenied
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.spark.options import ReadOptions
from rocketmq_py.spark.plan import DataLossError
from rocketmq_py.spark.stream import SUPPORTS_ADMISSION, Ends, LegacyStreamReader
from rocketmq_py.wire.command import Command
from tests.spark.scripted import ScriptedPeer, answer, scripted


class Broker:
    """Queues that hold offsets from ``first`` to ``last``; or an answer of another kind, or none."""

    def __init__(self, first: int = 0, last: int = 100) -> None:
        self.first, self.last = first, last
        self.code = ResponseCode.SUCCESS
        self.away = False

    def __call__(self, request: Command) -> Command | None:
        if self.away:
            return None
        at = self.first if request.code == RequestCode.GET_MIN_OFFSET else self.last
        return answer(self.code, remark="as told", offset=at)


def options(peer: ScriptedPeer, **more: Any) -> ReadOptions:
    given = {"offset_lookup_interval_ms": 0, "num_retries": 0} | more
    return ReadOptions(namesrv=(peer.address,), subscribe=("t",), **given)


def offsets(*ends: int) -> dict[str, Any]:
    return {"t": {"broker-a": {str(i): end for i, end in enumerate(ends)}}}


def ranges(partitions: list[Any]) -> list[tuple[int, int]]:
    return [(partition.range.start, partition.range.stop) for partition in partitions]


def test_brokers_are_asked_no_more_often_than_told() -> None:
    with scripted(Broker(), queues=2) as peer:
        reader = LegacyStreamReader(options(peer, offset_lookup_interval_ms=60_000), None)
        for _ in range(20):
            assert reader.latestOffset() == offsets(100, 100)
            assert reader.reportLatestOffset() == offsets(100, 100)
        reader.stop()
        assert len(peer.asked(RequestCode.GET_MAX_OFFSET)) == 2, "one for each queue"


def test_where_a_new_query_starts_does_not_change() -> None:
    broker = Broker(last=7)
    with scripted(broker) as peer:
        reader = LegacyStreamReader(options(peer), None)
        assert reader.initialOffset() == offsets(7)
        broker.last = 9
        assert reader.initialOffset() == offsets(7)


def test_a_broker_that_is_away_is_waited_for() -> None:
    broker = Broker()
    with scripted(broker) as peer:
        reader = LegacyStreamReader(options(peer), None)
        assert reader.latestOffset() == offsets(100)
        broker.away = True
        assert reader.latestOffset() == offsets(100)
        broker.away, broker.last = False, 120
        assert reader.latestOffset() == offsets(120)
        reader.stop()


def test_a_broker_that_forbids_it_ends_the_query() -> None:
    broker = Broker()
    broker.code = ResponseCode.NO_PERMISSION
    with scripted(broker) as peer:
        reader = LegacyStreamReader(options(peer), None)
        with pytest.raises(PermissionDenied, match="as told"):
            reader.latestOffset()
        reader.stop()


def test_a_restarted_reader_keeps_queues_it_hears_of_from_the_checkpoint() -> None:
    with scripted(Broker(), queues=1) as peer:
        reader = LegacyStreamReader(options(peer), None)
        reader.partitions(offsets(100, 50), offsets(100, 50))
        assert reader.latestOffset() == offsets(100, 50)
        reader.stop()


def test_partitions_cover_two_offsets_and_know_where_to_read() -> None:
    with scripted(Broker(), queues=2) as peer:
        reader = LegacyStreamReader(options(peer), None)
        partitions = reader.partitions(offsets(10, 20), offsets(30, 20))
        reader.stop()
        assert ranges(partitions) == [(10, 30)]
        assert pickle.loads(pickle.dumps(partitions[0])).addresses == (peer.address,)


def test_removed_messages_fail_the_plan_unless_told_otherwise() -> None:
    with scripted(Broker(first=15)) as peer:
        reader = LegacyStreamReader(options(peer), None)
        with pytest.raises(DataLossError, match="offsets 10 to 14 of t@broker-a:0 have been removed"):
            reader.partitions(offsets(10), offsets(30))
        reader.stop()
        lenient = LegacyStreamReader(options(peer, fail_on_data_loss=False), None)
        assert ranges(lenient.partitions(offsets(10), offsets(30))) == [(15, 30)]
        lenient.stop()


def test_a_reader_travels_without_its_connections() -> None:
    with scripted(Broker()) as peer:
        reader = LegacyStreamReader(options(peer), None)
        reader.latestOffset()
        copy = pickle.loads(pickle.dumps(reader))
        assert copy.latestOffset() == offsets(100)
        copy.stop()
        reader.stop()


def test_before_admission_control_a_limit_is_refused() -> None:
    with scripted(Broker()) as peer, pytest.raises(ConfigError, match=r"maxOffsetsPerTrigger needs PySpark 4\.2"):
        LegacyStreamReader(options(peer, max_offsets_per_trigger=5), None)


def test_routes_are_asked_for_anew_when_a_broker_does_not_answer() -> None:
    broker = Broker()
    with scripted(broker) as peer:
        reader = LegacyStreamReader(options(peer), None)
        reader.latestOffset()
        reader.latestOffset()
        assert len(peer.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1
        broker.away = True
        reader.latestOffset()
        reader.latestOffset()
        assert len(peer.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 2
        reader.stop()


if SUPPORTS_ADMISSION:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    from rocketmq_py.spark.stream import StreamReader

    def test_a_limit_bounds_a_micro_batch() -> None:
        with scripted(Broker(), queues=2) as peer:
            reader = StreamReader(options(peer, max_offsets_per_trigger=10), None)
            assert reader.getDefaultReadLimit() == ReadMaxRows(10)
            assert reader.latestOffset(offsets(0, 100), ReadMaxRows(10)) == offsets(10, 100)
            assert reader.latestOffset(offsets(0, 0), ReadAllAvailable()) == offsets(100, 100)
            reader.stop()

    def test_a_limit_counts_from_where_a_new_queue_begins() -> None:
        with scripted(Broker(first=90), queues=2) as peer:
            reader = StreamReader(options(peer), None)
            assert reader.latestOffset(offsets(100), ReadMaxRows(4)) == offsets(100, 94)
            reader.stop()

    def test_a_run_of_what_is_available_is_bounded_and_comes_to_its_end() -> None:
        broker = Broker()
        with scripted(broker) as peer:
            reader = StreamReader(options(peer), None)
            reader.prepareForTriggerAvailableNow()
            broker.last = 500
            assert reader.latestOffset(offsets(0), ReadMaxRows(60)) == offsets(60)
            assert reader.latestOffset(offsets(60), ReadMaxRows(60)) == offsets(100)
            assert reader.latestOffset(offsets(100), ReadMaxRows(60)) == offsets(100)
            reader.stop()

    def test_a_run_of_what_is_available_does_not_begin_without_a_broker() -> None:
        broker = Broker()
        broker.away = True
        with scripted(broker) as peer:
            reader = StreamReader(options(peer), None)
            with pytest.raises(NetworkError, match="is lost"):
                reader.prepareForTriggerAvailableNow()
            reader.stop()


def test_ends_need_a_first_answer_about_the_queues() -> None:
    with scripted(Broker()) as peer:
        pass
    reader = LegacyStreamReader(options(peer), None)
    ends = Ends(reader._ranges.cluster(), options(peer))
    with pytest.raises(Exception, match="no name server answers"):
        ends.latest()
