"""Fetching a range: every answer of a broker, and broken connections. No Spark needed."""

from __future__ import annotations

import logging
import pickle
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from rocketmq_py.arrow.ranges import DataLossError, QueueRange
from rocketmq_py.arrow.remoting.connection import IdleConnections, connect
from rocketmq_py.arrow.remoting.fetch import Fetcher, FetchSettings, Lag, SlaveClosed
from rocketmq_py.arrow.remoting.filters import EVERYTHING, MessageFilter, message_filter
from rocketmq_py.arrow.remoting.queues import Addresses
from rocketmq_py.errors import ConfigError, NetworkError, NoRouteError, PermissionDenied, RocketMQError
from rocketmq_py.model import MessageQueue, RecordHead
from rocketmq_py.protocol.bodies.route import BrokerData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.remoting.blocking import BlockingConnection
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_records, encode_record
from tests.unit.arrow.scripted import ScriptedPeer, answer, scripted

PATIENCE = 120.0
QUEUE = MessageQueue("orders", "broker-a", 0)


def found(request: Command, most: int = 32, end: int = 1 << 40) -> Command:
    """As a broker answers: one byte per message, at most ``most``."""
    start, wanted = int(request.ext["queueOffset"]), int(request.ext["maxMsgNums"])
    stop = min(start + min(wanted, most), end)
    return answer(body=bytes(i % 251 for i in range(start, stop)), **pull_header(stop))


def pull_header(reached: int, least: int = 0, most: int = 1 << 40) -> dict[str, object]:
    return {"suggestWhichBrokerId": 0, "nextBeginOffset": reached, "minOffset": least, "maxOffset": most}


def fetch(
    peer: ScriptedPeer, start: int, stop: int, *, retries: int = 3, slave: str | None = None, **more: Any
) -> bytes:
    fetcher = fetcher_of(peer, start, stop, retries=retries, slave=slave, **more)
    try:
        return body_of(fetcher)
    finally:
        fetcher.close()


def fetcher_of(
    peer: ScriptedPeer, start: int, stop: int, *, retries: int = 3, slave: str | None = None, **more: Any
) -> Fetcher:
    given = {"fail_on_data_loss": True} | more
    settings = FetchSettings(namesrv=(peer.address,), timeout=5, retries=retries, in_flight=8, **given)
    at = Addresses(peer.address, () if slave is None else ((1, slave),))
    return Fetcher(QueueRange(QUEUE, start, stop), at, settings)


def body_of(fetcher: Fetcher) -> bytes:
    return b"".join(chunk.body for chunks in fetcher.chunks() for chunk in chunks)


def messages(start: int, stop: int) -> bytes:
    return bytes(i % 251 for i in range(start, stop))


def sometimes(every: int, instead: Callable[[Command], Command | None]) -> Callable[[Command], Command | None]:
    """A broker that does something else with every n-th pull."""
    pulls = iter(range(1, 1 << 40))
    return lambda request: instead(request) if next(pulls) % every == 0 else found(request)


def test_a_range_is_fetched_completely() -> None:
    with scripted(found) as peer:
        assert fetch(peer, 5, 1000) == messages(5, 1000)
        pulls = peer.asked(RequestCode.PULL_MESSAGE)
    assert len(pulls) == 32, "as many pulls as answers of 32 messages"
    assert pulls[0].ext["consumerGroup"] == "TOOLS_CONSUMER"
    assert pulls[0].ext["sysFlag"] == "4", "no long polling, no commit of offsets"


def with_a_gap(request: Command) -> Command:
    """A broker without messages at offsets 40 to 49: its topic is compacted, or a file of its log is missing."""
    if 40 <= int(request.ext["queueOffset"]) < 50:
        return answer(ResponseCode.PULL_RETRY_IMMEDIATELY, remark="MESSAGE_WAS_REMOVING", **pull_header(50))
    return found(request, 10)


LOGICAL = MessageQueue("static", "__syslo__global__", 3)


def logical(request: Command) -> Command:
    """A broker with a logical queue: offsets 0 to 2 are in a first physical queue, 100 to 102 in a second one."""
    start = int(request.ext["queueOffset"])
    if 3 <= start < 100:
        remark = "OFFSET_OVERFLOW_ONE" if start == 3 else None  # none from Java, if another broker has the first one
        return answer(ResponseCode.PULL_RETRY_IMMEDIATELY, remark=remark, **pull_header(100), offsetDelta=0)
    delta = 100 if start >= 100 else 0
    stop = min(start + int(request.ext["maxMsgNums"]), delta + 3)
    records = [record(number - delta) for number in range(start, stop)]
    return answer(body=b"".join(records), **pull_header(stop), offsetDelta=delta)


def record(offset: int) -> bytes:
    """As it is stored, in queue 0."""
    host = bytes(8)
    return encode_record(RecordHead(0, 0, 0, 0, 0, offset, 0, 0, 1, host, 2, host, 0, 0, 0), "static", b"x", b"")


def test_a_logical_queue_is_read_across_its_physical_ones() -> None:
    with scripted(logical) as peer:
        settings = FetchSettings(namesrv=(peer.address,), timeout=5, retries=0, in_flight=8, fail_on_data_loss=True)
        with closing(Fetcher(QueueRange(LOGICAL, 0, 103), Addresses(peer.address), settings)) as fetcher:
            messages = decode_records(body_of(fetcher), LOGICAL.broker_name)
            assert fetcher.between == 97, "so many offsets are in no physical queue"
    assert [(one.queue, one.queue_offset) for one in messages] == [(LOGICAL, n) for n in (0, 1, 2, 100, 101, 102)]


def test_a_logical_queue_that_has_moved_is_read_at_its_new_broker() -> None:
    def old(request: Command) -> Command:
        del request
        return answer(ResponseCode.NOT_LEADER_FOR_QUEUE, remark="moved")

    with scripted(logical) as new, scripted(old) as peer:
        peer.brokers.append(BrokerData(broker_name="b", broker_addrs={0: new.address}))
        peer.mappings["b"] = {"topic": "static", "bname": "b", "totalQueues": 4, "epoch": 2, "currIdMap": {"3": 0}}
        settings = FetchSettings(namesrv=(peer.address,), timeout=5, retries=3, in_flight=8, fail_on_data_loss=True)
        with closing(Fetcher(QueueRange(LOGICAL, 100, 103), Addresses(peer.address), settings)) as fetcher:
            assert [one.queue_offset for one in decode_records(body_of(fetcher))] == [100, 101, 102]


def test_a_file_that_is_missing_is_a_loss_in_a_logical_queue_too() -> None:
    def missing(request: Command) -> Command:
        remark, reached = "OFFSET_FOUND_NULL", int(request.ext["queueOffset"]) + 32
        return answer(ResponseCode.PULL_RETRY_IMMEDIATELY, remark=remark, **pull_header(reached), offsetDelta=0)

    with scripted(missing) as peer:
        settings = FetchSettings(namesrv=(peer.address,), timeout=5, retries=0, in_flight=8, fail_on_data_loss=True)
        fetcher = Fetcher(QueueRange(LOGICAL, 0, 100), Addresses(peer.address), settings)
        with closing(fetcher), pytest.raises(DataLossError, match="has no messages at offsets 0 to 31"):
            body_of(fetcher)


def test_offsets_without_messages_fail_a_query() -> None:
    with scripted(with_a_gap) as peer, pytest.raises(DataLossError, match="has no messages at offsets 40 to 49 of"):
        fetch(peer, 0, 100)


@pytest.mark.parametrize(
    "code", [ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY]
)
def test_every_empty_answer_fails_a_query(code: int) -> None:
    def nothing(request: Command) -> Command:
        return answer(code, remark="OFFSET_FOUND_NULL", **pull_header(int(request.ext["queueOffset"]) + 32))

    with scripted(nothing) as peer, pytest.raises(DataLossError, match="has no messages at offsets 5 to 36 of"):
        fetch(peer, 5, 100)


def test_offsets_without_messages_are_skipped_with_a_warning_if_configured(caplog: pytest.LogCaptureFixture) -> None:
    with scripted(with_a_gap) as peer, closing(fetcher_of(peer, 0, 100, fail_on_data_loss=False)) as fetcher:
        assert body_of(fetcher) == messages(0, 40) + messages(50, 100)
        assert fetcher.skipped == 10
    (warning,) = [record.getMessage() for record in caplog.records if "has no messages" in record.getMessage()]
    assert "at offsets 40 to 49 of" in warning
    assert "going on, since failOnDataLoss is false" in warning


def test_offsets_without_messages_are_no_loss_in_a_compacted_topic() -> None:
    with scripted(with_a_gap) as peer, closing(fetcher_of(peer, 0, 100)) as fetcher:
        peer.attributes = {"cleanup.policy": "COMPACTION"}
        assert body_of(fetcher) == messages(0, 40) + messages(50, 100)
        assert fetcher.skipped == 0
        assert len(peer.asked(RequestCode.GET_TOPIC_CONFIG)) == 1


def test_temporarily_unreadable_messages_are_requested_again() -> None:
    """As a broker that takes over, or has just started."""
    answers = iter([False, False])

    def late(request: Command) -> Command:
        return found(request) if next(answers, True) else with_a_gap(request)

    def shortly(request: Command) -> Command:
        is_gap = 40 <= int(request.ext["queueOffset"]) < 50
        return late(request) if is_gap else found(request, 10)

    with scripted(shortly) as peer:
        assert fetch(peer, 0, 100) == messages(0, 100)


@pytest.mark.parametrize("wanted", [EVERYTHING, message_filter(("a",), None)])
def test_an_acting_slave_without_reads_does_not_look_empty(wanted: MessageFilter) -> None:
    """Name servers list it as the master; it answers with the status of the read, and keeps the messages."""

    def acting(request: Command) -> Command:
        stop = int(request.ext["queueOffset"]) + 32
        return answer(ResponseCode.PULL_RETRY_IMMEDIATELY, remark="FOUND", **pull_header(stop))

    with scripted(acting) as peer, pytest.raises(DataLossError, match="does not serve reads"):
        fetch(peer, 0, 100, wanted=wanted)


def test_filtered_offsets_are_skipped() -> None:
    def unmatched(request: Command) -> Command:
        stop = int(request.ext["queueOffset"]) + 800
        return answer(ResponseCode.PULL_RETRY_IMMEDIATELY, remark="NO_MATCHED_MESSAGE", **pull_header(stop))

    with scripted(unmatched) as peer:
        assert fetch(peer, 0, 2000, wanted=message_filter(("a",), None)) == b""


def test_a_reset_offset_is_requested_again() -> None:
    """The broker answers the next pull of a group whose offset was reset with the new one, once."""
    resets = iter([True])

    def reset(request: Command) -> Command:
        if int(request.ext["queueOffset"]) >= 50 and next(resets, False):
            return answer(ResponseCode.PULL_OFFSET_MOVED, remark="OFFSET_RESET", **pull_header(7, most=100))
        return found(request)

    with scripted(reset) as peer:
        assert fetch(peer, 0, 100) == messages(0, 100)


def test_a_lagging_master_is_retried() -> None:
    """A slave that acts for its master, in a route that lists it as the master."""
    answers = iter([True, True])

    def lagging(request: Command) -> Command:
        if next(answers, False):
            return answer(ResponseCode.PULL_OFFSET_MOVED, **pull_header(5, most=5))
        return found(request)

    with scripted(lagging) as peer:
        assert fetch(peer, 10, 100) == messages(10, 100)


def test_attempts_are_counted_although_later_offsets_are_answered() -> None:
    def first_is_refused(request: Command) -> Command:
        if int(request.ext["queueOffset"]) == 32:
            return answer(ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]")
        return found(request)

    with scripted(first_is_refused) as peer:
        with pytest.raises(RocketMQError, match=r"\[OVERLOAD\]"):
            fetch(peer, 0, 100_000, retries=2)
        assert len([pull for pull in peer.asked(RequestCode.PULL_MESSAGE) if pull.ext["queueOffset"] == "32"]) == 3


def test_a_busy_broker_is_retried() -> None:
    with scripted(sometimes(5, lambda _: answer(ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]"))) as peer:
        assert fetch(peer, 0, 1000) == messages(0, 1000)


def test_a_lost_connection_is_reopened() -> None:
    with scripted(sometimes(7, lambda _: None)) as peer:
        assert fetch(peer, 0, 1000) == messages(0, 1000)


def test_short_answers_are_completed() -> None:
    with scripted(sometimes(3, lambda request: found(request, most=5))) as peer:
        assert fetch(peer, 0, 1000) == messages(0, 1000)


def test_a_missing_read_permission_fails_the_fetch_at_once() -> None:
    with (
        scripted(lambda _: answer(ResponseCode.NO_PERMISSION, remark="the topic is not readable")) as peer,
        pytest.raises(PermissionDenied, match="the topic is not readable"),
    ):
        fetch(peer, 0, 10)


def test_a_broker_that_stays_busy_fails_the_fetch() -> None:
    with (
        scripted(lambda _: answer(ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]")) as peer,
        pytest.raises(RocketMQError, match=r"\[OVERLOAD\]"),
    ):
        fetch(peer, 0, 10, retries=1)


def test_an_unreachable_broker_fails_the_fetch_with_its_address() -> None:
    with scripted(found) as peer:
        pass
    with pytest.raises(NetworkError, match=f"cannot connect to {peer.address}.*Is it running"):
        fetch(peer, 0, 10, retries=1)


def test_a_broker_that_lacks_messages_is_retried() -> None:
    def lagging(request: Command) -> Command:
        return answer(ResponseCode.PULL_NOT_FOUND, **pull_header(int(request.ext["queueOffset"])))

    with scripted(sometimes(4, lagging)) as peer:
        assert fetch(peer, 0, 200) == messages(0, 200)
    with scripted(lagging) as peer, pytest.raises(Lag, match="has nothing at offset 0 of orders@broker-a:0"):
        fetch(peer, 0, 10, retries=1)


def removed(request: Command) -> Command:
    """A broker whose retention has removed everything before offset 40."""
    if int(request.ext["queueOffset"]) < 40:
        return answer(ResponseCode.PULL_OFFSET_MOVED, **pull_header(40, least=40))
    return found(request)


def test_removed_messages_fail_a_query() -> None:
    with (
        scripted(removed) as peer,
        pytest.raises(DataLossError, match="offsets 10 to 39 of orders@broker-a:0 have been removed by retention"),
    ):
        fetch(peer, 10, 100)


def test_removed_messages_are_skipped_with_a_warning_if_configured(caplog: pytest.LogCaptureFixture) -> None:
    with scripted(removed) as peer, caplog.at_level(logging.WARNING):
        assert fetch(peer, 10, 100, fail_on_data_loss=False) == messages(40, 100)
    assert "offsets 10 to 39" in caplog.text


def test_messages_beyond_the_end_fail_a_query() -> None:
    def ended(request: Command) -> Command:
        return answer(ResponseCode.PULL_OFFSET_MOVED, **pull_header(5, most=5))

    with scripted(ended) as peer, pytest.raises(DataLossError, match="are gone, it ends at 5"):
        fetch(peer, 10, 100)


def test_every_pull_has_the_filter_and_the_group() -> None:
    with scripted(found) as peer:
        fetch(peer, 0, 100, group="g", wanted=message_filter((), "a > 5"))
        fetch(peer, 0, 10, wanted=message_filter(("a", "b"), None))
        pulls = peer.asked(RequestCode.PULL_MESSAGE)
    assert {(p.ext["consumerGroup"], p.ext["subscription"], p.ext["expressionType"]) for p in pulls} == {
        ("g", "a > 5", "SQL92"),
        ("TOOLS_CONSUMER", "a || b", "TAG"),
    }


def test_a_broker_without_sql_is_not_retried() -> None:
    def without(_: Command) -> Command:
        said = "The broker does not support consumer to filter message by SQL92"
        return answer(ResponseCode.SYSTEM_ERROR, remark=said)

    with scripted(without) as peer:
        with pytest.raises(ConfigError, match="enablePropertyFilter=true"):
            fetch(peer, 0, 10, wanted=message_filter((), "a > 5"))
        assert len(peer.asked(RequestCode.PULL_MESSAGE)) == 1


def test_a_slave_is_read_when_the_master_suggests_it() -> None:
    def suggesting(request: Command) -> Command:
        response = found(request)
        response.ext["suggestWhichBrokerId"] = "1"
        return response

    with scripted(suggesting) as master, scripted(suggesting) as slave:
        assert fetch(master, 0, 1000, slave=slave.address) == messages(0, 1000)
        assert len(master.asked(RequestCode.PULL_MESSAGE)) == 1
        assert slave.asked(RequestCode.PULL_MESSAGE)


def test_the_slave_is_read_when_the_master_is_down() -> None:
    with scripted(found) as master:
        pass
    with scripted(found) as slave:
        assert fetch(master, 0, 1000, slave=slave.address) == messages(0, 1000)


def test_messages_missing_at_the_slave_are_read_from_the_master() -> None:
    def short(request: Command) -> Command:
        if int(request.ext["queueOffset"]) >= 500:
            return answer(ResponseCode.PULL_OFFSET_MOVED, **pull_header(500, most=500))
        return found(request, end=500)

    def suggesting(request: Command) -> Command:
        response = found(request)
        response.ext["suggestWhichBrokerId"] = "1"
        return response

    with scripted(suggesting) as master, scripted(short) as slave:
        assert fetch(master, 0, 1000, slave=slave.address) == messages(0, 1000)
        assert len(slave.asked(RequestCode.PULL_MESSAGE)) < 40, "it is not asked again and again"


def test_a_slave_without_the_topic_does_not_end_the_range() -> None:
    def suggesting(request: Command) -> Command:
        response = found(request)
        response.ext["suggestWhichBrokerId"] = "1"
        return response

    def without(_: Command) -> Command:
        return answer(ResponseCode.TOPIC_NOT_EXIST, remark="topic[orders] not exist")

    with scripted(suggesting) as master, scripted(without) as slave:
        assert fetch(master, 0, 1000, slave=slave.address) == messages(0, 1000)
        assert len(slave.asked(RequestCode.PULL_MESSAGE)) < 10


@pytest.mark.parametrize("wanted", [EVERYTHING, message_filter(("a",), None)])
def test_a_slave_that_does_not_serve_reads_does_not_look_empty(wanted: MessageFilter) -> None:
    def closed(request: Command) -> Command:
        return answer(ResponseCode.PULL_RETRY_IMMEDIATELY, **pull_header(int(request.ext["queueOffset"]) + 32))

    with scripted(found) as master:
        pass
    with scripted(closed) as slave, pytest.raises((SlaveClosed, NetworkError)) as told:
        fetch(master, 0, 100, slave=slave.address, wanted=wanted, retries=2)
    assert slave.asked(RequestCode.PULL_MESSAGE), told.value


def test_a_range_of_an_unregistered_broker_is_not_skipped() -> None:
    """A name server that has just started does not know the broker yet; the plan was made before."""
    with scripted(found) as peer:
        peer.brokers = []
        settings = FetchSettings(namesrv=(peer.address,), timeout=5, retries=2, in_flight=8, fail_on_data_loss=False)
        fetcher = Fetcher(QueueRange(QUEUE, 0, 10), Addresses(), settings)
        with closing(fetcher), pytest.raises(NoRouteError, match="no broker serves orders@broker-a:0 now"):
            body_of(fetcher)
        peer.brokers = [BrokerData(broker_name="broker-a", cluster="c", broker_addrs={0: peer.address})]
        with closing(Fetcher(QueueRange(QUEUE, 0, 10), Addresses(), settings)) as fetcher:
            assert body_of(fetcher) == messages(0, 10)


def suggesting_the_slave(request: Command) -> Command:
    response = found(request)
    response.ext["suggestWhichBrokerId"] = "1"
    return response


def test_pulls_that_a_closed_slave_refused_are_sent_to_the_master_again() -> None:
    """The slave serves the first pull and is closed then, with several pulls under way."""
    pulls = iter(range(1 << 30))

    def closing_soon(request: Command) -> Command:
        if next(pulls) < 2:
            return found(request)
        return answer(ResponseCode.PULL_RETRY_IMMEDIATELY, **pull_header(int(request.ext["queueOffset"]) + 32))

    with scripted(suggesting_the_slave) as master, scripted(closing_soon) as slave:
        assert fetch(master, 0, 1000, slave=slave.address) == messages(0, 1000)
        assert len(slave.asked(RequestCode.PULL_MESSAGE)) <= 10, "it is not suggested a second time"


def test_a_queue_that_stays_without_a_leader_fails_the_fetch() -> None:
    def nobody(_: Command) -> Command:
        if len(peer.asked(RequestCode.PULL_MESSAGE)) > 20:
            return answer(ResponseCode.NO_PERMISSION, remark="asked too often")
        return answer(ResponseCode.NOT_LEADER_FOR_QUEUE, remark="moved")

    with scripted(nobody) as peer:
        with pytest.raises(RocketMQError, match="moved"):
            fetch(peer, 0, 10, retries=2)
        assert len(peer.asked(RequestCode.PULL_MESSAGE)) == 3
        assert len(peer.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 2, "where it is now is looked up each time"


def test_a_pull_has_the_fields_of_the_protocol() -> None:
    with scripted(found) as peer:
        fetch(peer, 5, 15)
        (pull,) = peer.asked(RequestCode.PULL_MESSAGE)
    assert pull.code == 11
    fields = {
        "consumerGroup": "TOOLS_CONSUMER", "topic": "orders", "queueId": "0", "queueOffset": "5", "maxMsgNums": "10",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
        "expressionType": "TAG", "bname": "broker-a", "bulk": "true",
    }  # fmt: skip
    assert {name: pull.ext.get(name) for name in fields} == fields


def test_a_filtered_read_asks_a_slave_for_one_unfiltered_message_first() -> None:
    """The master is away. A refusal of a filtered pull would look like offsets without matches."""
    with scripted(found) as master:
        pass
    with scripted(found) as slave:
        assert fetch(master, 7, 39, slave=slave.address, wanted=message_filter(("a",), None)) == messages(7, 39)
        probe, *pulls = slave.asked(RequestCode.PULL_MESSAGE)
    asked = (probe.ext["subscription"], probe.ext["expressionType"], probe.ext["queueOffset"], probe.ext["maxMsgNums"])
    assert asked == ("*", "TAG", "7", "1")
    assert {pull.ext["subscription"] for pull in pulls} == {"a"}


def is_closed(connection: BlockingConnection) -> bool:
    return connection._socket.fileno() == -1


def test_connections_go_on_to_the_next_range_if_all_of_theirs_was_read() -> None:
    with scripted(found) as peer:
        settings = FetchSettings(namesrv=(peer.address,), timeout=5, retries=0, in_flight=8, fail_on_data_loss=True)

        def of_pool(pool: IdleConnections, start: int) -> Fetcher:
            return Fetcher(QueueRange(QUEUE, start, start + 100), Addresses(peer.address), settings, pool)

        with closing(IdleConnections()) as pool:
            whole = of_pool(pool, 0)
            assert body_of(whole) == messages(0, 100)
            used = whole._connection
            assert used is not None
            whole.close()
            whole.close()
            part = of_pool(pool, 100)
            next(iter(part.chunks()))
            assert part._connection is used
            part.close()
            assert is_closed(used), "its other answers are still to come"
            assert pool.take(peer.address) is None
            third = of_pool(pool, 200)
            assert body_of(third) == messages(200, 300)
            kept = third._connection
            assert kept is not None
            third.close()
        assert is_closed(kept), "the pool is closed"
        assert pool.take(peer.address) is None


def test_a_pool_gives_each_open_connection_once() -> None:
    with scripted(found) as peer, closing(IdleConnections()) as pool:
        one, other = connect(peer.address, 5), connect(peer.address, 5)
        for connection in (one, other):
            pool.put(connection)
        assert pool.take("127.0.0.1:1") is None
        other.used -= 10  # it is looked at after a second without use
        other._socket.shutdown(socket.SHUT_RDWR)
        assert pool.take(peer.address) is one
        assert is_closed(other)
        assert pool.take(peer.address) is None
        one.send([(RequestCode.PULL_MESSAGE, {"queueOffset": "0", "maxMsgNums": "1"}, b"")])
        pool.put(one)
        assert pool.take(peer.address) is None, "an answer is still to come"
        assert is_closed(one)


def test_messages_that_a_broker_found_damaged_are_marked() -> None:
    def damaged(request: Command) -> Command:
        start = int(request.ext["queueOffset"])
        if start <= 50 < start + int(request.ext["maxMsgNums"]):
            return answer(body=b"x", **pull_header(start + 5), damaged=",".join(map(str, range(50, 53))))
        return found(request)

    with scripted(damaged) as peer, closing(fetcher_of(peer, 0, 100)) as fetcher:
        chunks = [chunk for chunks in fetcher.chunks() for chunk in chunks]
    bad = [chunk for chunk in chunks if chunk.is_damaged]
    assert bad
    assert all(chunk.body == b"" for chunk in bad)
    assert any(50 in range(chunk.start, chunk.stop) for chunk in bad)
    assert sorted(n for chunk in chunks for n in range(chunk.start, chunk.stop)) == list(range(100))


def test_whether_a_topic_is_compacted_is_asked_once_and_no_if_unknown() -> None:
    def refusing(request: Command) -> Command:
        return answer(ResponseCode.TOPIC_NOT_EXIST, remark="no")

    with scripted(found) as peer, closing(fetcher_of(peer, 0, 10)) as fetcher:
        assert [fetcher.is_compacted(), fetcher.is_compacted()] == [False, False]
        assert len(peer.asked(RequestCode.GET_TOPIC_CONFIG)) == 1
    with scripted(found) as peer, closing(fetcher_of(peer, 0, 10)) as fetcher:
        respond = peer.respond
        peer.respond = lambda one: refusing(one) if "queueId" not in one.ext else respond(one)  # type: ignore[method-assign]
        assert fetcher.is_compacted() is False


def test_a_lost_slave_is_left_for_the_master_until_addresses_are_looked_up() -> None:
    """All pulls of a broken connection are sent again; the broker that broke it is suggested no more."""
    pulls = iter(range(1 << 30))

    def lost(request: Command) -> Command | None:
        return found(request) if next(pulls) < 3 else None

    with scripted(suggesting_the_slave) as master, scripted(lost) as slave:
        assert fetch(master, 0, 2000, slave=slave.address) == messages(0, 2000)
        assert len([one for one in slave.requests if one.code == RequestCode.PULL_MESSAGE]) <= 12


def test_a_pooled_connection_is_one_to_the_broker_that_is_read() -> None:
    with scripted(found) as master, scripted(found) as slave, closing(IdleConnections()) as pool:
        at = Addresses(master.address, ((1, slave.address),))
        settings = FetchSettings(namesrv=(master.address,), timeout=5, retries=0, in_flight=8, fail_on_data_loss=True)
        kept = {peer.address: connect(peer.address, 5) for peer in (master, slave)}
        for connection in kept.values():
            pool.put(connection)
        with closing(Fetcher(QueueRange(QUEUE, 0, 100), at, settings, pool)) as fetcher:
            assert body_of(fetcher) == messages(0, 100)
            assert fetcher._connection is kept[master.address]


def test_a_slave_without_the_topic_lags_and_other_refusals_are_what_they_are() -> None:
    for code, at_slave, pulls, lags in (
        (ResponseCode.TOPIC_NOT_EXIST, False, 3, False),
        (ResponseCode.NO_PERMISSION, False, 1, False),
        (ResponseCode.NO_PERMISSION, True, 1, False),
        (ResponseCode.TOPIC_NOT_EXIST, True, 3, True),
    ):
        with scripted(lambda _, code=code: answer(code, remark="as told")) as peer:
            settings = FetchSettings(
                namesrv=("127.0.0.1:1",), timeout=5, retries=2, in_flight=8, fail_on_data_loss=True
            )
            at = Addresses(None, ((1, peer.address),)) if at_slave else Addresses(peer.address)
            with (
                closing(Fetcher(QueueRange(QUEUE, 0, 10), at, settings)) as fetcher,
                pytest.raises(RocketMQError) as told,
            ):
                body_of(fetcher)
            assert len(peer.asked(RequestCode.PULL_MESSAGE)) == pulls
            assert isinstance(told.value, Lag) is lags


def test_the_first_pulls_are_sent_when_a_range_begins() -> None:
    with scripted(found) as peer, closing(fetcher_of(peer, 0, 10)) as fetcher:
        fetcher.begin()
        fetcher.begin()
        assert body_of(fetcher) == messages(0, 10)
        assert len(peer.asked(RequestCode.PULL_MESSAGE)) == 1
    with scripted(found) as gone:
        pass
    with scripted(found) as peer:
        at = Addresses(gone.address, ((1, peer.address),))
        settings = FetchSettings(namesrv=(peer.address,), timeout=5, retries=1, in_flight=8, fail_on_data_loss=True)
        with closing(Fetcher(QueueRange(QUEUE, 0, 10), at, settings)) as fetcher:
            fetcher.begin()
            assert body_of(fetcher) == messages(0, 10)
    with closing(fetcher_of(gone, 0, 10, retries=0)) as fetcher, pytest.raises(NetworkError, match=gone.address):
        fetcher.begin()


def test_pulls_at_a_broker_that_filters_are_as_far_apart_as_it_looks() -> None:
    def unmatched(request: Command) -> Command:
        stop = min(int(request.ext["queueOffset"]) + 4000, 40_000)
        return answer(ResponseCode.PULL_RETRY_IMMEDIATELY, remark="NO_MATCHED_MESSAGE", **pull_header(stop))

    with scripted(unmatched) as peer:
        assert fetch(peer, 0, 40_000, wanted=message_filter(("a",), None)) == b""
        assert len(peer.asked(RequestCode.PULL_MESSAGE)) <= 12


def test_a_slave_that_does_not_serve_reads_is_named() -> None:
    def closed(request: Command) -> Command:
        return answer(ResponseCode.PULL_RETRY_IMMEDIATELY, **pull_header(int(request.ext["queueOffset"]) + 32))

    with scripted(closed) as slave:
        at = Addresses(None, ((1, slave.address),))
        settings = FetchSettings(namesrv=("127.0.0.1:1",), timeout=5, retries=0, in_flight=8, fail_on_data_loss=False)
        with closing(Fetcher(QueueRange(QUEUE, 0, 10), at, settings)) as fetcher, pytest.raises(SlaveClosed) as told:
            body_of(fetcher)
    assert str(told.value) == f"{slave.address} is a slave that does not serve reads: slaveReadEnable is false there"
    assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)


def test_messages_are_given_as_they_arrive() -> None:
    begun = threading.Event()

    def slow(request: Command) -> Command:
        if int(request.ext["queueOffset"]) >= 320:
            begun.wait(PATIENCE)
        return found(request)

    with scripted(slow) as peer, closing(fetcher_of(peer, 0, 1000)) as fetcher:
        chunks, bodies = fetcher.chunks(), b""
        while len(bodies) < 320:  # the answers to later pulls are not waited for
            bodies += b"".join(chunk.body for chunk in next(chunks))
        assert bodies == messages(0, 320)
        assert fetcher._connection is not None, "it has waited until it gave the connection up"
        begun.set()
        assert bodies + b"".join(chunk.body for more in chunks for chunk in more) == messages(0, 1000)
