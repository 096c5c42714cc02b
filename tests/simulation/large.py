"""``python -m tests.simulation.large``: many brokers and clients on the simulated network, in virtual time.

Brokers stand in racks. Producers send at a steady rate, the consumers of each topic form a group. A name server is
restarted, then a rack loses power and comes back. Printed are the seconds until all clients are served as before, the
most requests that a server got in one second, and the messages that were acknowledged and not consumed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.simulation import loop as simulated_loop
from tests.simulation.machine import clock
from tests.simulation.world import NAMESRV, Server, World

from rocketmq_py.client.client_instance import ClientInstance  # isort: skip
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.client.producer.producer import Producer
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import ConsumeFromWhere, ConsumeResult, Message, MessageExt
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.store import SYNC_FLUSH

_RACKS = 10
_COPIES = 3
"""Brokers that have queues of each topic, each in another rack."""
_QUEUES = 2
_PAUSE_SECONDS = 10.0
"""Between two messages of a producer."""
_JOIN_SECONDS = 60.0
_CALM_SECONDS = 60.0
_AWAY_SECONDS = 60.0
_MOST_SECONDS = 300.0


class Requests:
    """Counts the requests that each server gets in each second."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._seconds: Counter[tuple[str, int]] = Counter()
        plain = Dispatcher._call

        def call(dispatcher: Dispatcher, peer: Any, request: Any, body: bytes) -> Any:
            self._seconds[simulated_loop.current().name, int(self._now())] += 1
            return plain(dispatcher, peer, request, body)

        Dispatcher._call = call  # type: ignore[method-assign]

    def worst(self, begin: float, end: float, *, name_server: bool) -> int:
        """Return the most requests in a second of the time that one broker got, or the name server."""
        return max(
            (
                count
                for (name, at), count in self._seconds.items()
                if begin <= at < end and (name == "ns") == name_server
            ),
            default=0,
        )


class Cluster:
    """The servers, the clients and what they did."""

    def __init__(self, brokers: int, clients: int) -> None:
        self.world = World(1)
        self.brokers = [self._broker(number) for number in range(brokers)]
        self.requests = Requests(self.world.loop.time)
        self._clients = clients
        self.acked: dict[str, float] = {}
        self.consumed: set[str] = set()
        self.failures: list[float] = []
        self.waits: list[tuple[float, float]] = []
        """When each send began, and how long it took."""
        self._is_over = False

    def _broker(self, number: int) -> Server:
        if not number:
            self.world.add_name_server()
        store = {"flush_disk_type": SYNC_FLUSH, "mapped_file_size_commit_log": 1 << 20}
        settings = {"register_name_server_period": 30_000}
        return self.world.add_broker(f"b{number}", f"10.0.0.{number + 2}", store, **settings)

    async def play(self) -> None:
        """Start everything, let things go wrong, and print the figures."""
        world, now = self.world, self.world.loop.time
        begin = now()
        for server in world.servers.values():
            await server.start()
        for number in range(len(self.brokers)):
            self._make_topic(number)
        clients = [self._start_client(number) for number in range(self._clients)]
        await asyncio.sleep(_JOIN_SECONDS + _CALM_SECONDS)
        self._tell("all clients join within a minute", begin, begin + _JOIN_SECONDS + _CALM_SECONDS, 0.0)
        calm = now()
        await asyncio.sleep(_CALM_SECONDS)
        self._tell("a minute of nothing", calm, now(), 0.0)
        await self._go_wrong("the name server is killed for 20 s", [world.servers["ns"]], 20.0, power=False)
        await self._go_wrong("a rack loses power for 60 s", self.brokers[::_RACKS], _AWAY_SECONDS, power=True)
        self._is_over = True
        await asyncio.wait(clients, timeout=_PAUSE_SECONDS + 30)
        missing = await self._missing()
        print(f"{len(self.acked)} messages acknowledged, {len(self.failures)} sends failed, {len(missing)} lost")

    def _make_topic(self, number: int) -> None:
        for copy in range(_COPIES):
            server = self.brokers[(number + copy * (len(self.brokers) // _COPIES)) % len(self.brokers)]
            topic = TopicConfig(topic_name=f"T{number}", read_queue_nums=_QUEUES, write_queue_nums=_QUEUES)
            server.process.call(lambda server=server, topic=topic: server.server.services.topics.put([topic]))

    def _start_client(self, number: int) -> asyncio.Task[Any]:
        ip = f"10.{1 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
        process = simulated_loop.Process(self.world.loop, f"c{number}", ip)
        self.world.clients.append(process)
        topic = f"T{number // 2 % len(self.brokers)}"
        return process.start(self._consume(process, topic) if number % 2 else self._produce(process, topic))

    async def _instance(self, process: simulated_loop.Process) -> ClientInstance:
        await asyncio.sleep(self.world.chance.random() * _JOIN_SECONDS)
        return ClientInstance(NAMESRV, instance_name=process.name, client_ip=process.ip)

    async def _produce(self, process: simulated_loop.Process, topic: str) -> None:
        producer, number, now = Producer("producers", instance=await self._instance(process)), 0, self.world.loop.time
        await producer.start()
        while not self._is_over:
            await asyncio.sleep(_PAUSE_SECONDS * 2 * self.world.chance.random())
            key, begin = f"{process.name}.{number}", now()
            number += 1
            try:
                await producer.send(Message(topic, key.encode()))
                self.acked[key] = now()
            except RocketMQError:
                self.failures.append(now())
            self.waits.append((begin, now() - begin))

    async def _consume(self, process: simulated_loop.Process, topic: str) -> None:
        async def listener(message: MessageExt) -> ConsumeResult:
            self.consumed.add(message.body.decode())
            return ConsumeResult.SUCCESS

        consumer = PushConsumer(
            f"g-{topic}", listener=listener, instance=await self._instance(process),
            consume_from=ConsumeFromWhere.FIRST_OFFSET,
        )  # fmt: skip
        consumer.subscribe(topic)
        await consumer.start()
        await asyncio.sleep(1e9)

    async def _go_wrong(self, what: str, servers: list[Server], seconds: float, *, power: bool) -> None:
        """Kill servers, start them again after some time, and wait until everything is as before."""
        begin = self.world.loop.time()
        for server in servers:
            server.kill(power=power)
        await asyncio.sleep(seconds)
        for server in servers:
            await server.restart()
        back = self.world.loop.time()
        while not self._is_settled() and self.world.loop.time() < back + _MOST_SECONDS:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        settled = self.world.loop.time() - back
        await asyncio.sleep(_CALM_SECONDS / 2)
        self._tell(what, begin, self.world.loop.time(), settled)

    def _is_settled(self) -> bool:
        """True if the name server knows all brokers, and all but the newest messages are consumed."""
        name_server: Any = self.world.servers["ns"].server
        known = name_server.registry.cluster_info().broker_addr_table
        old = self.world.loop.time() - 1.0
        waiting = any(at < old and key not in self.consumed for key, at in self.acked.items())
        return len(known) == len(self.brokers) and not waiting

    async def _missing(self) -> set[str]:
        end = self.world.loop.time() + _MOST_SECONDS
        while (missing := self.acked.keys() - self.consumed) and self.world.loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(1.0)
        return set(missing)

    def _tell(self, what: str, begin: float, end: float, settled: float) -> None:
        waits = [took for at, took in self.waits if begin <= at < end]
        failed = sum(begin <= at < end for at in self.failures)
        brokers, names = (self.requests.worst(begin, end, name_server=name_server) for name_server in (False, True))
        print(
            f"{what}: settled {settled:.1f} s after; most requests in a second: {brokers} of a broker, {names} of the "
            f"name server; {len(waits)} sends, {failed} failed, the longest took {max(waits, default=0.0):.1f} s",
            flush=True,
        )


def main() -> None:
    """Play with as many brokers and clients as the command says."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.large", description=__doc__)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--clients", type=int, default=10_000)
    options = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL + 1, handlers=[logging.NullHandler()])
    simulated_loop._MOST_CALLBACKS = 1 << 60
    gc.disable()
    begin, cluster = clock.real(), Cluster(options.brokers, options.clients)
    cluster.world.loop.run(cluster.play())
    print(f"{cluster.world.loop.time():.0f} s of virtual time took {clock.real() - begin:.0f} s")
    sys.stdout.flush()
    os._exit(0)  # nothing of all this has to be taken down in order


if __name__ == "__main__":
    wanted = {"PYTHONHASHSEED": "0", "ROCKETMQ_PY_NATIVE": "0"}  # runs of sends would be counted as one request
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.environ |= wanted
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation.large", *sys.argv[1:]])
    main()
