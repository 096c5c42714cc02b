"""A checkpoint whose messages are at another broker: they are fetched there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rocketmq_py.broker import Broker, BrokerConfig
from rocketmq_py.broker.broker import wall_clock
from rocketmq_py.namesrv import NameServer
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.pop_checkpoint import CheckPoint, CkKey, revive_topic
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.store import StoreConfig
from tests.server.test_broker import SMALL, name_server, until
from tests.server.test_escape import bodies, send

REVIVE, BACK = revive_topic("DefaultCluster"), "%RETRY%g_t"
TRY_MS = 15_000
"""More than until a broker that could not be reached is asked again."""


class Cluster:
    """Masters of several names, whose clocks are ``ahead_ms`` ahead."""

    def __init__(self, root: Path, server: NameServer, outward: RpcClient) -> None:
        self.ahead_ms = 0
        self.outward = outward
        self._root = root
        self._server = server
        self._running: list[Broker] = []

    def now(self) -> int:
        return wall_clock() + self.ahead_ms

    async def master(self, name: str, *messages: bytes) -> Broker:
        """With topic and group, and messages in the only queue."""
        config = BrokerConfig(
            broker_name=name, namesrv_addr=self._server.address, listen_port=0, bind_address="127.0.0.1",
            store_path_root_dir=str(self._root / name),
        )  # fmt: skip
        broker = Broker(config, StoreConfig(**SMALL), self.now)
        await broker.start()
        self._running.append(broker)
        broker.services.topics.put([TopicConfig(topic_name="t", read_queue_nums=1, write_queue_nums=1)])
        broker.services.groups.put([SubscriptionGroupConfig(group_name="g")])
        await broker.services.registration.flush()
        for body in messages:
            await send(self.outward, broker, "t", body)
        return broker

    async def note(self, broker: Broker, name: str, offset: int) -> CkKey:
        """A slave of another name that acts notes a pop, whose time is up: as Java's sends it."""
        ck = CheckPoint(
            topic="t", group="g", queue_id=0, start_offset=offset, pop_time=self.now() - 60_000, broker_name=name,
            invisible_ms=1_000, count=1, diffs=[0],
        )  # fmt: skip
        deliver = str(ck.revive_time - 1_000)
        await send(
            self.outward, broker, REVIVE, ck.encode(), TAGS="ck", UNIQ_KEY=ck.unique_key, TIMER_DELIVER_MS=deliver
        )
        return ck.key

    async def stop(self) -> None:
        for broker in self._running:
            await broker.stop()


@asynccontextmanager
async def cluster(root: Path) -> AsyncIterator[Cluster]:
    async with name_server() as server:
        outward = RpcClient()
        made = Cluster(root, server, outward)
        try:
            yield made
        finally:
            outward.close()
            await made.stop()


async def test_messages_are_fetched_from_the_broker_of_the_checkpoint(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await made.master("broker-z", b"theirs 0", b"theirs 1")
        here = await made.master("broker-a", b"ours 0", b"ours 1")
        for name, offset in (("broker-z", 1), ("broker-a", 0)):
            await made.note(here, name, offset)
        await until(lambda: sorted(bodies(here, BACK)) == [b"ours 0", b"theirs 1"])
        await until(lambda: not here.services.pop.revive_log.inflight)


async def test_an_unreachable_broker_is_retried(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        here = await made.master("broker-a", b"ours")
        key = await made.note(here, "broker-z", 0)
        ledger = here.services.pop.revive_log.inflight

        def tries() -> int:
            one = ledger.find(key)
            return 0 if one is None else one.check_point.tries

        for times in (1, 2, 3):
            await until(lambda times=times: tries() == times)
            assert bodies(here, BACK) == []
            if times == 3:
                await made.master("broker-z", b"theirs")
            made.ahead_ms += TRY_MS * times
        await until(lambda: bodies(here, BACK) == [b"theirs"])
        await until(lambda: not ledger)
