"""CPU time of one scrape of a broker's metrics: 1,000 topics of 8 queues, each read by 10 groups.

The broker has no sockets. Its state comes from requests: sends to all queues, pulls and commits of all groups, pops of
``--pops`` topics, and ``--timers`` delayed messages. Run ``python -m benchmarks.micro_scrape``; figures are CPU time of
the event loop's thread, and of the process with the threads that read the disk: of the whole scrape, and of the longest
turn of the event loop. ``--profile STATE`` prints where the time of one state goes.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import click

from benchmarks.micro_broker import wall_clock
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metrics.collect import Collector
from rocketmq_py.broker.services import Services
from rocketmq_py.core.metrics.counters import MessageCounts, RpcLatency
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.pop import PopMessage
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.server import Peer, Server
from rocketmq_py.server.garbage import LongCollections
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.store import OsFileSystem, StoreConfig
from rocketmq_py.wire.command import Command, encode_command
from rocketmq_py.wire.frame import MAX_FRAME

QUEUES = 8
MESSAGES = 6
"""Messages of each queue."""


class Size(NamedTuple):
    """What the broker has."""

    topics: int
    groups: int
    pops: int
    timers: int

    def topic_names(self) -> Iterator[str]:
        return (f"orders-of-region-{number:04d}" for number in range(self.topics))

    def group_names(self) -> Iterator[str]:
        return (f"consumers-{number:02d}" for number in range(self.groups))


class Turns:
    """Calls functions in later turns of an event loop, and measures the CPU time of each call."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.seconds: list[float] = []

    def call_soon(self, function: Callable[[], None]) -> object:
        """Call a function in the next turn."""

        def call() -> None:
            begin = time.thread_time()
            function()
            self.seconds.append(time.thread_time() - begin)

        return self._loop.call_soon(call)


class Broker:
    """A broker that counts for metrics."""

    def __init__(self, root: Path, size: Size) -> None:
        self.size = size
        self._config = BrokerConfig(store_path_root_dir=str(root), long_polling_enable=False)
        small = {"mapped_file_size_consume_queue": 20 * 1000, "mapped_file_size_timer_log": 1 << 20}
        self._soon: list[Callable[[], None]] = []
        self.services = Services(self._config, StoreConfig(**small), 10911, wall_clock, self._soon.append)
        self.services.open()
        self._counts, self._latency = MessageCounts(), RpcLatency()
        self.services.count(self._counts)
        self._dispatcher = Dispatcher(
            self.services.router(), after_read=self.services.store.commit_pending, on_hold=self.services.keep_hold
        )
        self._dispatcher.latency = self._latency
        self._peer = Peer(("127.0.0.1", 50_000), ("127.0.0.1", 10911))
        self._decoder = self._dispatcher.frame_decoder(MAX_FRAME)

    def ask(self, requests: Iterator[tuple[RequestCode, Header]], at_once: int = 64) -> None:
        """Serve requests, as many in each read."""
        frames: list[bytes] = []
        for code, header in requests:
            frames.append(encode_command(Command(code, 1, ext=header.to_ext(), body=b"x" * 100)))
            if len(frames) == at_once:
                self._feed(b"".join(frames))
                frames.clear()
        self._feed(b"".join(frames))

    def _feed(self, data: bytes) -> None:
        items = self._decoder.feed(data)
        while items:
            items = self._dispatcher.serve(self._peer, items).rest
        while self._soon:
            self._soon.pop()()

    def collector(self, turns: Turns) -> Collector:
        """Return what makes the exposition."""
        server = cast(Server, SimpleNamespace(dispatcher=self._dispatcher, connections={}))
        return Collector(
            self._config, self.services, server, self._counts, self._latency, wall_clock, turns.call_soon,
            OsFileSystem(),
        )  # fmt: skip

    def fill(self) -> None:
        """Send to all queues, pop from some topics, and send delayed messages."""
        self.ask(
            (RequestCode.SEND_MESSAGE_V2, _send(topic, queue))
            for topic in self.size.topic_names() for _ in range(MESSAGES) for queue in range(QUEUES)
        )  # fmt: skip
        later = (f"TIMER_DELAY_SEC\x01{60 + number % 80_000}\x02" for number in range(self.size.timers))
        self.ask((RequestCode.SEND_MESSAGE_V2, _send("timed", 0, properties)) for properties in later)
        topics = list(self.size.topic_names())
        places = ((topics[number % len(topics)], number // len(topics)) for number in range(self.size.pops))
        self.ask((RequestCode.POP_MESSAGE, _pop(topic, queue % QUEUES)) for topic, queue in places)
        self.services.store.flush()

    def consume(self, offset: int) -> None:
        """Let all groups pull and commit: all queues of all topics, to an offset."""
        for topic in self.size.topic_names():
            for group in self.size.group_names():
                self.ask((RequestCode.PULL_MESSAGE, _pull(group, topic, queue, offset)) for queue in range(QUEUES))


def _send(topic: str, queue: int, properties: str = "") -> SendMessageV2:
    return SendMessageV2(
        producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=QUEUES, queue_id=queue,
        sys_flag=0, born_timestamp=1_700_000_000_000, flag=0, properties=properties, reconsume_times=0,
        unit_mode=False, batch=False, bname="broker-a",
    )  # fmt: skip


def _pull(group: str, topic: str, queue: int, offset: int) -> PullMessage:
    return PullMessage(
        consumer_group=group, topic=topic, queue_id=queue, queue_offset=offset, max_msg_nums=1, sys_flag=5,
        commit_offset=offset, suspend_timeout_millis=0, subscription="*", sub_version=0,
    )  # fmt: skip


def _pop(topic: str, queue: int) -> PopMessage:
    return PopMessage(
        consumer_group="pops", topic=topic, queue_id=queue, max_msg_nums=4, invisible_time=3_600_000, poll_time=0,
        born_time=0, init_mode=0, exp_type="TAG", exp="*", order=False,
    )  # fmt: skip


class Scrape(NamedTuple):
    """CPU time in milliseconds, number of turns of the event loop, and lines."""

    loop_ms: float
    process_ms: float
    longest_ms: float
    turns: int
    lines: int


async def scrape(collector: Collector, turns: Turns) -> Scrape:
    """Collect all metrics once."""
    turns.seconds.clear()
    begin, all_begin = time.thread_time(), time.process_time()
    pieces = await collector.collect()
    loop, process = time.thread_time() - begin, time.process_time() - all_begin
    lines = b"".join(pieces).count(b"\n")
    return Scrape(loop * 1000, process * 1000, max(turns.seconds) * 1000, len(turns.seconds), lines)


async def measure(broker: Broker, rounds: int, profiled: str | None) -> None:
    """Print a line for each state of the groups."""
    turns = Turns(asyncio.get_running_loop())
    collector = broker.collector(turns)
    at = 0

    def move() -> None:
        nonlocal at
        at += 1
        broker.consume(at)

    move()
    states: dict[str, Callable[[], object]] = {
        "first": lambda: None, "still": lambda: None, "moved": move, "caught-up": lambda: broker.consume(MESSAGES),
    }  # fmt: skip
    for state, prepare in states.items():
        found = []
        for _ in range(1 if state == "first" else 2 if state == "moved" else rounds):
            if state != "caught-up" or not found:
                prepare()
            profile: Any = cProfile.Profile(time.thread_time) if state == profiled else None
            if profile:
                profile.enable()
            found.append(await scrape(collector, turns))
            if profile:
                profile.disable()
                pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        show(state, found)


def show(state: str, found: list[Scrape]) -> None:
    """Print the medians of some scrapes."""
    middle = Scrape(*(statistics.median(values) for values in zip(*found, strict=True)))
    click.echo(
        f"{state:<10} {middle.lines:>7,.0f} lines {middle.turns:>4.0f} turns"
        f" {middle.loop_ms:>7.1f} ms of the loop, longest turn {middle.longest_ms:>5.1f} ms,"
        f" {middle.process_ms:>7.1f} ms of the process (best {min(one.loop_ms for one in found):.1f})"
    )


@click.command()
@click.option("--topics", default=1_000)
@click.option("--groups", default=10)
@click.option("--pops", default=0, help="Pops in flight.")
@click.option("--timers", default=10_000, help="Delayed messages.")
@click.option("--rounds", default=9)
@click.option("--profile", "profiled", metavar="STATE")
def main(topics: int, groups: int, pops: int, timers: int, rounds: int, profiled: str | None) -> None:
    """Measure scrapes while groups stand still, after all have moved, and when all have caught up."""
    with tempfile.TemporaryDirectory() as directory:
        broker = Broker(Path(directory), Size(topics, groups, pops, timers))
        broker.fill()
        collections = LongCollections()  # as in a server's process
        collections.start()
        asyncio.run(measure(broker, rounds, profiled))
        collections.stop()
        broker.services.close()


if __name__ == "__main__":
    main()
