"""The clients of a schedule: they do their work, tell the ledger of it, and get over what goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

from rocketmq_py.client.consumer.lite_pull.consumer import LitePullConsumer
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer
from rocketmq_py.client.producer.producer import Producer
from rocketmq_py.client.producer.transaction_producer import TransactionProducer
from rocketmq_py.core.producer.accumulator import Linger
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import (
    ConsumeFromWhere,
    ConsumeResult,
    Message,
    MessageExt,
    MessageQueue,
    SendResult,
    SendStatus,
    TransactionState,
)
from tests.simulation.ledger import Delivery, Ledger
from tests.simulation.loop import Process
from tests.simulation.world import TOPIC, World

_AGAIN_SECONDS = 0.2
_MOST_FAILURES = 3
"""So often a listener fails for one message: brokers wait 10, 30 and 60 s, within the patience of a schedule."""


class Client:
    """One process that runs a client until it dies.

    :param name: its name, for the books.
    """

    def __init__(self, world: World, ledger: Ledger, chance: random.Random, name: str) -> None:
        self.world = world
        self.ledger = ledger
        self.chance = chance
        self.name = name
        self.process: Process = world.add_client(name)
        self.is_over = False
        self.has_sent = asyncio.Event()
        """Set when a producer has sent all its messages."""

    def start(self) -> asyncio.Task[Any]:
        """Start its process."""
        return self.process.start(self.run())

    async def run(self) -> None: ...

    async def stop(self) -> None:
        """Stop it in order."""
        self.is_over = True


def body_of(key: str, chance: random.Random) -> bytes:
    """The text of a message."""
    return f"{key} {'x' * chance.choice([1, 30, 30, 200])}".encode()


def key_of(body: bytes) -> str:
    """The key in a text."""
    return body.partition(b" ")[0].decode(errors="replace")


# -- producers


class Sending(Client):
    """A producer; ``ordered`` ones send a message to the queue of their lane until it is acknowledged.

    :param count: how many messages.
    :param queue: where they all go to, in this order; None: wherever there is a broker.
    :param pause: seconds between two, on average.
    :param delayed: the share of them that have a delay level.
    :param timed: the share of them that have a delay of their own.
    """

    def __init__(
        self, world: World, ledger: Ledger, chance: random.Random, name: str, *, count: int,
        queue: MessageQueue | None = None, pause: float = 0.02, delayed: float = 0.0, timed: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(world, ledger, chance, name)
        self._count = count
        self._queue = queue
        self._pause = pause
        self._delayed = delayed
        self._timed = timed
        self._linger: Linger = chance.choice([0.0, 0.0, 0.005, "natural"])

    async def run(self) -> None:
        instance = self.world.instance(self.process)
        producer = Producer("producers", instance=instance, batch_linger=self._linger)
        await producer.start()
        number = 0
        while number < self._count:
            await asyncio.sleep(self._pause * 2 * self.chance.random())
            size = 1 if self._queue is not None or self.chance.random() < 0.85 else self.chance.randint(2, 5)
            if await self._send(producer, [f"{self.name}.{number + at}" for at in range(size)]):
                number += size
        self.has_sent.set()
        await producer.close()
        await instance.stop()

    async def _send(self, producer: Producer, keys: list[str]) -> bool:
        """Send one message or a batch; True if the next one may be sent."""
        messages = []
        for key in keys:
            body = self.ledger.sent[key].body if key in self.ledger.sent else body_of(key, self.chance)
            sent = self.ledger.send(key, body, self.world.loop.time())
            options, seconds = self._delay() if len(keys) == 1 else ({}, 0.0)
            messages.append(Message(TOPIC, body, **options))
            if seconds and not sent.due:
                sent.due = self.world.loop.time() + seconds
        if len(messages) > 1 and self._linger:
            return await self._send_each(producer, keys, messages)
        try:
            if len(messages) > 1:
                result = await producer.send_batch(messages)
            else:
                result = await producer.send(messages[0], self._queue)
        except RocketMQError:
            return self._queue is None  # a message that failed is given up, but not one of an ordered lane
        if result.status is not SendStatus.SEND_OK:
            return self._queue is None
        self._acknowledged(keys, result)
        return True

    async def _send_each(self, producer: Producer, keys: list[str], messages: list[Message]) -> bool:
        """Send messages one by one at the same time, for the producer to make batches of them."""
        results = await asyncio.gather(*map(producer.send, messages), return_exceptions=True)
        for key, result in zip(keys, results, strict=True):
            if isinstance(result, SendResult):
                if result.status is SendStatus.SEND_OK:
                    self._acknowledged([key], result)
            elif not isinstance(result, RocketMQError):
                raise result
        return True

    def _delay(self) -> tuple[dict[str, Any], float]:
        """How a message asks for a delay, and its seconds."""
        if not self._delayed and not self._timed:
            return {}, 0.0
        which = self.chance.random()
        if which < self._delayed:
            level = self.chance.choice([1, 1, 2])
            return {"delay_level": level}, {1: 1.0, 2: 5.0}[level]
        if which < self._delayed + self._timed:
            seconds = self.chance.choice([0.2, 1.0, 2.5, 6.0])
            return {"delay": seconds}, seconds
        return {}, 0.0

    def _acknowledged(self, keys: list[str], result: SendResult) -> None:
        queue = result.queue.broker_name, result.queue.queue_id
        for at, key in enumerate(keys):
            sent = self.ledger.sent[key]
            if sent.due:
                sent.is_acked = True  # where it is delivered from, the broker decides when it is due
            else:
                self.ledger.acknowledge(key, queue, result.queue_offset + at)


class Transacting(Client):
    """A producer of transactions. Decisions are written down where every producer of the group finds them.

    :param decisions: the end of each transaction that has begun.
    """

    def __init__(
        self, world: World, ledger: Ledger, chance: random.Random, name: str, *, count: int, decisions: dict[str, bool]
    ) -> None:
        super().__init__(world, ledger, chance, name)
        self._count = count
        self._decisions = decisions
        self._asked: dict[str, int] = {}

    async def run(self) -> None:
        instance = self.world.instance(self.process)
        # A half message is sent once: what consumers get more than once has been committed more than once.
        producer = TransactionProducer("transactions", instance=instance, check=self._check, topics=[TOPIC], retries=0)
        await producer.start()
        for number in range(self._count):
            await asyncio.sleep(0.04 * self.chance.random())
            await self._one(producer, f"{self.name}.{number}")
        self.has_sent.set()
        while not self.is_over:  # noqa: ASYNC110 - it is asked for the others
            await asyncio.sleep(0.5)
        await producer.close()
        await instance.stop()

    async def _one(self, producer: TransactionProducer, key: str) -> None:
        sent = self.ledger.send(key, body_of(key, self.chance))
        sent.end = False  # until it is decided otherwise: nobody may get it
        sent.is_visible = False
        try:
            async with producer.transaction(Message(TOPIC, sent.body)) as transaction:
                await asyncio.sleep(0.02 * self.chance.random())
                commits = self.chance.random() < 0.6
                self._decide(key, commits)
                if self.chance.random() < 0.3:
                    await transaction.leave_open()
                elif commits:
                    await transaction.commit()
                else:
                    await transaction.rollback()
        except RocketMQError:
            self._decide(key, False)

    def _decide(self, key: str, commits: bool) -> None:
        if key not in self._decisions:
            self._decisions[key] = commits
            self.ledger.sent[key].end = self.ledger.sent[key].is_visible = commits

    async def _check(self, message: MessageExt) -> TransactionState:
        key = key_of(message.body)
        self._asked[key] = self._asked.get(key, 0) + 1
        if key not in self._decisions:
            return TransactionState.UNKNOWN
        if self.chance.random() < 0.2 and self._asked[key] < 3:
            return TransactionState.UNKNOWN
        return TransactionState.COMMIT if self._decisions[key] else TransactionState.ROLLBACK


# -- consumers


class Consuming(Client):
    """A member of a group.

    :param fails: the share of deliveries whose listener fails.
    """

    def __init__(
        self, world: World, ledger: Ledger, chance: random.Random, name: str, *, group: str, fails: float = 0.0,
        options: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(world, ledger, chance, name)
        self.group = group
        self.fails = fails
        self.options = options or {}
        self.consumer: Any = None

    async def run(self) -> None:
        while not self.is_over:
            instance = self.world.instance(self.process)
            self.consumer = self.make(instance)
            self.consumer.subscribe(TOPIC)
            try:
                await self.consumer.start()
            except RocketMQError:  # no name server, or no broker, for the moment
                await self.consumer.close()
                await instance.stop()
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            await self.consume(self.consumer)
            await self.consumer.close()
            await instance.stop()

    def make(self, instance: Any) -> Any:
        raise NotImplementedError

    async def consume(self, consumer: Any) -> None:
        while not self.is_over:  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.5)

    # -- the books

    def begin(self, message: MessageExt) -> Delivery:
        queue = message.broker_name, message.queue.queue_id
        now = self.world.loop.time()
        key = key_of(message.body)
        self.world.network.trace.note(self.name, "gets", key)
        return self.ledger.begin(self.group, self.name, key, message.body, queue, message.queue_offset, now)

    def finish(self, delivery: Delivery, *, ok: bool) -> None:
        self.ledger.finish(self.group, delivery, self.world.loop.time(), ok=ok)

    def ahead(self) -> dict[str, Any]:
        """How many pulls are in flight, and of how many messages."""
        in_flight = self.chance.choice([1, 1, 3, "auto"])
        return {"pulls_in_flight": in_flight, "pull_batch_size": 10 if in_flight == 1 else self.chance.choice([2, 10])}

    def succeeds(self, delivery: Delivery) -> bool:
        """Whether a listener succeeds; after some failures it does, as brokers wait longer after each."""
        failures = self.ledger.groups[self.group].failures.get(delivery.key, 0)
        return self.chance.random() >= self.fails or failures >= _MOST_FAILURES

    async def work(self) -> None:
        """What a listener does."""
        await asyncio.sleep(self.chance.choice([0.0, 0.001, 0.01, 0.05]))


class Pushed(Consuming):
    """A push consumer."""

    def make(self, instance: Any) -> PushConsumer:
        settings: dict[str, Any] = {
            "consume_from": ConsumeFromWhere.FIRST_OFFSET, "rebalance_interval": 2.0, "first_pull_delay": 0.05,
            "pull_delay_after_error": 0.3, "suspend_seconds": 0.1, "consume_threads": 4, **self.ahead(),
        }  # fmt: skip
        return PushConsumer(self.group, listener=self._listener, instance=instance, **settings | self.options)

    async def _listener(self, message: MessageExt) -> ConsumeResult:
        delivery = self.begin(message)
        await self.work()
        ok = self.succeeds(delivery)
        self.finish(delivery, ok=ok)
        return ConsumeResult.SUCCESS if ok else ConsumeResult.RECONSUME_LATER


class Pulling(Consuming):
    """A lite pull consumer; sometimes it commits by itself."""

    def make(self, instance: Any) -> LitePullConsumer:
        settings: dict[str, Any] = {
            "consume_from": ConsumeFromWhere.FIRST_OFFSET, "rebalance_interval": 2.0, "first_pull_delay": 0.05,
            "pull_delay_after_error": 0.3, "auto_commit_interval": 1.0, **self.ahead(),
        }  # fmt: skip
        return LitePullConsumer(self.group, instance=instance, **settings | self.options)

    async def consume(self, consumer: LitePullConsumer) -> None:
        while not self.is_over:
            try:
                messages = await consumer.poll(0.5)
            except RocketMQError:
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            for message in messages:
                self.finish(self.begin(message), ok=True)
            await self.work()


class Receiving(Consuming):
    """A simple consumer: receives, works, acks; sometimes it forgets to."""

    def make(self, instance: Any) -> SimpleConsumer:
        settings: dict[str, Any] = {
            "consume_from": ConsumeFromWhere.FIRST_OFFSET, "invisible_duration": 3.0, "poll_time": 2.0,
            "pull_delay_after_error": 0.3,
        }  # fmt: skip
        return SimpleConsumer(self.group, instance=instance, **settings | self.options)

    async def consume(self, consumer: SimpleConsumer) -> None:
        while not self.is_over:
            try:
                messages = await consumer.receive(8, timeout=1.0)
            except RocketMQError:
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            for message in messages:
                delivery = self.begin(message)
                await self.work()
                await self._settle(consumer, message, delivery)

    async def _settle(self, consumer: SimpleConsumer, message: MessageExt, delivery: Delivery) -> None:
        ok = self.succeeds(delivery)
        self.finish(delivery, ok=ok)  # its work is done; a member that dies now may have acked it
        if ok:
            with contextlib.suppress(RocketMQError):  # too late, or not reached: it may come again
                await consumer.ack(message)
