"""What brokers are told of producers, and who is asked about transactions."""

from __future__ import annotations

import logging

import pytest

from rocketmq_py.core.grpc.transaction_ids import HalfPlace, decode_transaction_id
from rocketmq_py.properties import encode_properties
from rocketmq_py.protocol.bodies.client import HeartbeatData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import Publishing, Resource, Settings
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.service import (
    HeartbeatRequest,
    NotifyClientTerminationRequest,
    QueryRouteRequest,
    StatusResponse,
    TelemetryCommand,
)
from rocketmq_py.proxy import producers
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import RecordHead, encode_record
from tests.unit.grpc.calls import Running
from tests.unit.proxy.cluster import A, B, FakeCluster, ProxyCalls, settled

BEAT, CHECK = RequestCode.HEART_BEAT, RequestCode.CHECK_TRANSACTION_STATE
HEAD = RecordHead(0, 0, 0, 0, 0, 41, 1_000, 0, 5_000, bytes(8), 6_000, bytes(8), 0, 0, 0)


def half(**properties: str) -> Command:
    return Command(CHECK, body=encode_record(HEAD, "tx", b"half", encode_properties({"UNIQ_KEY": "0A"} | properties)))


async def produce(calls: ProxyCalls, *topics: str) -> Running:
    stream = calls.settings(
        Settings(client_type=1, publishing=Publishing(topics=[Resource(name=topic) for topic in topics]))
    )
    answer = await calls.open(stream, TelemetryCommand)
    assert answer.settings is not None
    return stream


def told(cluster: FakeCluster) -> list[tuple[str, str, list[str]]]:
    """Address, client id and groups of each heartbeat since the last time."""
    beats = [(address, HeartbeatData.decode(body)) for address, code, _, body in cluster.asked if code == BEAT]
    cluster.asked.clear()
    return [(at, beat.client_id, [one.group_name for one in beat.producer_data_set]) for at, beat in beats]


def asked(stream: Running) -> list[tuple[bytes, HalfPlace]]:
    """Body and place of the transactions that a producer was asked about."""
    commands = [one.recover_orphaned_transaction_command for one in stream.received(TelemetryCommand)]
    return [
        (one.message.body, decode_transaction_id(one.transaction_id))
        for one in commands
        if one is not None and one.message is not None
    ]


async def test_brokers_hear_of_topics_with_transactions_at_once_and_regularly(
    cluster: FakeCluster, calls: ProxyCalls
) -> None:
    await produce(calls, "t", "tx")
    await settled(lambda: len([1 for _, code, _, _ in cluster.asked if code == BEAT]) == 2)
    expected = [(A, "10.0.0.9@proxy", ["tx"]), (B, "10.0.0.9@proxy", ["tx"])]
    assert told(cluster) == expected
    await calls.proxy._producers.tell_all()
    assert told(cluster) == expected


async def test_heartbeats_of_clients_are_not_passed_on(cluster: FakeCluster, calls: ProxyCalls) -> None:
    await produce(calls, "tx")
    await settled(lambda: len([1 for _, code, _, _ in cluster.asked if code == BEAT]) == 2)
    answer = await calls.ask("Heartbeat", HeartbeatRequest(), StatusResponse)
    assert answer.status is not None
    assert answer.status.code == Code.OK
    assert len(told(cluster)) == 2


async def test_without_producers_brokers_hear_nothing(cluster: FakeCluster, calls: ProxyCalls) -> None:
    stream = await produce(calls, "tx")
    another = await produce(calls.another("other"), "tx")
    stream.call.cancelled()
    await settled(lambda: len([1 for _, code, _, _ in cluster.asked if code == BEAT]) == 2)
    told(cluster)
    await calls.proxy._producers.tell_all()
    assert len(told(cluster)) == 2
    another.call.cancelled()
    await calls.proxy._producers.tell_all()
    assert told(cluster) == []


async def test_heartbeats_have_a_limited_number_of_groups(
    cluster: FakeCluster, calls: ProxyCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "_PER_HEARTBEAT", 1)
    monkeypatch.setattr(calls.proxy._producers, "_has_transactions", lambda _: True)
    await produce(calls, "tx", "t")
    await settled(lambda: len([1 for _, code, _, _ in cluster.asked if code == BEAT]) == 2)
    told(cluster)
    await calls.proxy._producers.tell_all()
    assert [groups for _, _, groups in told(cluster)] == [["tx"], ["tx"], ["t"], ["t"]]


async def test_a_broker_that_does_not_listen_is_logged_once(
    cluster: FakeCluster, calls: ProxyCalls, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.away.add(B)
    await calls.ask("QueryRoute", QueryRouteRequest(topic=Resource(name="tx")), StatusResponse)
    await produce(calls, "tx")
    await settled(lambda: bool(caplog.records))
    await calls.proxy._producers.tell_all()
    cluster.away.clear()
    await calls.proxy._producers.tell_all()
    said = [record.getMessage() for record in caplog.records if record.name == producers.__name__]
    assert said == [
        f"broker {B} does not take the heartbeat, so it cannot ask about transactions: cannot connect to {B}",
        f"broker {B} takes heartbeats again",
    ]


async def test_producers_are_asked_about_transactions_in_turn(cluster: FakeCluster, calls: ProxyCalls) -> None:
    streams = [await produce(calls, "tx"), await produce(calls.another("other"), "tx")]
    for address, name in ((B, "b"), (A, "a")):
        for _ in streams:
            cluster.handlers[CHECK](address, half(PGROUP="tx"))
        for stream in streams:
            assert asked(stream) == [(b"half", HalfPlace(name, 1_000, 41, "0A"))]


async def test_a_check_goes_to_a_producer_of_the_messages_group(cluster: FakeCluster, calls: ProxyCalls) -> None:
    stream, other = await produce(calls, "tx"), await produce(calls.another("other"), "t")
    cluster.handlers[CHECK](A, half(PGROUP="t"))
    assert (asked(stream), len(asked(other))) == ([], 1)
    cluster.handlers[CHECK](A, half())
    assert (len(asked(stream)), asked(other)) == (1, [])


async def test_a_check_for_nobody_is_dropped(
    cluster: FakeCluster, calls: ProxyCalls, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stream = await produce(calls, "tx")
    cluster.handlers[CHECK](A, half(PGROUP="none"))
    cluster.handlers[CHECK]("10.0.0.7:1", half(PGROUP="tx"))
    assert asked(stream) == []
    assert [record.getMessage() for record in caplog.records if record.name == producers.__name__] == [
        f"broker {A} asks about a transaction of none, which has no producer here now",
        "broker 10.0.0.7:1 asks about a transaction of tx, which has no producer here now",
    ]


async def test_a_damaged_half_message_is_logged(
    cluster: FakeCluster, calls: ProxyCalls, caplog: pytest.LogCaptureFixture
) -> None:
    stream = await produce(calls, "tx")
    cluster.handlers[CHECK](A, Command(CHECK, body=b"\0\0\0\x10damaged........."))
    assert asked(stream) == []
    [record] = [record for record in caplog.records if record.name == producers.__name__]
    assert record.getMessage().startswith(f"broker {A} asks about a transaction whose message is damaged: ")


async def test_a_producer_that_ends_is_asked_no_more(cluster: FakeCluster, calls: ProxyCalls) -> None:
    stream = await produce(calls, "tx")
    answer = await calls.ask("NotifyClientTermination", NotifyClientTerminationRequest(), StatusResponse)
    assert answer.status is not None
    assert answer.status.code == Code.OK
    cluster.handlers[CHECK](A, half(PGROUP="tx"))
    assert asked(stream) == []


async def test_new_settings_replace_the_topics_of_a_producer(cluster: FakeCluster, calls: ProxyCalls) -> None:
    stream = await produce(calls, "tx")
    stream.tell(TelemetryCommand(settings=Settings(client_type=1, publishing=Publishing(topics=[Resource(name="t")]))))
    await settled(lambda: bool(stream.carrier.messages))
    stream.received(TelemetryCommand)
    cluster.handlers[CHECK](A, half(PGROUP="tx"))
    assert asked(stream) == []
    cluster.handlers[CHECK](A, half(PGROUP="t"))
    assert len(asked(stream)) == 1
