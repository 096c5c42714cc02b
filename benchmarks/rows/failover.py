"""The row about a master that is killed: the time until its consumers read from the slave.

The consumer is ours on both sides, with default settings except that it buffers few messages, so that it has to read
more when the master is gone. The figure consists of the time in which name server and slave notice that the master is
gone, and of the client's requests to them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.figures import Figure, at_most
from benchmarks.session import Session
from rocketmq_py import ConsumeFromWhere, MessageExt
from rocketmq_py.aio import PushConsumer
from tests.interop.javapeer import JavaPeer, free_port_block
from tests.interop.ours import OurServers
from tests.replicas import caught_up, send, topic_on_all

_HELD = 8
_MESSAGES = 100
_NEW = 40
"""Messages from this one on come from the slave: it is more than a consumer buffers and pulls before the kill."""
_SECONDS = 120.0
_SETTINGS = {"slaveReadEnable": "true"}

Start = Callable[[int], Callable[[], None]]
"""Starts a master on a port and returns a function that kills it."""


class _Pair:
    """A name server, a master and its slave."""

    def __init__(self, namesrv: str, start_master: Start, start_slave: Callable[[], object]) -> None:
        self.namesrv = namesrv
        self._port = free_port_block()
        self._start_master = start_master
        self._start_slave = start_slave
        self._kill = start_master(self._port)

    def prepare(self, topics: list[str]) -> None:
        """Create the topics at the master, start the slave, and wait until the slave has the topics, too."""
        self._topics(topics)
        self._start_slave()
        self._topics(topics)

    def _topics(self, names: list[str]) -> None:
        for name in names:
            asyncio.run(topic_on_all(self.namesrv, name))

    def run(self, topic: str) -> float:
        """Kill the master and restart it; return milliseconds from the kill to the first message from the slave."""
        took = asyncio.run(self._read(topic))
        self._kill = self._start_master(self._port)
        asyncio.run(caught_up(self.namesrv))
        return took

    async def _read(self, topic: str) -> float:
        await send(self.namesrv, topic, 0, _MESSAGES)
        await caught_up(self.namesrv)
        held, dead, read = asyncio.Event(), asyncio.Event(), asyncio.Event()
        clock = 0.0

        async def take(message: MessageExt) -> None:
            nonlocal clock
            held.set()
            await dead.wait()
            if int(message.body) >= _NEW and not clock:
                clock = time.perf_counter()
                read.set()

        consumer = PushConsumer(
            f"g-{topic}", namesrv=self.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET, consume_threads=64,
            pull_threshold_for_queue=_HELD, pull_batch_size=_HELD,
        )  # fmt: skip
        consumer.subscribe(topic, listener=take)
        async with consumer, asyncio.timeout(_SECONDS):
            await held.wait()
            killed = time.perf_counter()
            await asyncio.to_thread(self._kill)
            dead.set()
            await read.wait()
        return (clock - killed) * 1000


@contextmanager
def _ours(work: Path) -> Iterator[_Pair]:
    servers = OurServers(work)
    try:
        namesrv = servers.namesrv().namesrv
        joins = ("--namesrv", namesrv, "--name", "broker-a")

        def master(port: int) -> Callable[[], None]:
            return servers.serve(work / "master", *joins, "--port", str(port), **_SETTINGS).kill

        yield _Pair(
            namesrv, master,
            lambda: servers.serve(work / "slave", *joins, "--role", "SLAVE", "--id", "1", **_SETTINGS),
        )  # fmt: skip
    finally:
        servers.close()


@contextmanager
def _java(work: Path) -> Iterator[_Pair]:
    peer = JavaPeer(work, stock=True)
    try:
        namesrv = peer.namesrv().address

        def master(port: int) -> Callable[[], None]:
            return peer.broker(namesrv, store=work / "master", port=port, conf=_SETTINGS).process.kill

        yield _Pair(namesrv, master, lambda: peer.broker(namesrv, conf=_SETTINGS, role="SLAVE", id=1))
    finally:
        peer.close()


def failover_read(session: Session) -> list[Figure]:
    """Time from kill -9 of the master to the first message from its slave, with our brokers and with Java's."""
    JavaPeer.build()
    topics = [f"bench-{number}" for number in range(session.scale.runs)]
    with ExitStack() as stack:
        pairs = []
        for start in (_ours, _java):
            session.tell(f"failover-read: starting {start.__name__.strip('_')} master and slave")
            pairs.append(stack.enter_context(start(stack.enter_context(session.work()))))
        for pair in pairs:
            pair.prepare(topics)
        sides = [(pair, iter(topics)) for pair in pairs]
        values = session.in_turn("failover-read", "ms", *(lambda s=side: s[0].run(next(s[1])) for side in sides))
    return [Figure("failover-read", "ms", at_most(1.0), *values)]
