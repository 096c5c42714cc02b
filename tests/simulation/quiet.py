"""``python -m tests.simulation.quiet``: a cluster to which nothing happens for days, and what it says of that.

Many things come by the clock: heartbeats, offsets, clean-up, consume timeouts, checks of transactions. Where nothing is
wrong none of them may warn of anything, and a message now and then reaches its consumers once. Clients and servers have
the periods of applications.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections import Counter
from typing import Any

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.lite_pull.consumer import LitePullConsumer
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer
from rocketmq_py.client.producer.transaction_producer import TransactionProducer
from rocketmq_py.model import ConsumeFromWhere, ConsumeResult, Message, MessageExt, TransactionState
from tests.simulation import loop as simulated_loop
from tests.simulation.loop import Process
from tests.simulation.machine import clock
from tests.simulation.world import NAMESRV, TOPIC, World

_QUEUES = 2
_REST_SECONDS = 120.0
"""At the end, for what is delayed or checked."""


class Warnings(logging.Handler):
    """Keeps what is logged as a warning or worse, with the number of times and the hour of the first."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world
        self.first: dict[str, float] = {}
        self.counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.levelname} {record.name}: {record.getMessage()}"
        self.first.setdefault(text, self._world.loop.time() / 3600)
        self.counts[text] += 1

    def findings(self) -> list[str]:
        """One line for each text."""
        return [f"after {hour:.2f} h, {self.counts[text]} times: {text}" for text, hour in self.first.items()]


class Quiet:
    """The cluster and its clients.

    :param hours: how long, of virtual time.
    :param pause: seconds between two messages.
    """

    def __init__(self, world: World, hours: float, pause: float) -> None:
        self._world = world
        self._end = hours * 3600
        self._pause = pause
        self.sent: set[str] = set()
        self.got: dict[str, Counter[str]] = {}

    async def play(self) -> None:
        """Play it; ``sent`` and ``got`` say what came of it."""
        world = self._world
        world.add_name_server()
        store = {"timer_wheel_enable": True}
        same = {"register_name_server_period": 30_000, "trace_on": True}
        world.add_broker("a", "10.0.0.2", store, **same)
        world.add_broker("b", "10.0.0.3", store, broker_role="ASYNC_MASTER", slave_read_enable=True, **same)
        world.add_broker("b-1", "10.0.0.4", store, broker_role="SLAVE", broker_id=1, slave_read_enable=True, **same)
        await world.start(_QUEUES)
        members = [
            self._push("push"), self._push("ordered", orderly=True), self._push("popping", client_rebalance=False),
            self._lite_pull(), self._simple(),
        ]  # fmt: skip
        consuming = [process.start(work) for process, work in members]
        process, work = self._producer()
        await world.until_done(process.start(work), process)
        await asyncio.sleep(_REST_SECONDS)
        for task in consuming:
            if task.done():
                task.result()

    def _client(self, name: str) -> tuple[Process, ClientInstance]:
        process = self._world.add_client(name)
        return process, process.call(
            lambda: ClientInstance(NAMESRV, instance_name=f"{name}#{process.ip}", client_ip=process.ip)
        )

    def _take(self, group: str, message: MessageExt) -> None:
        self.got[group][message.body.decode()] += 1

    def _push(self, group: str, **options: Any) -> tuple[Process, Any]:
        process, instance = self._client(group)
        self.got[group] = Counter()

        async def listen(message: MessageExt) -> ConsumeResult:
            self._take(group, message)
            return ConsumeResult.SUCCESS

        consumer = PushConsumer(
            group, listener=listen, instance=instance, consume_from=ConsumeFromWhere.FIRST_OFFSET, **options
        )
        consumer.subscribe(TOPIC)
        return process, self._run(consumer)

    async def _run(self, consumer: PushConsumer) -> None:
        await consumer.start()
        await asyncio.Event().wait()

    def _lite_pull(self) -> tuple[Process, Any]:
        process, instance = self._client("lite")
        self.got["lite"] = Counter()
        consumer = LitePullConsumer("lite", instance=instance, consume_from=ConsumeFromWhere.FIRST_OFFSET)
        consumer.subscribe(TOPIC)

        async def run() -> None:
            await consumer.start()
            while True:
                for message in await consumer.poll(5.0):
                    self._take("lite", message)

        return process, run()

    def _simple(self) -> tuple[Process, Any]:
        process, instance = self._client("simple")
        self.got["simple"] = Counter()
        consumer = SimpleConsumer("simple", instance=instance, consume_from=ConsumeFromWhere.FIRST_OFFSET)
        consumer.subscribe(TOPIC)

        async def run() -> None:
            await consumer.start()
            while True:
                for message in await consumer.receive(16, 30.0, timeout=10.0):
                    self._take("simple", message)
                    await consumer.ack(message)

        return process, run()

    def _producer(self) -> tuple[Process, Any]:
        process, instance = self._client("producer")

        async def check(_: MessageExt) -> TransactionState:
            return TransactionState.COMMIT

        async def run() -> None:
            producer = TransactionProducer("producers", instance=instance, check=check, topics=[TOPIC])
            await producer.start()
            loop, number = self._world.loop, 0
            while loop.time() < self._end:
                key = f"k{number}"
                message = Message(TOPIC, key.encode(), **[{}, {"delay_level": 3}, {"delay": 4.5}][number % 3])
                if number % 4 == 3:
                    async with producer.transaction(Message(TOPIC, key.encode())) as transaction:
                        # Every second one is ended by a check.
                        await (transaction.leave_open() if number % 8 == 7 else transaction.commit())
                else:
                    await producer.send(message)
                self.sent.add(key)
                number += 1
                await asyncio.sleep(self._pause)
            await producer.close()

        return process, run()

    def findings(self) -> list[str]:
        """What consumers got wrong."""
        found = []
        for group, got in self.got.items():
            if lost := self.sent - got.keys():
                found.append(f"{group}: {len(lost)} of {len(self.sent)} messages were not consumed, {min(lost)} first")
            if twice := [key for key, count in got.items() if count > 1]:
                found.append(f"{group}: {len(twice)} messages came more than once, {twice[0]} first")
        return found


def play(hours: float, pause: float) -> tuple[int, list[str]]:
    """Play so many hours; return how many messages were sent, and what was wrong."""
    simulated_loop._MOST_CALLBACKS = 1 << 60
    world = World(1)
    warnings = Warnings(world)
    logger = logging.getLogger("rocketmq_py")
    logger.setLevel(logging.WARNING)
    logger.addHandler(warnings)
    quiet = Quiet(world, hours, pause)
    try:
        world.loop.run(quiet.play())
        found = [*warnings.findings(), *quiet.findings(), *world.loop.faults, *world.loop.unretrieved()]
        return len(quiet.sent), found
    finally:
        logger.removeHandler(warnings)
        world.end()


def main() -> int:
    """Play, print what was wrong, and return the status for the shell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--pause", type=float, default=20.0, help="seconds between two messages")
    options = parser.parse_args()
    begin = clock.real()
    sent, found = play(options.hours, options.pause)
    print(
        *found,
        f"{options.hours:g} hours, {sent} messages, in {clock.real() - begin:.1f} s; {len(found)} findings",
        sep="\n",
    )
    return 1 if found else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation.quiet", *sys.argv[1:]])
    sys.exit(main())
