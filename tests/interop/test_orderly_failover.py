"""A Java consumer reads in order from a pair of ours whose master is killed and restarted."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py import Admin, Message, MessageQueue, Producer
from tests.interop.javapeer import JavaPeer, JavaProcess, Row, free_port_block
from tests.interop.ours import OurServers
from tests.interop.side import group
from tests.replicas import caught_up

pytestmark = pytest.mark.long

TOPIC, QUEUES, SECONDS = "orders", 2, 300.0
N, MORE = 2_500, 50
"""In each queue. A Java consumer holds a thousand of a queue, so that it has most of them from the slave."""


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[OurServers]:
    """That may be killed."""
    servers = OurServers(tmp_path)
    yield servers
    servers.close()


class Reader:
    """What a Java consumer says it got, queue by queue."""

    def __init__(self, process: JavaProcess) -> None:
        self._process = process
        self.offsets: dict[int, list[int]] = defaultdict(list)

    def until_each_has(self, count: int) -> None:
        """Until so many messages of each queue have come."""
        self._process.until(lambda row: self._has(row, count), SECONDS)

    def _has(self, row: Row, count: int) -> bool:
        if row["type"] == "msg":
            self.offsets[row["queueId"]].append(row["queueOffset"])
        return len(self.offsets) == QUEUES and all(len(set(seen)) >= count for seen in self.offsets.values())

    def check(self, count: int) -> None:
        """All have come in order, apart from repeats."""
        for queue_id, offsets in self.offsets.items():
            assert list(dict.fromkeys(offsets)) == list(range(count)), queue_id


def send(namesrv: str, first: int, count: int) -> None:
    with Producer("p", namesrv, send_timeout=120) as producer:
        for queue_id in range(QUEUES):
            queue = MessageQueue(TOPIC, "broker-a", queue_id)
            for begin in range(first, first + count, 500):
                numbers = range(begin, min(begin + 500, first + count))
                producer.send_batch([Message(TOPIC, b"%d" % number) for number in numbers], queue)


@pytest.mark.parametrize("acting", [False, True], ids=["slave", "acting master"])
def test_a_java_consumer_continues_in_order_after_a_failover(
    java: JavaPeer, own_servers: OurServers, acting: bool
) -> None:
    """From a slave that acts as master at once; otherwise when the master, which has its locks, is back."""
    namesrv = own_servers.namesrv(supportActingMaster=str(acting).lower()).namesrv
    settings = {"slaveReadEnable": "true", "enableSlaveActingMaster": str(acting).lower()}
    master_flags = ("--namesrv", namesrv, "--port", str(free_port_block()))
    master = own_servers.serve(own_servers.work / "master", *master_flags, **settings)
    with Admin(namesrv, timeout=60) as admin:
        admin.create_topic(TOPIC, QUEUES)
    send(namesrv, 0, N)
    own_servers.serve(
        own_servers.work / "slave", "--namesrv", namesrv, "--role", "SLAVE", "--id", "1", slaveSyncInterval=500,
        **settings,
    )  # fmt: skip
    asyncio.run(caught_up(namesrv))
    with java.consumer(namesrv, TOPIC, group(), mode="orderly", work_ms=2, timeout=3600) as process:
        reader = Reader(process)
        reader.until_each_has(N // 50)
        master.kill()
        if acting:
            reader.until_each_has(N)
        own_servers.serve(own_servers.work / "master", *master_flags, **settings)
        send(namesrv, N, MORE)
        reader.until_each_has(N + MORE)
    reader.check(N + MORE)
