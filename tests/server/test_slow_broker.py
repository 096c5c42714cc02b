"""A producer between a quick broker and one that is slow, silent or gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rocketmq_py import Admin, LatencyFaultTolerance, Message, Producer, aio
from rocketmq_py.testing import Cluster, TcpProxy

pytestmark = pytest.mark.java_timeouts  # a client waits for a silent broker when it closes
SENDS = 12
SLOW = LatencyFaultTolerance(latency_max=(4.0, 9.0), not_available_duration=(120.0, 120.0))
"""What takes 4 s is slow: more than a busy machine needs for a send."""
DELAY = 2.2
"""Of every piece of data, so that a send takes twice that."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        with Admin(running.namesrv) as admin:
            admin.create_topic("t", 2)
        yield running


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[TcpProxy]:
    """Before broker-a."""
    with TcpProxy(cluster.addresses[0]) as running:
        yield running


def brokers(cluster: Cluster, proxy: TcpProxy, **options: float | LatencyFaultTolerance) -> list[str]:
    """Where messages go, one after the other."""
    mapped = {cluster.addresses[0]: proxy.address}
    with Producer("g", cluster.namesrv, address_map=mapped, send_timeout=60, **options) as producer:  # type: ignore[arg-type]
        return [producer.send(Message("t", "x")).queue.broker_name for _ in range(SENDS)]


def test_a_slow_broker_gets_one_message(cluster: Cluster, proxy: TcpProxy) -> None:
    proxy.delay = DELAY
    assert brokers(cluster, proxy, send_latency_fault_enable=SLOW).count("broker-a") == 1


def test_the_asyncio_producer_avoids_a_slow_broker(cluster: Cluster, proxy: TcpProxy) -> None:
    proxy.delay = DELAY

    async def main() -> list[str]:
        mapped = {cluster.addresses[0]: proxy.address}
        async with aio.Producer(
            "g", cluster.namesrv, address_map=mapped, send_timeout=60, send_latency_fault_enable=SLOW
        ) as producer:
            return [(await producer.send(Message("t", "x"))).queue.broker_name for _ in range(SENDS)]

    assert asyncio.run(main()).count("broker-a") == 1


def test_a_silent_broker_costs_one_attempt(cluster: Cluster, proxy: TcpProxy) -> None:
    proxy.silence()
    went = brokers(cluster, proxy, send_latency_fault_enable=SLOW, send_msg_max_timeout_per_request=0.5)
    assert set(went) == {"broker-b"}


def test_a_recovered_broker_is_used_again(cluster: Cluster, proxy: TcpProxy) -> None:
    options = SLOW._replace(not_available_duration=(0.0, 0.5))
    mapped = {cluster.addresses[0]: proxy.address}
    proxy.refuse()
    with Producer(
        "g", cluster.namesrv, address_map=mapped, send_timeout=60, send_latency_fault_enable=options
    ) as producer:
        assert {producer.send(Message("t", "x")).queue.broker_name for _ in range(4)} == {"broker-b"}
        proxy.start()
        while producer.send(Message("t", "x"), timeout=60).queue.broker_name != "broker-a":
            pass  # until its half second is over; pytest-timeout limits the wait
