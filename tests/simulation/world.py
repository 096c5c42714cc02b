"""A cluster on the simulated network: one name server, brokers that are killed and come back, clients."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from rocketmq_py.broker.broker import Broker
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.services import Services
from rocketmq_py.broker.ticker import Job
from rocketmq_py.broker.timer import timer_files
from rocketmq_py.client import client_instance
from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.push import listener_watch
from rocketmq_py.client.send import sender
from rocketmq_py.core.timer import timers
from rocketmq_py.namesrv.config import NamesrvConfig
from rocketmq_py.namesrv.nameserver import NameServer
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.remoting import connection_pool
from rocketmq_py.server import loop_monitor
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.store import StoreConfig
from rocketmq_py.store.config import config_journal
from tests.simulation.disk import Disk, Steps
from tests.simulation.loop import Process, SimLoop, current
from tests.simulation.machine import SocketModule, clock
from tests.simulation.network import Network

NAMESRV = "10.0.0.1:9876"
CLUSTER = "simulated"
TOPIC = "orders"
_SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 32 * 1024, "mapped_file_size_consume_queue": 60 * 20,
    "mapper_file_size_batch_consume_queue": 60 * 46, "max_hash_slot_num": 64, "max_index_num": 256,
    "timer_wheel_enable": False, "max_message_size": 16 * 1024,
}  # fmt: skip
_WHEEL_SLOTS = 200
_SLOWEST_TICK_MS = 300
"""Periodic jobs of brokers run at most this often, where a schedule needs nothing finer."""


class NoGuard:
    """A thread that watches the loop in real time has nothing to see here."""

    def __init__(self, *_: object) -> None: ...

    def close(self) -> None: ...


def replace_threads_and_sockets() -> None:
    """What has no seam: the sockets that clients connect, their own address, and the guard of the loop."""
    connection_pool.socket = SocketModule()  # type: ignore[assignment]
    client_instance.local_ip = sender.local_ip = lambda: current().ip  # type: ignore[attr-defined]
    listener_watch.LoopGuard = NoGuard  # type: ignore[misc,assignment]
    loop_monitor._LOOK_SECONDS = 5.0
    config_journal.JOURNAL_SIZE = 16 * 1024
    timers.WHEEL_SLOTS = timer_files.WHEEL_SLOTS = _WHEEL_SLOTS


replace_threads_and_sockets()


class SlowBroker(Broker):
    """A broker whose periodic jobs do not fill the schedule."""

    def _jobs(self, services: Services) -> list[Job]:
        return [job._replace(interval_ms=max(job.interval_ms, _SLOWEST_TICK_MS)) for job in super()._jobs(services)]


class Server:
    """A server and its machine: what of it survives, and which process it is now.

    :param make: makes the server for a disk.
    """

    def __init__(self, world: World, name: str, ip: str, make: Callable[[Server], Any]) -> None:
        self.world = world
        self.name = name
        self.ip = ip
        self.disk = Disk()
        self.slow_disk_until = 0.0
        self.incarnation = 0
        self._make = make
        self.process = Process(world.loop, name, ip)
        self.process.kill()
        self.server: Any = None
        self.up = asyncio.Event()

    def disk_delay(self) -> float:
        """How long a flush takes now."""
        chance = self.world.chance
        if self.world.loop.time() < self.slow_disk_until:
            return 0.1 + 0.9 * chance.random()
        return 0.0002 + 0.003 * chance.random()

    async def start(self) -> None:
        """Start a process of it."""
        self.incarnation += 1
        process = self.process = Process(self.world.loop, self.name, self.ip)
        server = self.server = process.call(lambda: self._make(self))
        await self.world.until_done(process.start(server.start()), process)
        if not process.is_dead:
            self.world.note(self.name, "serves")
            self.up.set()

    def committed(self) -> dict[str, dict[int, int]]:
        """The offsets of all groups that a broker holds, by topic and group."""
        offsets = self.server.services.offsets
        return {key: dict(table) for key, table in offsets.table.items()}

    def kill(self, *, power: bool) -> None:
        """Kill its process, or switch its machine off."""
        if power:
            self.world.on_power_loss(self)
        self.up.clear()
        self.world.note(self.name, "loses power" if power else "is killed")
        self.process.kill()
        self.world.network.process_died(self.process, machine_too=power)
        self.disk = self.disk.after_power_loss(self.world.chance) if power else self.disk.after_kill()

    async def stop(self) -> None:
        """Stop it in order."""
        self.up.clear()
        self.world.note(self.name, "stops")
        await self.world.until_done(self.process.start(self.server.stop()), self.process)
        self.process.kill()
        self.world.network.process_died(self.process, machine_too=False)

    async def restart(self) -> None:
        """Start it again on the disk it has."""
        self.world.network.machine_is_back(self.ip)
        await self.start()


class World:
    """The cluster of one schedule.

    :param chance: decides what is not decided by the scenario.
    :param flush: how brokers flush, SYNC_FLUSH or ASYNC_FLUSH.
    """

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.chance = random.Random(seed)
        self.loop = SimLoop()
        self.network = Network(self.loop, self.chance, keep_trace=keep_trace)
        self.servers: dict[str, Server] = {}
        self.clients: list[Process] = []
        self.notes: list[str] = []
        self.on_power_loss: Callable[[Server], None] = lambda _: None
        """Called with a server whose machine is about to lose power."""

    def note(self, *what: object) -> None:
        """Note an event, for the trace and for people."""
        self.network.trace.note(*what)
        self.notes.append(f"{self.loop.time():9.3f} {' '.join(map(str, what))}")

    async def until_done(self, task: asyncio.Task[Any], process: Process) -> None:
        """Wait for a task of a process, unless the process dies first.

        :raises Exception: what the task raised.
        """
        while not task.done() and not process.is_dead:
            await asyncio.wait([task], timeout=0.5)
        if task.done():
            task.result()

    # -- servers

    def add_name_server(self, **settings: Any) -> Server:
        config = NamesrvConfig(listen_port=9876, bind_address="10.0.0.1", **settings)
        return self._add("ns", "10.0.0.1", lambda _: NameServer(config, clock=clock.wall_ms))

    def add_broker(self, name: str, ip: str, store: dict[str, Any], **settings: Any) -> Server:
        def make(server: Server) -> Broker:
            config = BrokerConfig(
                broker_name=name.partition("-")[0], broker_cluster_name=CLUSTER, broker_ip1=ip, bind_address=ip,
                namesrv_addr=NAMESRV, store_path_root_dir=f"/{name}",
                **{"revive_queue_num": 1, "register_name_server_period": 10_000, "trace_on": False} | settings,
            )  # fmt: skip
            access = AuthDispatcher(AccessSettings(), lambda: None, lambda _: None, CLUSTER)
            return SlowBroker(
                config, StoreConfig(**_SMALL | store), clock.wall_ms, access=access, fs=server.disk,
                workers=Steps(server.disk_delay),
            )  # fmt: skip

        return self._add(name, ip, make)

    def _add(self, name: str, ip: str, make: Callable[[Server], Any]) -> Server:
        server = self.servers[name] = Server(self, name, ip, make)
        return server

    @property
    def brokers(self) -> list[Server]:
        return [server for name, server in self.servers.items() if name != "ns"]

    async def start(self, queues: int) -> None:
        """Start all servers and make the topic on every master."""
        for server in self.servers.values():
            await server.start()
        for server in self.brokers:
            if not server.server.config.is_slave:
                topic = TopicConfig(topic_name=TOPIC, read_queue_nums=queues, write_queue_nums=queues)
                server.process.call(lambda server=server, topic=topic: server.server.services.topics.put([topic]))

    # -- clients

    def add_client(self, name: str) -> Process:
        """A process for a client."""
        process = Process(self.loop, name, f"10.0.1.{len(self.clients) + 1}")
        self.clients.append(process)
        return process

    def instance(self, process: Process) -> ClientInstance:
        """The client instance of a process; belongs to it."""
        return process.call(
            lambda: ClientInstance(
                NAMESRV, instance_name=f"{process.name}#{len(self.clients)}", client_ip=process.ip,
                route_interval=5.0, heartbeat_interval=5.0, offset_interval=1.0,
            )
        )  # fmt: skip

    def end(self) -> None:
        """Let go of everything."""
        for process in [*(server.process for server in self.servers.values()), *self.clients]:
            process.kill()
        self.loop.abandon()
