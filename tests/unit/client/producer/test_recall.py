"""Recalls of delayed messages: what is sent to the broker of the handle, and what is refused before."""

import asyncio

import pytest

from rocketmq_py.aio import Producer
from rocketmq_py.errors import BrokerError, ConfigError, NetworkError, NoRouteError
from rocketmq_py.protocol.recall_handle import RecallHandle
from rocketmq_py.wire.command import Command
from tests.unit.client.producing import run_producer, with_producer
from tests.unit.client.scripted import ScriptedNetwork, cluster

HEALTHY = cluster(t={"a": 1, "b": 1})
RECALL = 370
HANDLE = RecallHandle("t", "b", 1735787045678, "KEY").encode()


def answer(address, request):
    return Command(0, ext={"msgId": "KEY"}) if request.code == RECALL else HEALTHY(address, request)


@with_producer(answer)
async def test_the_broker_of_the_handle_gets_it_and_the_key_of_the_message_comes_back(
    producer: Producer, network: ScriptedNetwork
) -> None:
    assert await producer.recall("t", HANDLE) == "KEY"
    [(address, request)] = [each for each in network.requests if each[1].code == RECALL]
    assert address == "b:1"
    wanted = {"producerGroup": "g", "topic": "t", "recallHandle": HANDLE}
    assert {name: request.ext[name] for name in wanted} == wanted


@with_producer(answer)
async def test_impossible_recalls_are_refused_and_nothing_is_sent(producer: Producer, network: ScriptedNetwork) -> None:
    for topic, handle, error, says in (
        ("a b", HANDLE, ConfigError, "topic 'a b'"), ("%RETRY%g", HANDLE, ConfigError, "cannot be recalled"),
        ("t", None, ConfigError, "only a message with a delivery time has one"), ("t", "!", ConfigError, "invalid"),
        ("t", RecallHandle("t", "gone", 1, "K").encode(), NoRouteError, "broker gone has no master"),
        ("u", HANDLE, NoRouteError, "'u'"),
    ):  # fmt: skip
        with pytest.raises(error, match=says):
            await producer.recall(topic, handle)
    assert RECALL not in network.codes()


def test_a_refusal_names_the_broker_and_a_silent_one_is_waited_for_as_long_as_asked() -> None:
    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        network.answer = lambda address, request: (
            Command(1, remark="too late") if request.code == RECALL else HEALTHY(address, request)
        )
        with pytest.raises(BrokerError, match="code 1 from b: too late"):
            await producer.recall("t", HANDLE)
        network.answer = lambda address, request: None if request.code == RECALL else HEALTHY(address, request)
        began = asyncio.get_running_loop().time()
        with pytest.raises(NetworkError):
            await producer.recall("t", HANDLE, 4.0)
        assert asyncio.get_running_loop().time() - began == pytest.approx(4.0, abs=0.1)

    run_producer(body, HEALTHY)
