"""``python -m benchmarks.our_consumer``: measure our consumers, each run on demand (see :mod:`benchmarks.stepping`).

The work is that of Bench.java: a new group per run, default settings, plain functions as listeners. ``latency`` has
producer, consumer and an ``async def`` listener in one event loop, as Bench.java has both in one JVM. ``rebalance``
is not in Bench.java: twenty members of a group share 1,000 queues, and one joins and leaves.
"""

from __future__ import annotations

import asyncio
import struct
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any, TypedDict

import click

from benchmarks.stepping import Row, Run, event_loop, repeat, repeat_async, result, say
from rocketmq_py import ConsumeFromWhere, LitePullConsumer, Message, MessageExt, PushConsumer, aio
from rocketmq_py.core.consumer.pulls_ahead import PullsInFlight

_TIMEOUT_SECONDS = 150.0
_PULL_BATCH = 32
_MEMBERS = 20
_QUIET = 1.5
"""Seconds to wait before a change, so that the previous rebalance, at most one per second, is not measured with it."""
_STAMP = struct.Struct(">q")


def _fresh_group() -> str:
    return f"bench-{uuid.uuid4().hex[:12]}"


class _Progress:
    """Counts messages, and has the times of the first and the last of them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._got = 0
        self._lock = threading.Lock()
        self.begin = self.end = 0.0
        self.done = threading.Event()

    def took(self, messages: int) -> None:
        with self._lock:
            before = self._got
            self._got += messages
        if before == 0:
            self.begin = time.perf_counter()
        if before < self._count <= before + messages:
            self.end = time.perf_counter()
            self.done.set()

    def wait(self) -> None:
        if not self.done.wait(_TIMEOUT_SECONDS):
            raise TimeoutError(f"{self._got} of {self._count} messages in {_TIMEOUT_SECONDS:.0f} s")


class Far(TypedDict, total=False):
    """Options of a consumer far from its broker."""

    pulls_in_flight: PullsInFlight
    address_map: dict[str, str]


def far(in_flight: str, mapped: str | None) -> Far:
    """Return options from those of the command: a number or ``auto``, and ``ADVERTISED=REAL``."""
    options = Far(pulls_in_flight="auto" if in_flight == "auto" else int(in_flight))
    if mapped is not None:
        options["address_map"] = dict([mapped.split("=", 1)])
    return options


def push(namesrv: str, topic: str, batch: int, options: Far, *, orderly: bool) -> Run:
    """Return a run in which a push consumer of a new group reads the backlog from its first offset."""

    def run(count: int) -> Row:
        progress = _Progress(count)

        def one(_message: MessageExt) -> None:
            progress.took(1)

        def many(messages: Sequence[MessageExt], _context: object) -> None:
            progress.took(len(messages))

        with PushConsumer(
            group=_fresh_group(), namesrv=namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET,
            consume_batch_size=batch, orderly=orderly, **options,
        ) as consumer:  # fmt: skip
            consumer.subscribe(topic, listener=one if batch == 1 else many)
            consumer.start()
            progress.wait()
        return result(count, progress.end - progress.begin)

    return run


def lite_pull(namesrv: str, topic: str, options: Far) -> Run:
    """Return a run of a lite pull consumer: all queues are assigned, from their first offset, and one caller polls."""

    def run(count: int) -> Row:
        with LitePullConsumer(_fresh_group(), namesrv=namesrv, pull_batch_size=_PULL_BATCH, **options) as consumer:
            queues = consumer.queues(topic)
            consumer.assign(queues)
            for queue in queues:
                consumer.seek_to_begin(queue)
            begin = time.perf_counter()
            got, deadline = 0, begin + _TIMEOUT_SECONDS
            while got < count and time.perf_counter() < deadline:
                got += len(consumer.poll(1.0))
            return result(got, time.perf_counter() - begin)

    return run


async def latency(namesrv: str, topic: str, rate: int, size: int, count: int, warm: int) -> None:
    """Measure the time from each send to its listener, with ``rate`` sends per second."""
    took: list[float] = []
    arrived, owner = asyncio.Event(), asyncio.Event()

    async def take(message: MessageExt) -> None:
        (sent,) = _STAMP.unpack_from(message.body)
        took.append((time.perf_counter_ns() - sent) / 1e9)
        arrived.set()

    async def run(total: int) -> Row:
        took.clear()
        begin = time.perf_counter()
        sends = []
        for i in range(total):
            await asyncio.sleep(max(0.0, begin + i / rate - time.perf_counter()))
            body = _STAMP.pack(time.perf_counter_ns()).ljust(size, b"x")
            sends.append(asyncio.create_task(producer.send(Message(topic, body))))
        seconds = time.perf_counter() - begin
        await asyncio.gather(*sends)
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            while len(took) < total:
                arrived.clear()
                await arrived.wait()
        return result(total, seconds, took)

    async with (
        aio.Producer(group="bench-latency", namesrv=namesrv) as producer,
        aio.PushConsumer(_fresh_group(), namesrv=namesrv, queues_changed=lambda *_: owner.set()) as consumer,
    ):
        consumer.subscribe(topic, listener=take)
        await consumer.start()
        await owner.wait()
        await repeat_async(run, count, warm)


def first(namesrv: str, topic: str) -> None:
    """Print the time from ``start()`` of a push consumer in a new group to its first message."""
    progress = _Progress(1)
    with PushConsumer(group=_fresh_group(), namesrv=namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(topic, listener=lambda _: progress.took(1))
        begin = time.perf_counter()
        consumer.start()
        progress.wait()
    say({"type": "first", "startToFirstMs": (progress.end - begin) * 1e3})


async def rebalance(namesrv: str, topic: str, queues: int) -> None:
    """Measure how long twenty members take to share the queues again after one leaves, and after one joins."""
    group, changed = _fresh_group(), asyncio.Event()

    def member() -> aio.PushConsumer:
        consumer = aio.PushConsumer(group, namesrv=namesrv, queues_changed=lambda *_: changed.set())
        consumer.subscribe(topic, listener=_ignore)
        return consumer

    async def settled(consumers: Sequence[aio.PushConsumer]) -> float:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            while not _is_shared(consumers, topic, queues):
                changed.clear()
                await changed.wait()
        return time.perf_counter()

    consumers = [member() for _ in range(_MEMBERS)]
    for consumer in consumers:
        await consumer.start()
    await settled(consumers)

    async def run(_count: int) -> Row:
        await asyncio.sleep(_QUIET)
        begin = time.perf_counter()
        await consumers.pop().close()
        left = await settled(consumers) - begin
        consumers.append(member())
        await asyncio.sleep(_QUIET)
        begin = time.perf_counter()
        await consumers[-1].start()
        joined = await settled(consumers) - begin
        return {"n": 1, "seconds": max(left, joined), "left": left, "joined": joined}

    try:
        await repeat_async(run, 1, 0)
    finally:
        await asyncio.gather(*(consumer.close() for consumer in consumers))


async def _ignore(_message: MessageExt) -> None:
    """Do nothing with a message."""


def _is_shared(consumers: Sequence[aio.PushConsumer], topic: str, queues: int) -> bool:
    """Return whether every queue has exactly one owner, and the numbers of queues differ by at most one."""
    owned = [[queue for queue in consumer.queues if queue.topic == topic] for consumer in consumers]
    sizes = list(map(len, owned))
    return sum(sizes) == len({queue for share in owned for queue in share}) == queues and max(sizes) - min(sizes) <= 1


@click.command()
@click.argument("verb", type=click.Choice(["push", "pull", "latency", "first", "rebalance"]))
@click.option("--namesrv", required=True)
@click.option("--topic", required=True)
@click.option("--n", default=100_000, help="Messages per run.")
@click.option("--size", default=128, help="Bytes of body.")
@click.option("--warm", default=0, help="Messages before the first run.")
@click.option("--batch", default=1, help="Messages a listener gets in one call.")
@click.option("--listener", type=click.Choice(["concurrent", "orderly"]), default="concurrent")
@click.option("--rate", default=1000, help="Sends per second.")
@click.option("--queues", default=1000)
@click.option("--in-flight", default="1", help="Option pulls_in_flight: a number, or auto.")
@click.option("--map", "mapped", metavar="ADVERTISED=REAL", help="Connect elsewhere than the broker advertises.")
def main(verb: str, namesrv: str, topic: str, **given: Any) -> None:
    """Measure one of our consumers."""
    options = far(given["in_flight"], given["mapped"])
    if verb == "push":
        run = push(namesrv, topic, given["batch"], options, orderly=given["listener"] == "orderly")
        repeat(run, given["n"], given["warm"])
    elif verb == "pull":
        repeat(lite_pull(namesrv, topic, options), given["n"], given["warm"])
    elif verb == "latency":
        event_loop(latency(namesrv, topic, given["rate"], given["size"], given["n"], given["warm"]))
    elif verb == "first":
        first(namesrv, topic)
    else:
        event_loop(rebalance(namesrv, topic, given["queues"]))


if __name__ == "__main__":
    main()
