"""The schedules: which cluster, which clients, and what may go wrong."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

from rocketmq_py.model import MessageQueue
from rocketmq_py.store import ASYNC_FLUSH, SYNC_FLUSH, MessageStore
from rocketmq_py.wire.record import decode_records
from tests.simulation.clients import Client, Consuming, Pulling, Pushed, Receiving, Sending, Transacting
from tests.simulation.exactly import Driver, Query
from tests.simulation.faults import Allowed, Faults
from tests.simulation.ledger import Group, Ledger, Queue
from tests.simulation.loop import Process
from tests.simulation.world import TOPIC, Server, World

GROUP = "readers"
_LOOK_SECONDS = 0.25
_ACTS_AFTER_SECONDS = 10.0
"""So long after its master has gone, a slave that acts for it has served everything."""
_LIMIT_SECONDS = 150.0
"""So long after the last fault producers must have sent everything, in virtual time."""


class Scenario:
    """One schedule. Subclasses choose the cluster, the producers and the consumers.

    :param chance: chooses everything that differs from seed to seed.
    """

    orderly = False
    is_long = False
    """True if it plays for long, or with many servers."""
    commits = True
    has_power_loss = True
    failures = (0.0, 0.0, 0.05)
    """Shares of deliveries that fail, one of which is chosen."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.ledger = Ledger()
        self.queues = chance.randint(1, 3)
        self.span = chance.choice([0.3, 1.0, 2.0])
        """Seconds in which messages are sent and things go wrong."""
        self.is_calm = chance.random() < 0.1
        self.fails = chance.choice(self.failures)
        self.members: dict[str, Process] = {}
        self._consumers: list[Consuming] = []
        self._number = 0
        self.has_power = self.has_power_loss and chance.random() < 0.4
        self.store = {"flush_disk_type": SYNC_FLUSH if self.has_power else chance.choice([ASYNC_FLUSH, SYNC_FLUSH])}

    # -- what subclasses say

    def add_servers(self) -> None:
        """The cluster; two brokers."""
        self.world.add_name_server()
        self.world.add_broker("a", "10.0.0.2", self.store)
        self.world.add_broker("b", "10.0.0.3", self.store)

    def producers(self) -> list[Client]:
        """The producers."""
        count = self.chance.randint(5, 25)
        return [
            Sending(
                self.world, self.ledger, self.chance, name, count=count, delayed=self.delayed, timed=self.timed,
                pause=self.span / count,
            )
            for name in ("p", "q")[: self.chance.randint(1, 2)]
        ]  # fmt: skip

    delayed = 0.0
    timed = 0.0
    """Shares of messages with a delay level, and with a delay of their own."""

    def consumer(self, name: str) -> Consuming:
        """A new member of the group."""
        raise NotImplementedError

    # -- the play

    async def play(self) -> None:
        """Play it, and judge."""
        world, ledger = self.world, self.ledger
        ledger.groups[GROUP] = Group(GROUP, orderly=self.orderly, commits=self.commits)
        self.add_servers()
        await world.start(self.queues)
        self._join()
        joining = [asyncio.ensure_future(self._join_later()) for _ in range(self.chance.randint(0, 2))]
        # Members that join take queues from each other, and with them messages that are consumed again.
        ledger.is_calm = self.is_calm and not self.fails and not (joining and self.commits)
        producers = self.producers()
        sending = [producer.start() for producer in producers]
        watch = asyncio.ensure_future(self._watch())
        faults = Faults(world, ledger, self.chance, self.allowed, self.members, self._replace)
        if not self.is_calm:
            await self.go_wrong(faults)
        await asyncio.gather(*joining)
        await self._until_sent(producers)
        await self._until_complete()
        for producer in producers:
            await producer.stop()
        await asyncio.sleep(1.5)  # what comes too often comes now
        await self._until_complete()
        watch.cancel()
        self._look(at_end=True)
        self._judge_stores()
        for task in sending:
            if task.done() and not task.cancelled() and task.exception() is not None:
                ledger.find(f"a producer failed: {task.exception()!r}")
        ledger.judge()

    @property
    def allowed(self) -> Allowed:
        """What may go wrong."""
        return Allowed(power=self.has_power)

    async def go_wrong(self, faults: Faults) -> None:
        """Let things go wrong; returns when all of it is put right."""
        await faults.play(self.chance.randint(1, 4), self.span)

    async def _until_sent(self, producers: list[Client]) -> None:
        _, late = await asyncio.wait(
            [asyncio.ensure_future(producer.has_sent.wait()) for producer in producers], timeout=_LIMIT_SECONDS
        )
        if late:
            self.ledger.find("a producer does not come to its end")

    async def _until_complete(self) -> None:
        end = self.world.loop.time() + self.ledger.patience * (4 if self.fails else 1)
        while self.world.loop.time() < end and not (self.ledger.is_complete() and self._is_settled()):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)

    def _is_settled(self) -> bool:
        """True if the group has committed everything, where it commits."""
        return not self.commits or all(end in (offset, 0) for *_, offset, end in self._offsets())

    # -- members

    def _join(self) -> None:
        self._number += 1
        name = f"c{self._number}"
        consumer = self.consumer(name)
        self._consumers.append(consumer)
        self.members[name] = consumer.process
        self.world.note(name, "joins")
        consumer.start()

    async def _join_later(self) -> None:
        await asyncio.sleep(self.chance.choice([0.0, 0.3, 1.0]) * self.span)
        self._replace("one more")

    def _replace(self, _: str) -> None:
        # Who loses a queue stores its offset once more, perhaps after the next one.
        self.ledger.offsets_may_fall = self.ledger.offsets_may_fall or bool(self.members)
        self._join()

    # -- looking at brokers

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._look()

    def _look(self, *, at_end: bool = False) -> None:
        """Tell the ledger what brokers say of offsets."""
        for server, name, queue_id, offset, end in self._offsets():
            self.ledger.offset(GROUP, name, server.incarnation, (name, queue_id), offset)
            if offset > end and not self.ledger.is_doubtful((name, queue_id), offset - 1):
                self.ledger.find(f"the offset of {name}-{queue_id} is {offset}, and its queue ends at {end}")
            if at_end and self.commits and 0 <= offset < end:
                self.ledger.find(f"the offset of {name}-{queue_id} stays at {offset} of {end}")

    def _offsets(self) -> Iterator[tuple[Server, str, int, int, int]]:
        """Of every queue the broker, its name, the number, the group's offset and the end."""
        for server in self.world.brokers:
            if server.process.is_dead or not server.up.is_set() or server.server.config.is_slave:
                continue
            name, services = server.server.config.broker_name, server.server.services
            for queue_id in range(self.queues):
                offset = services.offsets.query(GROUP, TOPIC, queue_id)
                yield server, name, queue_id, offset, services.store.queue_range(TOPIC, queue_id)[1]

    def _judge_stores(self) -> None:
        """Every acknowledged message is where its producer was told."""
        stores = {
            server.server.config.broker_name: server.server.services.store
            for server in self.world.brokers
            if not server.server.config.is_slave
        }
        for sent in self.ledger.sent.values():
            if sent.is_acked and sent.place is not None:
                (broker, queue_id), offset = sent.place
                found = stores[broker].get(TOPIC, queue_id, offset, 1)
                messages = decode_records(bytes(found.body)) if found.count else []
                if not messages or messages[0].body != sent.body:
                    self.ledger.find(f"{sent.key} is lost: it is not at {offset} of {broker}-{queue_id}")


class Concurrent(Scenario):
    """Push consumers that consume concurrently; some messages have a delay."""

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__(world, chance)
        self.delayed = 0.3 if chance.random() < 0.3 else 0.0

    def consumer(self, name: str) -> Consuming:
        return Pushed(self.world, self.ledger, self.chance, name, group=GROUP, fails=self.fails)


class Orderly(Scenario):
    """Push consumers that consume in order; producers that send in order."""

    orderly = True

    def producers(self) -> list[Client]:
        lanes = [MessageQueue(TOPIC, broker, number) for broker in ("a", "b") for number in range(self.queues)]
        count = self.chance.randint(5, 15)
        return [
            Sending(
                self.world,
                self.ledger,
                self.chance,
                f"p{number}",
                count=count,
                queue=lanes[number % len(lanes)],
                pause=self.span / count,
            )
            for number in range(self.chance.randint(1, 3))
        ]

    def consumer(self, name: str) -> Consuming:
        options = {"orderly": True}
        return Pushed(self.world, self.ledger, self.chance, name, group=GROUP, fails=self.fails, options=options)


class LitePull(Scenario):
    """Lite pull consumers."""

    def consumer(self, name: str) -> Consuming:
        return Pulling(self.world, self.ledger, self.chance, name, group=GROUP)


class Simple(Scenario):
    """Simple consumers, which pop."""

    commits = False
    failures = (0.0, 0.0, 0.2)

    def consumer(self, name: str) -> Consuming:
        return Receiving(self.world, self.ledger, self.chance, name, group=GROUP, fails=self.fails)


class PushPop(Scenario):
    """Push consumers whose queues brokers assign, and that pop."""

    commits = False
    failures = (0.0, 0.0, 0.1)

    def add_servers(self) -> None:
        mode = {"default_message_request_mode": "POP"}
        self.world.add_name_server()
        self.world.add_broker("a", "10.0.0.2", self.store, **mode)
        self.world.add_broker("b", "10.0.0.3", self.store, **mode)

    def consumer(self, name: str) -> Consuming:
        options = {"client_rebalance": False, "pop_invisible_time": 5.0}
        return Pushed(self.world, self.ledger, self.chance, name, group=GROUP, fails=self.fails, options=options)


class Transactions(Scenario):
    """Transactions: committed, rolled back, left open."""

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__(world, chance)
        self.decisions: dict[str, bool] = {}

    def add_servers(self) -> None:
        interval = self.chance.choice([0, 500])
        self.ledger.commits_once = True
        settings = {"transaction_time_out": 1_000, "transaction_check_interval": 1_000, "transaction_check_max": 1_000,
                    "transaction_op_batch_interval": interval}  # fmt: skip
        self.world.add_name_server()
        self.world.add_broker("a", "10.0.0.2", self.store, **settings)
        self.world.add_broker("b", "10.0.0.3", self.store, **settings)

    def producers(self) -> list[Client]:
        return [
            Transacting(
                self.world, self.ledger, self.chance, name, count=self.chance.randint(5, 20), decisions=self.decisions
            )
            for name in ("t", "u")[: self.chance.randint(1, 2)]
        ]

    def consumer(self, name: str) -> Consuming:
        return Pushed(self.world, self.ledger, self.chance, name, group=GROUP, fails=0.0)


class Pair(Concurrent):
    """A master whose sends wait for its slave, and another broker; consumers may read from the slave.

    No machine loses power: the slave gets what is not yet on its master's disk, and a master that has lost it refuses
    a slave that has more than itself.
    """

    is_long = True

    has_power_loss = False

    def add_servers(self) -> None:
        settings = {"slave_read_enable": True, "slave_sync_interval": 1_000, "ha_send_heartbeat_interval": 500,
                    "ha_housekeeping_interval": 3_000}  # fmt: skip
        self.world.add_name_server()
        self.world.add_broker("a", "10.0.0.2", self.store, broker_role="SYNC_MASTER", in_sync_replicas=2, **settings)
        self.world.add_broker("a-1", "10.0.0.3", self.store, broker_role="SLAVE", broker_id=1, **settings)
        self.world.add_broker("b", "10.0.0.4", self.store)

    async def play(self) -> None:
        self.ledger.on_ack = self._acked
        await super().play()

    def _acked(self, key: str, queue: Queue, offset: int) -> None:
        """A send is answered when the slave has the message."""
        master, slave = (self.world.servers[name] for name in ("a", "a-1"))
        if queue[0] == "a" and master.up.is_set() and slave.up.is_set():
            place = master.server.services.store.physical_offset(TOPIC, queue[1], offset)
            end = slave.server.services.store.max_physical_offset
            if place is not None and end <= place:
                self.ledger.find(f"{key} is acknowledged and is at {place} of the log, the slave has it up to {end}")

    def _is_settled(self) -> bool:
        return super()._is_settled() and self._log_ends()[0] == self._log_ends()[1]

    def _log_ends(self) -> list[int]:
        servers = self.world.servers
        return [servers[name].server.services.store.max_physical_offset for name in ("a", "a-1")]

    def _judge_stores(self) -> None:
        super()._judge_stores()
        master, slave = (self.world.servers[name].server.services.store for name in ("a", "a-1"))
        begin, (end, slaves_end) = master.min_physical_offset, self._log_ends()
        if end != slaves_end:
            self.ledger.find(f"the log of the slave ends at {slaves_end}, that of its master at {end}")
            return
        for queue_id in range(self.queues):
            if master.queue_range(TOPIC, queue_id)[1] != slave.queue_range(TOPIC, queue_id)[1]:
                self.ledger.find(f"queue {queue_id} of the slave ends elsewhere than that of its master")
        while begin < end:
            views = [store.log_view(begin, 1 << 20) for store in (master, slave)]
            if None in views or views[0] != views[1]:
                self.ledger.find(f"the log of the slave differs from that of its master after {begin}")
                return
            begin += len(views[0])


class Delayed(Concurrent):
    """Messages with delay levels and with delays of their own, which a timer wheel keeps."""

    is_long = True

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__(world, chance)
        self.delayed, self.timed = 0.3, 0.4
        self.store |= {"timer_wheel_enable": True, "timer_precision_ms": 100, "timer_roll_window_slot": 20,
                       "mapped_file_size_timer_log": 8 * 1024, "timer_flush_interval_ms": 200}  # fmt: skip
        self.ledger.patience = 60.0


class LosingPower(Concurrent):
    """Brokers that answer before they flush, on machines that lose power: what was flushed stays."""

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__(world, chance)
        self.delayed = 0.0
        self.has_power = True
        self.store = {"flush_disk_type": ASYNC_FLUSH, "flush_interval_commit_log": chance.choice([50, 300]),
                      "flush_commit_log_least_pages": chance.choice([0, 1]), "mapped_file_size_commit_log": 4096,
                      "max_message_size": 2048}  # fmt: skip
        world.on_power_loss = self._power_is_lost

    def _power_is_lost(self, server: Server) -> None:
        store, name = server.server.services.store, server.server.config.broker_name
        for queue_id in range(self.queues):
            first, end = store.queue_range(TOPIC, queue_id)
            flushed = [offset for offset in range(first, end) if self._is_flushed(store, queue_id, offset)]
            begin = flushed[-1] + 1 if flushed else first
            self.ledger.lose((name, queue_id), begin, end, self.world.loop.time())

    @staticmethod
    def _is_flushed(store: MessageStore, queue_id: int, offset: int) -> bool:
        place = store.physical_offset(TOPIC, queue_id, offset)
        raw = None if place is None else store.message_at(place)
        return place is not None and raw is not None and place + len(raw) <= store.flushed_offset


class Damaged(Concurrent):
    """Frames that are none: whoever gets one ends the connection, and no message is lost."""

    @property
    def allowed(self) -> Allowed:
        return super().allowed._replace(damage=True)

    def _judge_stores(self) -> None:
        super()._judge_stores()
        for end in self.world.network.damaged:
            if not end.is_closing() and not end.process.is_dead:
                self.ledger.find(f"{end} got a corrupt frame and stays open")


class Acting(Pair):
    """A master that is away for some time: its slave acts for it, and hands over when the master is back."""

    def add_servers(self) -> None:
        settings = {
            "slave_read_enable": True, "slave_sync_interval": 500, "ha_send_heartbeat_interval": 500,
            "ha_housekeeping_interval": 3_000, "enable_slave_acting_master": True, "enable_remote_escape": True,
            "broker_heartbeat_interval": 500, "broker_not_active_timeout_millis": 2_000,
            "sync_broker_member_group_period": 500,
        }  # fmt: skip
        self.world.add_name_server(support_acting_master=True, scan_not_active_broker_interval=500)
        self.world.add_broker("a", "10.0.0.2", self.store, broker_role="SYNC_MASTER", in_sync_replicas=2, **settings)
        self.world.add_broker("a-1", "10.0.0.3", self.store, broker_role="SLAVE", broker_id=1, **settings)
        self.world.add_broker("b", "10.0.0.4", self.store)

    async def go_wrong(self, faults: Faults) -> None:
        await asyncio.sleep(self.chance.random() * self.span)
        master, slave = self.world.servers["a"], self.world.servers["a-1"]
        self.ledger.lives_overlap = self.ledger.offsets_may_fall = True
        if self.chance.random() < 0.5:
            master.kill(power=False)
        else:
            await master.stop()
        stored = [key for key, sent in self.ledger.sent.items() if sent.is_acked]
        seconds = self.chance.choice([1.0, 12.0])
        await asyncio.sleep(seconds)
        if seconds > _ACTS_AFTER_SECONDS and not self.fails:
            missing = set(stored) & set(self.ledger.missing(self.ledger.groups[GROUP]))
            if missing:
                self.ledger.find(f"the slave did not serve {sorted(missing)} while its master was away")
        before = slave.committed()
        await master.restart()
        self.ledger.restarted("a, whose slave acted for it,", before, master.committed())


class ExactlyOnce(Transactions):
    """Micro-batches of a Spark sink, whose driver is killed and started again."""

    is_long = True

    def producers(self) -> list[Client]:
        batches = [
            [f"b{batch}.{row}" for row in range(self.chance.randint(1, 6))]
            for batch in range(self.chance.randint(2, 5))
        ]  # fmt: skip
        self.query = Query(batches)
        self.drivers: list[Client] = []
        return self._with_driver()

    def _with_driver(self) -> list[Client]:
        driver = Driver(self.world, self.ledger, self.chance, f"driver{len(self.drivers)}", self.query, GROUP)
        self.drivers.append(driver)
        return self.drivers

    async def go_wrong(self, faults: Faults) -> None:
        await asyncio.gather(super().go_wrong(faults), self._kill_drivers())

    async def _kill_drivers(self) -> None:
        for _ in range(self.chance.randint(0, 3)):
            await asyncio.sleep(self.chance.random() * self.chance.choice([0.1, 0.5, 3.0]))
            process = self.drivers[-1].process
            self.world.note(process, "is killed")
            process.kill()
            self.world.network.process_died(process, machine_too=False)
            await asyncio.sleep(self.chance.choice([0.01, 0.5, 2.0]))
            self._with_driver()[-1].start()


SCENARIOS: dict[str, type[Scenario]] = {
    "concurrent": Concurrent,
    "orderly": Orderly,
    "lite-pull": LitePull,
    "simple": Simple,
    "push-pop": PushPop,
    "transactions": Transactions,
    "pair": Pair,
    "delayed": Delayed,
    "losing-power": LosingPower,
    "damaged": Damaged,
    "acting": Acting,
    "exactly-once": ExactlyOnce,
}
