"""Many sends to a cluster in which no server answers: they share attempts and cost nothing while they wait."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.aio import Producer
from rocketmq_py.errors import ConnectError, NetworkError
from tests.unit.client.producing import message, run_producer
from tests.unit.client.scripted import ScriptedNetwork, cluster
from tests.unit.client.send.test_sender import delay_connects

MANY = 3000
BROKERS = {"a": 1, "b": 1}


@pytest.mark.parametrize("dead", [{"ns:1"}, {"a:1", "b:1"}], ids=["name server", "brokers"])
def test_sends_to_a_dead_cluster_share_their_attempts(dead: set[str]) -> None:
    tasks_at_most, ends = 0, list[BaseException | object]()

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        nonlocal tasks_at_most
        network.unreachable = dead
        connected = delay_connects(network, producer, 0.0)
        futures = [producer.send_async(message()) for _ in range(MANY)]
        done = asyncio.gather(*futures, return_exceptions=True)
        for _ in range(5):
            await asyncio.sleep(0.1)
            tasks_at_most = max(tasks_at_most, len(asyncio.all_tasks()))
        ends.extend(await done)
        assert len([address for address in connected if address in dead]) < 40  # not one for each send

    run_producer(body, cluster(t=BROKERS), send_timeout=3.0)  # waits take no time, 3000 sends do
    assert tasks_at_most < 30
    assert len(ends) == MANY
    assert {type(end) for end in ends} == {ConnectError}
    notes = [note for note in getattr(ends[0], "__notes__", []) if note.startswith("tried")]
    assert len(notes) == 1
    assert int(notes[0].split()[1]) >= 3


@pytest.mark.parametrize("dead", [{"ns:1"}, {"a:1", "b:1"}], ids=["name server", "brokers"])
def test_waiting_sends_continue_when_a_server_answers(dead: set[str]) -> None:
    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        network.unreachable = set(dead)
        bodies = [b"%d" % n for n in range(MANY)]
        futures = [producer.send_async(message(each)) for each in bodies]
        await asyncio.sleep(0.3)
        network.unreachable = {"b:1"}
        results = await asyncio.gather(*futures)
        assert {result.queue.broker_name for result in results} == {"a"}
        assert sorted(request.body for _, request in network.sent()) == sorted(bodies)

    run_producer(body, cluster(t=BROKERS), send_timeout=10.0)


def test_one_remaining_broker_gets_all_messages() -> None:
    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        network.unreachable = {"b:1"}
        results = await asyncio.gather(*(producer.send_async(message()) for _ in range(MANY)))
        assert {result.queue.broker_name for result in results} == {"a"}

    run_producer(body, cluster(t=BROKERS))


def test_without_retries_the_first_failure_is_final() -> None:
    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        network.unreachable = {"a:1", "b:1"}
        async with asyncio.timeout(2):
            with pytest.raises(NetworkError):
                await producer.send(message(), timeout=10.0)

    run_producer(body, cluster(t=BROKERS), retries=0)
