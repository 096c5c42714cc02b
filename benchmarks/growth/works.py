"""The loads of a broker while a steady producer sends: one function each for topics, groups and members."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.control import connect
from benchmarks.drive import Driven, Generator
from benchmarks.growth.members import Members
from benchmarks.growth.sides import Running, Side, running
from benchmarks.growth.tables import BYSTANDER, QUEUES, group_names, topic_names, write_groups, write_topics
from benchmarks.loads import Load
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.offset import GetMaxOffset, UpdateConsumerOffset
from rocketmq_py.wire.command import Command, encode_command

RATE = 500
"""Number of messages that the steady producer sends per second."""
_STEADY = Load("send", inflight=4096, topic=BYSTANDER, queues=QUEUES, size=128)
PERIOD_SECONDS = 20.0
"""Duration of a load, in which periodic work of a broker, every 5 or 10 seconds, happens at least once."""
_OFFSETS_A_SECOND = 2_000
_ONEWAY = 2
_HEARTBEATS_SECONDS = 5.0

Measured = dict[str, float]


@dataclass(frozen=True, slots=True)
class Context:
    """What a measurement needs: the load generator, an empty directory, and seconds to measure CPU without requests."""

    generator: Generator
    work: Path
    rest_seconds: float = 20.0


def topics(context: Context, side: Side, count: int) -> Measured:
    """Start a broker with many topics, measure it without requests, send to all topics in turn, stop the broker."""
    with running(side, context.work, lambda store: write_topics(store, topic_names(count))) as server:
        found = {"start s": server.start_seconds, "rest, % of a core": 100 * server.cpu_at_rest(context.rest_seconds)}
        with steady(context, server, found):
            load = Load("send", inflight=64, topic="grown", topics=count, size=128)
            all_topics = context.generator.drive(server.broker, load, 1 << 40, seconds=PERIOD_SECONDS)
        found |= {"sends/s": all_topics.rate, "longest send, ms": all_topics.max_us / 1_000}
        found |= {"memory, MiB": server.memory_mib, "descriptors": server.descriptors}
        found["stop s"] = server.stop()
    return found


def groups(context: Context, side: Side, count: int) -> Measured:
    """Commit offsets of many groups, 2,000 per second."""

    def prepare(store: Path) -> None:
        write_topics(store, ())
        write_groups(store, group_names(count), BYSTANDER)

    with running(side, context.work, prepare) as server:
        found = {"start s": server.start_seconds, "rest, % of a core": 100 * server.cpu_at_rest(context.rest_seconds)}
        with steady(context, server, found):
            _commit_offsets(server, group_names(count))
        found |= {"memory, MiB": server.memory_mib, "stop s": server.stop()}
    return found


def members(context: Context, side: Side, count: int) -> Measured:
    """Let all members of a group join at once, wait in a pull, and disconnect at once."""

    async def play(server: Running) -> Measured:
        found: Measured = {}
        async with await Members.connect(server.broker, topic_names(1)[0], count) as crowd:
            with steady(context, server, found, "join: "):
                begin = time.monotonic()
                await crowd.join()
                found["join s"] = time.monotonic() - begin
                await asyncio.sleep(_HEARTBEATS_SECONDS)
            await crowd.hold()
            with steady(context, server, found, "vanish: "):
                crowd.vanish()
                await asyncio.sleep(_HEARTBEATS_SECONDS)
        return found

    with running(side, context.work, lambda store: write_topics(store, topic_names(1))) as server:
        return asyncio.run(play(server))


@contextmanager
def steady(context: Context, server: Running, found: Measured, prefix: str = "") -> Iterator[None]:
    """Send 500 messages per second during the block; add their waiting times in milliseconds to ``found``."""
    context.generator.drive(server.broker, _STEADY, 2_000)  # warm-up: the topic has its queues, and a JVM has compiled
    before = 0 if server.log is None else server.log.stat().st_size
    with context.generator.steadily(server.broker, _STEADY, RATE) as ended:
        yield
    (driven,) = ended
    found |= {f"{prefix}bystander {name}, ms": value / 1_000 for name, value in _waits(driven).items()}
    found[f"{prefix}bystander, % of its sends"] = 100 * driven.rate / RATE
    if server.log is not None:
        found[f"{prefix}longest turn above 50 ms, ms of CPU"] = longest_turn(server.log.read_bytes()[before:].decode())


def _waits(driven: Driven) -> dict[str, float]:
    return {"p50": driven.p50_us, "p99": driven.p99_us, "longest": driven.max_us}


def longest_turn(log: str) -> float:
    """Return the milliseconds of CPU time of the longest turn that our broker warned of in its log; 0 for none.

    Unlike waiting times it does not depend on what else the machine does.
    """
    return max(map(float, re.findall(r"a turn of the event loop took (\d+) ms", log)), default=0.0)


def _commit_offsets(server: Running, names: list[str]) -> None:
    """Commit offsets by one-way requests at a steady rate, each for the next group and queue."""
    with connect(server.broker) as sock:
        begin, sent = time.monotonic(), 0
        while (elapsed := time.monotonic() - begin) < PERIOD_SECONDS:
            frames = []
            while sent < elapsed * _OFFSETS_A_SECOND:
                header = UpdateConsumerOffset(
                    consumer_group=names[sent % len(names)], topic=BYSTANDER, queue_id=sent % QUEUES,
                    commit_offset=sent // len(names) % 10,
                )  # fmt: skip
                frames.append(
                    encode_command(Command(RequestCode.UPDATE_CONSUMER_OFFSET, flag=_ONEWAY, ext=header.to_ext()))
                )
                sent += 1
            sock.sendall(b"".join(frames))
            time.sleep(0.01)
        # When this is answered all commits are processed: requests of a connection are handled in order.
        header = GetMaxOffset(topic=BYSTANDER, queue_id=0)
        sock.sendall(encode_command(Command(RequestCode.GET_MAX_OFFSET, ext=header.to_ext())))
        sock.recv(1 << 16)
