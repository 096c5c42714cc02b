"""The streaming readers as Spark calls them on the driver, without a Spark session."""

from __future__ import annotations

import json
import pickle
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketmq_py.arrow.options.offsets import Boundary, FromGroup
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.options.selection import Topics
from rocketmq_py.arrow.ranges import DataLossError
from rocketmq_py.arrow.remoting.broker_origin import BrokerOrigin
from rocketmq_py.arrow.remoting.queues import Addresses, QueueRoutes
from rocketmq_py.errors import ConfigError, NetworkError, PermissionDenied
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import BrokerData, ClusterInfo
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.spark.source import queue_ends, stream
from rocketmq_py.spark.source.group_offsets import GroupFollower
from rocketmq_py.spark.source.queue_ends import StreamEnds
from rocketmq_py.spark.source.stream import SUPPORTS_ADMISSION, LegacyStreamReader, stream_reader
from rocketmq_py.wire.command import Command
from tests.unit.arrow.scripted import ScriptedPeer, answer, scripted

QUEUE = MessageQueue("t", "broker-a", 0)
QUEUES = [QUEUE, MessageQueue("t", "broker-a", 1)]


class Broker:
    """Queues that hold offsets from ``first`` to ``last``; or an answer of another kind, or none.

    It keeps the offsets of groups, and its name is registered while ``registered``.
    """

    def __init__(self, first: int = 0, last: int = 100) -> None:
        self.first, self.last = first, last
        self.code = ResponseCode.SUCCESS
        self.away = False
        self.registered = True
        self.committed: dict[int, int] = {}

    def __call__(self, request: Command) -> Command | None:
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            known = {"broker-a": BrokerData(broker_name="broker-a", cluster="c")} if self.registered else {}
            return answer(body=ClusterInfo(broker_addr_table=known).encode())
        if self.away:
            return None
        if request.code in (RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET):
            return self._group(request)
        at = self.first if request.code == RequestCode.GET_MIN_OFFSET else self.last
        return answer(self.code, remark="as told", offset=at)

    def _group(self, request: Command) -> Command:
        queue = int(request.ext["queueId"])
        if "commitOffset" in request.ext:
            self.committed[queue] = int(request.ext["commitOffset"])
            return answer(self.code, remark="as told")
        if queue not in self.committed:
            return answer(ResponseCode.QUERY_NOT_FOUND, remark="none")
        return answer(offset=self.committed[queue])


def options(peer: ScriptedPeer, **more: Any) -> ReadOptions:
    given = {"offset_lookup_interval_ms": 0, "num_retries": 0} | more
    return ReadOptions(namesrv=(peer.address,), selection=Topics(("t",)), **given)


def offsets(*ends: int) -> dict[str, Any]:
    return {"t": {"broker-a": {str(i): end for i, end in enumerate(ends)}}}


def ranges(partitions: list[Any]) -> list[tuple[int, int]]:
    return [(partition.located.range.start, partition.located.range.stop) for partition in partitions]


def test_brokers_are_queried_at_the_configured_interval() -> None:
    with scripted(Broker(), queues=2) as peer:
        reader = LegacyStreamReader(options(peer, offset_lookup_interval_ms=60_000), None)
        for _ in range(20):
            assert reader.latestOffset() == offsets(100, 100)
            assert reader.reportLatestOffset() == offsets(100, 100)
        reader.stop()
        assert len(peer.asked(RequestCode.GET_MAX_OFFSET)) == 2, "one for each queue"


def test_the_start_of_a_new_query_does_not_change() -> None:
    broker = Broker(last=7)
    with scripted(broker) as peer:
        reader = LegacyStreamReader(options(peer), None)
        assert reader.initialOffset() == offsets(7)
        broker.last = 9
        assert reader.initialOffset() == offsets(7)
        reader.stop()


def test_a_broker_that_is_down_is_retried() -> None:
    broker = Broker()
    with scripted(broker) as peer:
        reader = LegacyStreamReader(options(peer), None)
        assert reader.latestOffset() == offsets(100)
        broker.away = True
        assert reader.latestOffset() == offsets(100)
        broker.away, broker.last = False, 120
        assert reader.latestOffset() == offsets(120)
        reader.stop()


def test_a_missing_permission_fails_the_query() -> None:
    broker = Broker()
    broker.code = ResponseCode.NO_PERMISSION
    with scripted(broker) as peer:
        reader = LegacyStreamReader(options(peer), None)
        with pytest.raises(PermissionDenied, match="as told"):
            reader.latestOffset()
        reader.stop()


def test_a_restarted_reader_keeps_the_queues_of_the_checkpoint() -> None:
    broker = Broker()
    broker.registered = False
    with scripted(broker, queues=1) as peer:
        reader = LegacyStreamReader(options(peer), None)
        reader.partitions(offsets(100, 50), offsets(100, 50))
        assert reader.latestOffset() == offsets(100, 50)
        reader.stop()


def test_partitions_cover_the_range_between_two_offsets() -> None:
    with scripted(Broker(), queues=2) as peer:
        reader = LegacyStreamReader(options(peer), None)
        partitions = reader.partitions(offsets(10, 20), offsets(30, 20))
        reader.stop()
        assert ranges(partitions) == [(10, 30)]
        assert pickle.loads(pickle.dumps(partitions[0])).located.addresses.all == (peer.address,)


def test_removed_messages_fail_the_plan_unless_configured() -> None:
    with scripted(Broker(first=15)) as peer:
        reader = LegacyStreamReader(options(peer), None)
        with pytest.raises(DataLossError, match="offsets 10 to 14 of t@broker-a:0 have been removed"):
            reader.partitions(offsets(10), offsets(30))
        reader.stop()
        lenient = LegacyStreamReader(options(peer, fail_on_data_loss=False), None)
        assert ranges(lenient.partitions(offsets(10), offsets(30))) == [(15, 30)]
        lenient.stop()


def test_a_reader_is_pickled_without_its_connections() -> None:
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


def test_routes_are_refreshed_when_a_broker_does_not_answer() -> None:
    broker = Broker()
    with scripted(broker) as peer:
        reader = LegacyStreamReader(options(peer), None)
        reader.latestOffset()
        reader.latestOffset()
        assert len(peer.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1
        broker.away = True
        reader.latestOffset()
        assert len(peer.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 2
        reader.stop()


if SUPPORTS_ADMISSION:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

    from rocketmq_py.spark.source.stream import StreamReader

    def test_a_limit_bounds_a_micro_batch() -> None:
        with scripted(Broker(), queues=2) as peer:
            reader = StreamReader(options(peer, max_offsets_per_trigger=10), None)
            assert reader.getDefaultReadLimit() == ReadMaxRows(10)
            assert reader.latestOffset(offsets(0, 100), ReadMaxRows(10)) == offsets(10, 100)
            assert reader.latestOffset(offsets(0, 0), ReadAllAvailable()) == offsets(100, 100)
            reader.stop()

    class Sized(Broker):
        """Messages of 1,000 bytes up to offset 50, of 200 from there on."""

        def __call__(self, request: Command) -> Command | None:
            if request.code != RequestCode.PULL_MESSAGE:
                return super().__call__(request)
            start = int(request.ext["queueOffset"])
            size = 1_000 if start < 50 else 200
            at = {"suggestWhichBrokerId": 0, "nextBeginOffset": start + 4, "minOffset": 0, "maxOffset": 100}
            return answer(body=bytes(4 * size), remark="FOUND", **at)

    def test_a_limit_of_bytes_bounds_a_micro_batch() -> None:
        with scripted(Sized()) as peer:
            reader = StreamReader(options(peer, max_bytes_per_trigger=20_000), None)
            limit = reader.getDefaultReadLimit()
            assert limit == ReadMaxBytes(20_000)
            assert reader.latestOffset(offsets(0), limit) == offsets(20), "of 100 messages of 1,000 bytes"
            assert reader.latestOffset(offsets(50), limit) == offsets(100), "50 messages of 200 bytes fit"
            assert reader.latestOffset(offsets(0), ReadMaxBytes(1)) == offsets(1), "one message at least"
            assert reader.latestOffset(offsets(0), ReadAllAvailable()) == offsets(100)
            reader.stop()

    def test_limits_of_rows_and_bytes_both_hold() -> None:
        with scripted(Sized()) as peer:
            reader = StreamReader(options(peer, max_offsets_per_trigger=30, max_bytes_per_trigger=20_000), None)
            assert reader.getDefaultReadLimit() == ReadMaxRows(30)
            assert reader.latestOffset(offsets(0), ReadMaxRows(30)) == offsets(20)
            assert reader.latestOffset(offsets(50), ReadMaxRows(30)) == offsets(80)
            reader.stop()

    def test_messages_that_cannot_be_pulled_count_as_before() -> None:
        broker = Sized()
        with scripted(broker) as peer:
            reader = StreamReader(options(peer, max_bytes_per_trigger=20_000), None)
            assert reader.latestOffset(offsets(0), ReadMaxBytes(20_000)) == offsets(20)
            peer.script = lambda request: (
                answer(ResponseCode.PULL_RETRY_IMMEDIATELY)
                if request.code == RequestCode.PULL_MESSAGE
                else broker(request)
            )
            assert reader.latestOffset(offsets(50), ReadMaxBytes(20_000)) == offsets(70)
            reader.stop()

    def test_a_limit_counts_from_the_start_of_a_new_queue() -> None:
        with scripted(Broker(first=90), queues=2) as peer:
            reader = StreamReader(options(peer), None)
            assert reader.latestOffset(offsets(100), ReadMaxRows(4)) == offsets(100, 94)
            reader.stop()

    def test_an_available_now_run_is_limited_and_ends() -> None:
        broker = Broker()
        with scripted(broker) as peer:
            reader = StreamReader(options(peer), None)
            reader.prepareForTriggerAvailableNow()
            broker.last = 500
            assert reader.latestOffset(offsets(0), ReadMaxRows(60)) == offsets(60)
            assert reader.latestOffset(offsets(60), ReadMaxRows(60)) == offsets(100)
            assert reader.latestOffset(offsets(100), ReadMaxRows(60)) == offsets(100)
            reader.stop()

    def test_an_available_now_run_needs_a_reachable_broker() -> None:
        broker = Broker()
        broker.away = True
        with scripted(broker) as peer:
            reader = StreamReader(options(peer), None)
            with pytest.raises(NetworkError, match="the peer closed it"):
                reader.prepareForTriggerAvailableNow()
            reader.stop()

    def test_a_removed_queue_is_logged_and_then_skipped(caplog: pytest.LogCaptureFixture) -> None:
        with scripted(Broker(), queues=2) as peer:
            reader = StreamReader(options(peer, poll_name_server_interval_ms=1, fail_on_data_loss=False), None)
            assert reader.latestOffset(offsets(10, 10), ReadAllAvailable()) == offsets(100, 100)
            peer.queues = 1
            reader._ends.look_again()
            end = reader.latestOffset(offsets(100, 100), ReadAllAvailable())
            assert end == offsets(100)
            assert reader.partitions(offsets(100, 100), end) == []
            assert "t@broker-a:1, read up to offset 100, is gone" in caplog.text
            reader.stop()

    def test_a_queue_of_an_unregistered_broker_is_waited_for() -> None:
        broker = Broker()
        with scripted(broker, queues=2) as peer:
            reader = StreamReader(options(peer), None)
            reader.latestOffset(offsets(10, 10), ReadAllAvailable())
            peer.queues, broker.registered = 1, False
            reader._ends.look_again()
            assert reader.latestOffset(offsets(100, 50), ReadAllAvailable()) == offsets(100, 50)
            reader.stop()

    def test_a_queue_of_a_broker_that_registers_meanwhile_is_kept() -> None:
        """As with a name server that has just started."""
        broker = Broker()

        def registering(request: Command) -> Command | None:
            if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
                peer.queues = 2
            return broker(request)

        with scripted(registering, queues=2) as peer:
            reader = StreamReader(options(peer), None)
            reader.prepareForTriggerAvailableNow()
            peer.queues = 0
            reader._ends.look_again()
            assert reader.latestOffset(offsets(20, 20), ReadAllAvailable()) == offsets(100, 100)
            assert reader.partitions(offsets(20, 20), offsets(100, 100)), "and nothing is lost"
            reader.stop()

    def test_few_messages_wait_for_the_minimum_or_the_delay() -> None:
        broker = Broker(last=5)
        with scripted(broker) as peer:
            reader = StreamReader(options(peer, min_offsets_per_trigger=10, max_trigger_delay=3600.0), None)
            assert reader.latestOffset(offsets(0), ReadAllAvailable()) == offsets(5), "the first one does not wait"
            broker.last = 14
            assert reader.latestOffset(offsets(5), ReadAllAvailable()) == offsets(5)
            broker.last = 15
            assert reader.latestOffset(offsets(5), ReadAllAvailable()) == offsets(15)
            broker.last = 16
            reader._batch_at -= 3600
            assert reader.latestOffset(offsets(15), ReadAllAvailable()) == offsets(16)
            reader.stop()

    def test_a_repeated_first_micro_batch_starts_at_the_same_offsets() -> None:
        """Spark does not keep the first offsets, and "latest" has moved to the end of the micro-batch, or beyond."""
        broker = Broker(last=10)
        with scripted(broker) as peer:
            reader = StreamReader(options(peer), None)
            start = reader.initialOffset()
            broker.last = 30
            end = json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable())))
            assert ranges(reader.partitions(start, end)) == [(10, 30)]
            reader.stop()
            for moved in (30, 70):
                broker.last = moved
                again = StreamReader(options(peer), None)
                assert ranges(again.partitions(again.initialOffset(), end)) == [(10, 30)]
                broker.last = 90
                later = again.latestOffset(end, ReadAllAvailable())
                assert ranges(again.partitions(end, later)) == [(30, 90)]
                assert again.latestOffset(later, ReadAllAvailable()) == later
                again.stop()

    def test_a_micro_batch_that_ends_where_the_first_one_ended_is_empty() -> None:
        """Its offsets have the start of the first micro-batch, which has been read."""
        broker = Broker(last=30)
        with scripted(broker) as peer:
            reader = StreamReader(options(peer, start=Boundary.EARLIEST), None)
            end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
            assert ranges(reader.partitions(reader.initialOffset(), end)) == [(0, 30)]
            assert reader.latestOffset(end, ReadAllAvailable()) == end
            assert reader.partitions(end, end) == []
            reader.stop()
            again = StreamReader(options(peer, start=Boundary.EARLIEST), None)
            assert again.partitions(end, end) == []
            again.stop()

    def test_a_first_micro_batch_without_recorded_start_reads_nothing_that_is_not_known_to_be_new() -> None:
        """A checkpoint of an earlier version; "latest" has moved beyond the end of its only micro-batch."""
        broker = Broker(last=70)
        with scripted(broker) as peer:
            lenient = StreamReader(options(peer, fail_on_data_loss=False), None)
            assert ranges(lenient.partitions(lenient.initialOffset(), offsets(30))) == []
            lenient.stop()
            strict = StreamReader(options(peer), None)
            with pytest.raises(DataLossError, match="the first micro-batch is repeated"):
                strict.partitions(strict.initialOffset(), offsets(30))
            strict.stop()

    def test_messages_removed_from_a_repeated_first_micro_batch_are_a_loss() -> None:
        broker = Broker()
        with scripted(broker) as peer:
            reader = StreamReader(options(peer, start=Boundary.EARLIEST), None)
            end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
            reader.stop()
            broker.first = 40
            again = StreamReader(options(peer, start=Boundary.EARLIEST), None)
            with pytest.raises(DataLossError, match="offsets 0 to 39 of t@broker-a:0 have been removed"):
                again.partitions(again.initialOffset(), end)
            again.stop()

    def test_an_available_now_run_does_not_wait_for_messages() -> None:
        with scripted(Broker(last=5)) as peer:
            reader = StreamReader(options(peer, min_offsets_per_trigger=10), None)
            reader._batch_at = float("inf")
            reader.prepareForTriggerAvailableNow()
            assert reader.latestOffset(offsets(0), ReadAllAvailable()) == offsets(5)
            reader.stop()

    def test_the_group_gets_the_offsets_committed_by_spark() -> None:
        broker = Broker()
        with scripted(broker, queues=2) as peer:
            reader = StreamReader(options(peer, group="g", start=Boundary.EARLIEST), None)
            reader.initialOffset()
            reader.latestOffset(offsets(0, 0), ReadMaxRows(20))
            reader.partitions(offsets(0, 0), offsets(10, 10))
            assert broker.committed == {}, "the micro-batch is planned, not committed"
            reader.latestOffset(offsets(10, 10), ReadMaxRows(20))
            assert broker.committed == {0: 10, 1: 10}
            asked = len(peer.asked(RequestCode.UPDATE_CONSUMER_OFFSET))
            reader.commit(offsets(10, 10))
            assert len(peer.asked(RequestCode.UPDATE_CONSUMER_OFFSET)) == asked
            reader.stop()

    def test_a_restart_uses_the_checkpoint_and_logs_it(caplog: pytest.LogCaptureFixture) -> None:
        broker = Broker()
        broker.committed = {0: 40}
        with scripted(broker) as peer:
            reader = StreamReader(options(peer, group="g"), None)
            assert reader.latestOffset(offsets(60), ReadMaxRows(10)) == offsets(70)
            assert "group g has offset 40 of t@broker-a:0, the checkpoint 60" in caplog.text
            assert broker.committed == {0: 60}
            reader.stop()

    def test_a_failed_group_commit_does_not_fail_the_query(caplog: pytest.LogCaptureFixture) -> None:
        broker = Broker()
        with scripted(broker) as peer:
            reader = StreamReader(options(peer, group="g"), None)
            reader.latestOffset(offsets(10), ReadMaxRows(10))
            broker.code = ResponseCode.NO_PERMISSION
            reader._done({QUEUE: 20})
            assert "group g stays behind for now" in caplog.text
            broker.code = ResponseCode.SUCCESS
            reader._done({QUEUE: 20})
            assert broker.committed == {0: 20}
            reader.stop()

    def test_a_restart_compares_its_group_with_the_checkpoint_once(caplog: pytest.LogCaptureFixture) -> None:
        broker = Broker()
        broker.committed = {0: 40, 1: 60}
        with scripted(broker, queues=3) as peer:
            reader = StreamReader(options(peer, group="g"), None)
            for start in (60, 70):
                reader.latestOffset(offsets(start, 60, start), ReadMaxRows(10))
            assert len(peer.asked(RequestCode.QUERY_CONSUMER_OFFSET)) == 3, "one for each queue"
            reader.stop()
            told = [one.getMessage() for one in caplog.records if "the checkpoint" in one.getMessage()]
            assert len(told) == 1
            assert "group g has offset 40 of t@broker-a:0, the checkpoint 60 (1 of 3 queues differ)" in told[0]
            new = StreamReader(options(peer, group="g"), None)
            new.latestOffset(new.initialOffset(), ReadAllAvailable())
            assert len(peer.asked(RequestCode.QUERY_CONSUMER_OFFSET)) == 3, "a new query has no checkpoint"
            new.stop()

    def test_earliest_offsets_are_asked_for_if_there_are_new_queues() -> None:
        with scripted(Broker(), queues=2) as peer:
            reader = StreamReader(options(peer), None)
            reader.latestOffset(offsets(10, 10), ReadMaxRows(5))
            assert peer.asked(RequestCode.GET_MIN_OFFSET) == []
            reader.latestOffset(offsets(10), ReadMaxRows(5))
            assert len(peer.asked(RequestCode.GET_MIN_OFFSET)) == 2
            reader.stop()

    def test_a_group_whose_offsets_are_not_known_does_not_stop_a_restart(caplog: pytest.LogCaptureFixture) -> None:
        broker = Broker()
        with scripted(broker) as peer:
            respond = peer.respond
            peer.respond = lambda one: (  # type: ignore[method-assign]
                answer(ResponseCode.NO_PERMISSION, remark="not you")
                if one.code == RequestCode.QUERY_CONSUMER_OFFSET
                else respond(one)
            )
            reader = StreamReader(options(peer, group="g"), None)
            assert reader.latestOffset(offsets(60), ReadMaxRows(10)) == offsets(70)
            assert "the offsets of group g are not known, the query continues from its checkpoint" in caplog.text
            reader.stop()

    def test_a_query_without_a_limit_reads_all() -> None:
        with scripted(Broker()) as peer:
            reader = StreamReader(options(peer), None)
            assert reader.getDefaultReadLimit() == ReadAllAvailable()
            assert reader.latestOffset(offsets(100), ReadAllAvailable()) == offsets(100)
            assert isinstance(stream_reader(options(peer), None), StreamReader)
            reader.stop()

    def test_the_offsets_of_a_group_are_sent_once(caplog: pytest.LogCaptureFixture) -> None:
        """Those that have not changed are left out, and the retry topic of the group is made once."""
        broker = Broker()
        with scripted(broker, queues=2) as peer:
            reader = StreamReader(options(peer, group="g"), None)
            for done in ((10, 10), (10, 20), (10, 20)):
                reader.commit(offsets(*done))
            sent = peer.asked(RequestCode.UPDATE_CONSUMER_OFFSET)
            told = [(one.ext["queueId"], one.ext["commitOffset"]) for one in sent]
            assert told == [("0", "10"), ("1", "10"), ("1", "20")]
            retry = [one for one in peer.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC) if one.ext["topic"] == "%RETRY%g"]
            assert len(retry) == 1
            reader.stop()


def test_without_progress_reports_offsets_are_committed(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing:
        def __init__(self) -> None:
            self.committed: list[Any] = []

        def commit(self, *what: Any) -> None:
            self.committed.append(what)

        def show(self, group: str, queues: QueueRoutes) -> None:
            raise PermissionDenied(ResponseCode.NO_PERMISSION, f"no topics for {group} at {queues}")

    cluster: Any = Refusing()
    queues = QueueRoutes({QUEUE: Addresses("127.0.0.1:1")})
    follower = GroupFollower("g", lambda: cluster, lambda: queues)
    for offset in (5, 6):
        follower.done({QUEUE: offset})
    assert [offsets for _, offsets, _ in cluster.committed] == [{QUEUE: 5}, {QUEUE: 6}]
    assert caplog.text.count("do not find group g until a consumer joins it or topic %RETRY%g is made") == 1


def test_before_admission_control_the_next_micro_batch_commits_the_group() -> None:
    broker = Broker()
    with scripted(broker) as peer:
        reader = LegacyStreamReader(options(peer, group="g", start=Boundary.EARLIEST), None)
        reader.initialOffset()
        reader.latestOffset()
        reader.partitions(offsets(0), offsets(100))
        assert broker.committed == {}
        reader.latestOffset()
        assert broker.committed == {0: 100}
        reader.stop()


def test_a_new_query_can_start_at_the_offsets_of_a_group() -> None:
    broker = Broker()
    broker.committed = {0: 40}
    with scripted(broker, queues=2) as peer:
        reader = LegacyStreamReader(options(peer, group="g", start=FromGroup("g")), None)
        assert reader.initialOffset() == offsets(40, 0)
        reader.stop()


def test_before_admission_control_a_repeated_first_micro_batch_starts_at_the_same_offsets() -> None:
    broker = Broker(last=10)
    with scripted(broker) as peer:
        reader = LegacyStreamReader(options(peer), None)
        start = reader.initialOffset()
        broker.last = 30
        end = reader.latestOffset()
        assert ranges(reader.partitions(start, end)) == [(10, 30)]
        assert reader.latestOffset() == end, "the same document, or Spark would plan an empty micro-batch"
        reader.stop()
        again = LegacyStreamReader(options(peer), None)
        assert ranges(again.partitions(again.initialOffset(), end)) == [(10, 30)]
        again.stop()


def test_a_lagging_slave_does_not_look_like_a_recreated_queue() -> None:
    with scripted(Broker(last=80)) as slave:
        with scripted(Broker()) as master:
            pass
        with scripted(Broker()) as namesrv:
            at = BrokerData(broker_name="broker-a", cluster="c", broker_addrs={0: master.address, 1: slave.address})
            namesrv.brokers = [at]
            reader = LegacyStreamReader(options(namesrv), None)
            reader._current = {QUEUE: 90}
            assert reader.latestOffset() == offsets(90)
            reader.stop()


def test_a_checkpoint_may_contain_deselected_topics(caplog: pytest.LogCaptureFixture) -> None:
    with scripted(Broker()) as peer:
        reader = LegacyStreamReader(options(peer), None)
        before = {**offsets(10), "left": {"broker-a": {"0": 5}}}
        assert ranges(reader.partitions(before, offsets(30))) == [(10, 30)]
        assert "left@broker-a:0 is in the checkpoint and not selected any more" in caplog.text
        with pytest.raises(ConfigError, match="the checkpoint is of topics left, option subscribe names t: use"):
            reader.partitions({"left": {"broker-a": {"0": 5}}}, offsets(30))
        reader.stop()


def test_partitions_are_split_by_the_options() -> None:
    with scripted(Broker()) as peer:
        reader = LegacyStreamReader(options(peer, max_records_per_partition=15, min_partitions=2), None)
        assert ranges(reader.partitions(offsets(0), offsets(30))) == [(0, 15), (15, 30)]
        reader.stop()


def test_end_offsets_need_a_reachable_name_server_first() -> None:
    with scripted(Broker()) as peer:
        pass
    reader = LegacyStreamReader(options(peer), None)
    ends = StreamEnds(reader._ranges.cluster(), options(peer))
    with pytest.raises(NetworkError, match="no name server answers"):
        ends.latest({})


def test_routes_are_looked_up_at_the_configured_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(queue_ends, "time", SimpleNamespace(monotonic=lambda: now[0]))
    broker = Broker()
    with scripted(broker, queues=2) as peer:
        given = options(peer, poll_name_server_interval_ms=30_000, offset_lookup_interval_ms=500)
        with closing(LegacyStreamReader(given, None)._ranges.cluster()) as cluster:
            ends = StreamEnds(cluster, given)
            looked = []
            for at in (1000.0, 1000.4, 1000.5, 1029.5, 1030.0):
                now[0] = at
                ends.latest({})
                routes, latest = (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_MAX_OFFSET)
                looked.append((len(peer.asked(routes)), len(peer.asked(latest)) // 2))
            assert looked == [(1, 1), (1, 1), (1, 2), (1, 3), (2, 4)]


def test_queues_that_cannot_be_looked_up_again_stay(caplog: pytest.LogCaptureFixture) -> None:
    with scripted(Broker(), queues=2) as peer:
        reader = LegacyStreamReader(options(peer), None)
        assert reader.latestOffset() == offsets(100, 100)
        respond = peer.respond
        peer.respond = lambda one: (  # type: ignore[method-assign]
            answer(ResponseCode.SYSTEM_ERROR, remark="starting")
            if one.code in (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO)
            else respond(one)
        )
        reader._ends.look_again()
        assert reader.latestOffset() == offsets(100, 100)
        assert "the queues cannot be looked up, going on with the known ones" in caplog.text
        gone = MessageQueue("t", "broker-a", 7)
        assert reader._ends.gone([gone]) == set()
        assert f"it is not known whether {gone} is gone or its broker is away" in caplog.text
        peer.respond = respond  # type: ignore[method-assign]
        assert reader._ends.gone([gone, QUEUE]) == {gone}
        asked = len(peer.asked(RequestCode.GET_BROKER_CLUSTER_INFO))
        assert reader._ends.gone([gone]) == {gone}
        assert len(peer.asked(RequestCode.GET_BROKER_CLUSTER_INFO)) == asked, "known until the routes are looked up"
        reader.stop()


def test_topics_may_be_missing_after_a_first_look_or_a_restart() -> None:
    """At the first look of a new query they are an error of its options; later they are reported as lost."""
    asked: list[bool] = []

    class Cluster:
        def selected(self, _: object, *, missing: bool) -> list[MessageQueue]:
            asked.append(missing)
            return [QUEUE]

    with scripted(Broker()) as peer:
        fresh, restarted = (StreamEnds(cast(BrokerOrigin, Cluster()), options(peer)) for _ in range(2))
    restarted.resume()
    for ends in (fresh, restarted):
        for _ in range(2):
            ends.look_again()
            ends.queues()
    assert asked == [False, True, True, True]


def test_offsets_of_a_slave_are_not_below_the_start() -> None:
    """The slave lags behind the micro-batch before; the queue of a master is taken as it is."""
    with scripted(Broker(last=80)) as slave, scripted(Broker()) as namesrv:
        at = BrokerData(broker_name="broker-a", cluster="c", broker_addrs={1: slave.address})
        namesrv.brokers = [at]
        with closing(LegacyStreamReader(options(namesrv), None)._ranges.cluster()) as cluster:
            ends = StreamEnds(cluster, options(namesrv))
            assert ends.latest({QUEUE: 90}) == {QUEUE: 90}
            assert ends.latest({QUEUE: 70}) == ends.latest({}) == {QUEUE: 80}
    with (
        scripted(Broker(last=80)) as master,
        closing(LegacyStreamReader(options(master), None)._ranges.cluster()) as one,
    ):
        assert StreamEnds(one, options(master)).latest({QUEUE: 90}) == {QUEUE: 80}


def test_a_run_that_ends_at_offsets_of_a_slave_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with scripted(Broker(last=80)) as slave, scripted(Broker(), queues=2) as namesrv:
        namesrv.brokers = [BrokerData(broker_name="broker-a", cluster="c", broker_addrs={1: slave.address})]
        with closing(LegacyStreamReader(options(namesrv), None)._ranges.cluster()) as cluster:
            assert StreamEnds(cluster, options(namesrv)).latest_of_all() == dict.fromkeys(QUEUES, 80)
    told = [one.getMessage() for one in caplog.records]
    assert told == ["no master of broker-a answers: the run ends at the latest offsets of its slave"]


def test_before_the_first_offsets_nothing_is_reported() -> None:
    broker = Broker()
    with scripted(broker) as peer:
        reader = LegacyStreamReader(options(peer), None)
        broker.away = True
        assert reader.reportLatestOffset() is None
        broker.away = False
        assert reader.reportLatestOffset() == offsets(100)
        reader.stop()
    LegacyStreamReader(options(peer), None).stop()  # nothing is open


def test_an_old_pyspark_gets_the_reader_without_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SUPPORTS_ADMISSION", False)
    with scripted(Broker()) as peer:
        assert type(stream_reader(options(peer), None)) is LegacyStreamReader
        with pytest.raises(ConfigError, match=r"minOffsetsPerTrigger needs PySpark 4\.2"):
            stream_reader(options(peer, min_offsets_per_trigger=5), None)


def test_a_checkpoint_may_be_of_no_queues() -> None:
    """As of a pattern that no topic matched."""
    with scripted(Broker()) as peer:
        reader = LegacyStreamReader(options(peer), None)
        assert ranges(reader.partitions({}, offsets(30))) == [(0, 30)]
        reader.stop()
