"""Java clients on a cluster of ours whose name servers and brokers are killed, or stopped, and started again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py import Admin
from tests.chaoskit.processes import ClusterProcesses
from tests.interop.javapeer import JavaPeer, JavaProcess, Row, options

N = 2000


pytestmark = pytest.mark.long


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[ClusterProcesses]:
    settings = {"enableShutdownGracefully": "true", "shutdownWaitTimeSeconds": "30"}
    with ClusterProcesses(tmp_path, brokers=3, name_servers=3, settings=settings) as running:
        yield running


def messages(process: JavaProcess, count: int) -> list[Row]:
    """The next rows up to ``count`` of what was sent; a send that failed fails the test."""
    rows: list[Row] = []
    while len(rows) < count:
        rows += process.until(lambda _: True)
        assert rows[-1]["type"] == "sent", rows[-1]
    return rows


def test_a_failover_fails_no_java_client(java: JavaPeer, machines: ClusterProcesses) -> None:
    with Admin(namesrv=machines.direct_namesrv) as admin:
        admin.create_topic("t", 4)
    consumer = java.consumer(machines.direct_namesrv, "t", "g", from_="first", timeout=240)
    producer = java.start("produce", *options(namesrv=machines.direct_namesrv, topic="t", n=N, rate=100))
    sent = messages(producer, 100)
    machines.name_servers[0].kill()
    sent += messages(producer, 100)
    machines.brokers[1].kill()
    sent += messages(producer, 100)
    machines.name_servers[0].start()
    machines.brokers[1].start()
    sent += messages(producer, 100)
    machines.brokers[2].kill()
    machines.name_servers[1].kill()
    sent += messages(producer, 100)
    machines.brokers[2].start()
    machines.name_servers[1].start()
    sent += messages(producer, 100)
    machines.brokers[0].stop()
    elsewhere = 0
    while elsewhere < 50:  # what was sent before the stop comes first
        sent += messages(producer, 1)
        elsewhere = 0 if sent[-1]["broker"] == "broker-a" else elsewhere + 1
    machines.brokers[0].start()
    machines.name_servers[2].stop()
    sent += messages(producer, N - len(sent))
    missing = {row["msgId"] for row in sent}
    assert len(missing) == N
    assert {row["broker"] for row in sent} == {"broker-a", "broker-b", "broker-c"}

    def is_last(row: Row) -> bool:
        missing.discard(row.get("msgId"))
        return not missing

    consumer.until(is_last, 180)
