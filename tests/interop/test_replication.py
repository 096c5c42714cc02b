"""A Java slave of our master, and our slave of a Java master: one log, byte for byte, and the same queues."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from rocketmq_py import Message, Producer, SendStatus
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import Command
from tests.interop.javapeer import JavaPeer, JavaProcess, free_port_block
from tests.interop.ours import OurServer, OurServers
from tests.interop.side import eventually
from tests.server.cli import Cli

FILE = 1 << 20
SETTINGS = {
    "mappedFileSizeCommitLog": FILE, "mappedFileSizeConsumeQueue": 20_000, "inSyncReplicas": 2, "slaveTimeout": 30_000,
    "flushDiskType": "SYNC_FLUSH", "waitTimeMillsInSendQueue": 10_000,
}  # fmt: skip
OURS = {"flushConsumeQueueThoroughInterval": 50}
ENTRY = Struct(">qiq")
Numbered = tuple[int, tuple[int, int, int]]


@dataclass(slots=True)
class End:
    """One side of a pair: where it is, and its store."""

    address: str
    store: Path
    process: JavaProcess | OurServer

    def status(self) -> dict[str, Any]:
        """What GET_BROKER_HA_STATUS says."""

        async def ask() -> bytes:
            caller = RpcClient()
            with contextlib.closing(caller):
                return (await caller.invoke(self.address, Command(Code.GET_BROKER_HA_STATUS), 60)).body

        return dict(json.loads(asyncio.run(ask())))

    def kill(self) -> None:
        self.process.kill()


@dataclass(slots=True)
class Pair:
    namesrv: str
    master: End
    slave: End
    ha_port: int

    def log_end(self) -> int:
        return int(self.master.status()["masterCommitLogMaxOffset"])

    def caught_up(self) -> int:
        """Waits until the slave has everything; where the log ends."""
        end = self.log_end()
        eventually(lambda: int(self.slave.status()["haClientRuntimeInfo"]["maxOffset"]), lambda has: has >= end)
        return end


class Pairs:
    """Starts pairs of one of ours and one of Java's."""

    def __init__(self, java: JavaPeer, servers: OurServers, work: Path) -> None:
        self._java = java
        self._servers = servers
        self._work = work

    def of_our_master(self) -> Pair:
        namesrv, ha = self._servers.namesrv().namesrv, free_port_block()
        ours = self._ours("our-master", namesrv, "--role", "SYNC_MASTER", haListenPort=ha)
        return Pair(namesrv, ours, self.java_slave(namesrv, ha), ha)

    def of_java_master(self) -> Pair:
        namesrv = self._servers.namesrv().namesrv
        store = self._work / "java-master"
        theirs = self._java.broker(namesrv, store=store, role="SYNC_MASTER", conf=SETTINGS)
        ha = int(theirs.address.rpartition(":")[2]) + 1
        return Pair(namesrv, End(theirs.address, store, theirs.process), self.our_slave(namesrv, ha), ha)

    def java_slave(self, namesrv: str, _: int) -> End:
        """Its master is found by the name server: Java brokers take no notice of haMasterAddress any more."""
        store = self._work / "java-slave"
        theirs = self._java.broker(namesrv, store=store, role="SLAVE", id=1, conf=SETTINGS)
        return End(theirs.address, store, theirs.process)

    def our_slave(self, namesrv: str, ha: int) -> End:
        return self._ours("our-slave", namesrv, "--role", "SLAVE", "--id", "1", haMasterAddress=f"127.0.0.1:{ha}")

    def _ours(self, store: str, namesrv: str, *flags: str, **settings: Any) -> End:
        ours = self._servers.serve(
            self._work / store, "--namesrv", namesrv, *flags, **{**SETTINGS, **OURS, **settings}
        )  # fmt: skip
        return End(ours.broker, self._work / store, ours)


@pytest.fixture(scope="module")
def made(java: JavaPeer, servers: OurServers, tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return Pairs(java, servers, tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module", params=["our master", "java master"])
def pair(request: pytest.FixtureRequest, made: Pairs) -> Iterator[Pair]:
    running = made.of_our_master() if request.param == "our master" else made.of_java_master()
    yield running
    running.slave.kill()
    running.master.kill()


def load(namesrv: str, start: int) -> None:
    """Messages of all kinds, in more than one file of the log, from both a blocking and a batching producer."""
    with Producer(group="p", namesrv=namesrv, send_timeout=60) as producer:
        for i in range(start, start + 40):
            assert producer.send(Message("A", b"%d" % i, tags="t", keys=f"k-{i}")).status is SendStatus.SEND_OK
        producer.send_batch([Message("B", b"%d" % i, keys=f"b-{i}") for i in range(20)])
        for _ in range(4):
            producer.send(Message("A", os.urandom(FILE // 4)))
        producer.send(Message("D", b"late", delay_level=18))


def assert_equal(pair: Pair, end: int) -> None:
    """Both logs, as far as the slave has it, and every queue."""
    names = sorted(path.name for path in (pair.slave.store / "commitlog").iterdir() if int(path.name) < end)
    assert names, "the slave has no log"
    for name in names:
        count = min(FILE, end - int(name))
        theirs = (pair.slave.store / "commitlog" / name).read_bytes()[:count]
        assert theirs == (pair.master.store / "commitlog" / name).read_bytes()[:count], name
    begin = int(names[0])
    wanted = eventually(
        lambda: (all_entries(pair.master.store, begin), all_entries(pair.slave.store, begin)),
        lambda both: both[0] == both[1] and reached(both[0]) >= end,
    )[0]
    assert {topic for topic, _ in wanted} >= {"A", "B", "SCHEDULE_TOPIC_XXXX"}


def all_entries(store: Path, begin: int) -> dict[tuple[str, str], list[Numbered]]:
    """The entries of every queue that has any; of a broker that runs, those it has written so far."""
    found = {key: entries(store, *key, begin) for key in queues(store)}
    return {key: numbered for key, numbered in found.items() if numbered}


def reached(found: dict[tuple[str, str], list[Numbered]]) -> int:
    """How far into the log the entries go."""
    return max((entry[0] + entry[1] for numbered in found.values() for _, entry in numbered), default=0)


def queues(store: Path) -> list[tuple[str, str]]:
    return [(path.parent.name, path.name) for path in (store / "consumequeue").glob("*/*")]


def entries(store: Path, topic: str, queue: str, begin: int) -> list[Numbered]:
    """Offset and entry of the messages from a place of the log on."""
    found = []
    for path in sorted((store / "consumequeue" / topic / queue).glob("*")):
        content = path.read_bytes()
        for number, entry in enumerate(ENTRY.iter_unpack(content[: len(content) // ENTRY.size * ENTRY.size])):
            if entry[1] and entry[1] != 0x7FFFFFFF and entry[0] >= begin:
                found.append((int(path.name) // ENTRY.size + number, entry))
    return found


def test_the_log_of_the_slave_equals_that_of_its_master(pair: Pair, java: JavaPeer) -> None:
    eventually(lambda: pair.master.status()["haConnectionInfo"], lambda slaves: len(slaves) == 1)
    load(pair.namesrv, 0)
    java.produce(pair.namesrv, "J", 3, mode="tx", tx="commit", linger_ms=100)
    java.produce(pair.namesrv, "J", 30, mode="batch", batch=10)
    java.produce(pair.namesrv, "J", 3, delay_ms=3_600_000)
    end = pair.caught_up()
    assert end > FILE
    assert_equal(pair, end)
    told = eventually(pair.master.status, lambda told: told["inSyncSlaveNums"] == 1)
    [connection] = told["haConnectionInfo"]
    assert connection["inSync"]
    text = java.admin("haStatus", "-n", pair.namesrv, "-b", pair.master.address)
    assert "#SlaveNum\t1" in text
    assert "OK" in text
    cli = Cli(pair.namesrv)
    # The log still grows: that transactions have ended is written some seconds later.
    [seen] = eventually(
        lambda: cli.json("broker", "replicas", "broker-a"),
        lambda rows: (rows[0]["logEnd"], rows[0]["behind"]) == (pair.log_end(), 0),
    )
    assert seen["inSync"]
    eventually(
        lambda: java.admin("haStatus", "-b", pair.slave.address, "-n", pair.namesrv),
        lambda text: f"#CommitLogMaxOffset\t{pair.log_end()}" in text,
    )


def test_a_slave_that_is_killed_catches_up(pair: Pair, made: Pairs) -> None:
    """While it is away the master answers, in the end, that a message is stored but has no second home."""
    java_slave = isinstance(pair.slave.process, JavaProcess)
    pair.slave.kill()
    eventually(lambda: pair.master.status()["haConnectionInfo"], lambda slaves: not slaves)
    asyncio.run(set_timeout(pair.master.address, 500))
    with Producer(group="p", namesrv=pair.namesrv, send_timeout=60) as producer:
        late = [producer.send(Message("A", bytes(FILE // 3), keys="late")) for _ in range(4)]
    assert {sent.status for sent in late} == {SendStatus.FLUSH_SLAVE_TIMEOUT}
    pair.slave = (
        made.java_slave(pair.namesrv, pair.ha_port) if java_slave else made.our_slave(pair.namesrv, pair.ha_port)
    )
    eventually(lambda: pair.master.status()["haConnectionInfo"], lambda slaves: len(slaves) == 1)
    asyncio.run(set_timeout(pair.master.address, 30_000))
    load(pair.namesrv, 100)
    assert_equal(pair, pair.caught_up())


async def set_timeout(address: str, milliseconds: int) -> None:
    caller = RpcClient()
    with contextlib.closing(caller):
        body = f"slaveTimeout={milliseconds}\n".encode()
        answer = await caller.invoke(address, Command(Code.UPDATE_BROKER_CONFIG, body=body), 60)
    assert answer.code == 0, answer
