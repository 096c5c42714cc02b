"""A producer that keeps away from slow and failing brokers, over a scripted network."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.aio import ConfigError, LatencyFaultTolerance, Producer, RequestTimeout
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.remoting import connection
from rocketmq_py.wire.command import Command
from tests.unit.client.producing import message, run_producer, with_producer
from tests.unit.client.scripted import Answerer, ScriptedNetwork, cluster

TWO = {"a": 2, "b": 2}
PATIENT = LatencyFaultTolerance(latency_max=(9.0,), not_available_duration=(60.0,))
"""Nothing here takes 9 s, so that only failures count however slow the machine is."""


def brokers(network: ScriptedNetwork) -> list[str]:
    return [where for where, _ in network.sent()]


def silent_to_sends(broker: str) -> Answerer:
    def answer(where: str, request: Command) -> Command | None:
        if where == broker and request.code == RequestCode.SEND_MESSAGE_V2:
            return None
        return cluster(t=TWO)(where, request)

    return answer


def test_a_slow_broker_is_avoided_by_first_and_later_sends() -> None:
    sluggish = LatencyFaultTolerance(latency_max=(0.0,), not_available_duration=(60.0,))  # every broker is slow

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        await producer.send(message())  # the long way
        await producer.send(message())
        (first, second) = brokers(network)
        assert {first, second} == {"a:1", "b:1"}

    run_producer(body, cluster(t=TWO), send_latency_fault_enable=sluggish)


@with_producer(cluster(t=TWO), send_latency_fault_enable=PATIENT, retries=3)
async def test_an_unreachable_broker_is_tried_once(producer: Producer, network: ScriptedNetwork) -> None:
    await producer.queues("t")
    network.unreachable = {"a:1"}
    for _ in range(8):
        assert (await producer.send(message())).queue.broker_name == "b"
    network.unreachable = {"b:1"}
    producer.sender.connections.drop("b:1")
    assert (await producer.send(message())).queue.broker_name == "a", "none is available, but one is there"


@with_producer(silent_to_sends("a:1"), send_latency_fault_enable=PATIENT, send_msg_max_timeout_per_request=0.2)
async def test_an_attempt_leaves_time_for_another(producer: Producer, network: ScriptedNetwork) -> None:
    results = [await producer.send(message(), timeout=60) for _ in range(6)]
    assert {result.queue.broker_name for result in results} == {"b"}
    assert brokers(network).count("a:1") == 1, "after that it is left alone"


def test_the_last_attempt_has_the_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENCE_SECONDS", 60.0)  # the connection is not what fails
    tries: list[Command] = []

    def answer(where: str, request: Command) -> Command | None:
        if request.code != RequestCode.SEND_MESSAGE_V2:
            return cluster(t={"a": 1})(where, request)
        tries.append(request)
        return None

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        begun = asyncio.get_running_loop().time()
        with pytest.raises(RequestTimeout):
            await producer.send(message(), timeout=0.5)
        assert asyncio.get_running_loop().time() - begun > 0.45
        assert len(tries) == 2

    run_producer(body, answer, send_msg_max_timeout_per_request=0.02, retries=1)


def test_the_detector_finds_a_recovered_broker() -> None:
    options = PATIENT._replace(start_detector_enable=True, detect_interval=1e-9)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        await producer.queues("t")
        network.unreachable = {"a:1"}
        for _ in range(4):
            await producer.send(message())
        tolerance = producer.sender.tolerance
        assert tolerance is not None
        await tolerance.detect()
        assert not tolerance.faults.is_reachable("a")
        network.unreachable = set()
        await tolerance.detect()
        assert tolerance.faults.is_reachable("a")
        assert RequestCode.GET_MAX_OFFSET in network.codes("a:1")

    run_producer(body, cluster(t=TWO), send_latency_fault_enable=options)


def test_invalid_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="latency_max"):
        Producer("g", "ns:1", send_latency_fault_enable=LatencyFaultTolerance(latency_max=(1.0,)))
