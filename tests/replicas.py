"""A master that is killed and started again while consumers of ours read, and what they must notice of it: nothing but
the time it takes.

Knows the steps and what must hold after each. Does not know whose the brokers are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from rocketmq_py import ConsumeFromWhere, Message, MessageExt, RocketMQError
from rocketmq_py.aio import Admin, ClientInstance, Producer, PushConsumer
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.codes import RequestCode
from tests.server.rawpeer import RawPeer

SECONDS = 180.0
"""Longer than any step takes, also on a busy machine; only a test that fails waits for it."""
QUEUES, N, FIRST, MORE = 2, 200, 40, 20
HELD = 10
"""Messages a consumer holds of a queue at most: what it has not pulled when the master dies it has from the slave."""

_log = logging.getLogger(__name__)


@dataclass
class Nodes:
    """A name server with a master and a slave of one name.

    :ivar restart_master: starts it on its store and port.
    """

    namesrv: str
    kill_master: Callable[[], None]
    restart_master: Callable[[], None]


@dataclass
class Inbox:
    """What a listener got; it takes no more than ``limit`` until that is raised."""

    limit: int = FIRST
    got: Counter[bytes] = field(default_factory=Counter)
    order: dict[int, list[int]] = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def take(self, message: MessageExt) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.got) < self.limit or message.body in self.got)
            self.got[message.body] += 1
            self.order.setdefault(message.queue_id, []).append(message.queue_offset)
            self.changed.notify_all()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(SECONDS), self.changed:
            await self.changed.wait_for(lambda: len(self.got) >= count)

    async def let(self, limit: int) -> None:
        async with self.changed:
            self.limit = limit
            self.changed.notify_all()

    @property
    def repeats(self) -> int:
        return self.got.total() - len(self.got)


@contextlib.asynccontextmanager
async def consumer(namesrv: str, group: str, topic: str, inbox: Inbox, *, orderly: bool) -> AsyncIterator[None]:
    instance = ClientInstance(namesrv, route_interval=1.0, heartbeat_interval=1.0, offset_interval=0.5)
    member = PushConsumer(
        group, instance=instance, orderly=orderly, consume_from=ConsumeFromWhere.FIRST_OFFSET,
        pull_threshold_for_queue=HELD, pull_batch_size=HELD, consume_threads=4,
    )  # fmt: skip
    member.subscribe(topic, listener=inbox.take)
    try:
        async with member:
            yield
    finally:
        await instance.stop()


async def send(namesrv: str, topic: str, first: int, count: int) -> None:
    """Send messages, each until it is taken."""
    async with Producer("p", namesrv=namesrv) as producer:
        for number in range(first, first + count):
            await _until_sent(producer, Message(topic, b"%d" % number))


async def _until_sent(producer: Producer, message: Message) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                await producer.send(message)
            except RocketMQError as e:
                _log.info("not sent yet: %s", e)
                await asyncio.sleep(0.2)
            else:
                return


async def topic_on_all(namesrv: str, topic: str) -> None:
    """Make a topic unless it is there, and wait until every broker has heard of it.

    That takes a Java slave a minute from its start on.
    """
    async with Admin(namesrv) as admin, asyncio.timeout(SECONDS):
        if topic not in await admin.topics():
            await admin.create_topic(topic, QUEUES)
        for address in await addresses(admin):
            while not await asyncio.to_thread(_knows, address, topic):  # noqa: ASYNC110
                await asyncio.sleep(0.1)


def _knows(address: str, topic: str) -> bool:
    with RawPeer(address) as peer:
        return peer.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": topic}).code == 0


async def addresses(admin: Admin) -> list[str]:
    """Where the brokers are, masters and slaves."""
    brokers = (await admin.cluster()).broker_addr_table.values()
    return [address for broker in brokers for address in broker.broker_addrs.values()]


async def caught_up(namesrv: str) -> None:
    """Wait until all brokers have the same log."""
    async with Admin(namesrv) as admin, asyncio.timeout(SECONDS):
        while len(await _log_ends(admin)) != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _log_ends(admin: Admin) -> set[str]:
    """Where the logs of all brokers end; nothing while one cannot tell: a Java broker that has just started cannot."""
    try:
        return {(await admin.broker_state(address))["commitLogMaxOffset"] for address in await addresses(admin)}
    except BrokerError:
        return set()


async def reading_outlives_the_master(nodes: Nodes, topic: str, while_away: Callable[[], None] = lambda: None) -> None:
    """Consumers go on from the slave where they are; orderly ones wait for their locks; nothing is lost.

    The topic exists, with ``QUEUES`` queues, and the slave knows of it.

    :param while_away: done while the slave is alone; there are ``N`` messages then.
    """
    await send(nodes.namesrv, topic, 0, N)
    await caught_up(nodes.namesrv)
    free, ordered = Inbox(), Inbox()
    async with (
        consumer(nodes.namesrv, f"free-{topic}", topic, free, orderly=False),
        consumer(nodes.namesrv, f"ordered-{topic}", topic, ordered, orderly=True),
        _released(free, ordered),
    ):
        await free.until(FIRST)
        await ordered.until(FIRST)
        await asyncio.to_thread(nodes.kill_master)
        await free.let(N)
        await free.until(N)
        assert free.repeats <= QUEUES * HELD, free.repeats
        assert len(ordered.got) == FIRST
        await asyncio.to_thread(while_away)
        await asyncio.to_thread(nodes.restart_master)
        await free.let(N + MORE)
        await ordered.let(N + MORE)
        await send(nodes.namesrv, topic, N, MORE)
        await free.until(N + MORE)
        await ordered.until(N + MORE)
        for offsets in ordered.order.values():
            assert list(dict.fromkeys(offsets)) == sorted(set(offsets)), "in order, apart from repeats"
        await _committed_at_the_master(nodes.namesrv, topic)


@contextlib.asynccontextmanager
async def _released(*inboxes: Inbox) -> AsyncIterator[None]:
    """Lets listeners end when the test does, so that a failure is told instead of waited for."""
    try:
        yield
    finally:
        for inbox in inboxes:
            await inbox.let(N + MORE + 1)


async def _committed_at_the_master(namesrv: str, topic: str) -> None:
    """What was consumed while it was away is committed to it now."""
    async with Admin(namesrv) as admin, asyncio.timeout(SECONDS):
        for group in (f"free-{topic}", f"ordered-{topic}"):
            while sum((await admin.group_offsets(group, topic)).values()) != N + MORE:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.2)
