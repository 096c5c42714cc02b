"""``python -m benchmarks.console_pages``: what pages of the console take on a large cluster, and with many browsers.

A broker of ours has 1,000 topics of 8 queues, 500 groups of 2 topics each that are behind, one group of all topics, and
10,000 dead letters of a group with a member. Each page is asked for several times; its figure is the CPU time of the
console's process, which other work on the machine disturbs least. Then 1,000 connections stay open, each of which asks
for rates every few seconds, as a page with a plot does, and others go on being answered.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import click

from benchmarks.control import Control
from benchmarks.errors import BenchError
from benchmarks.loads import Load
from benchmarks.machine import anonymous_mib, cpu_seconds, settle
from benchmarks.program import Program
from benchmarks.servers import console_command, start_ours
from benchmarks.session import QUICK, Session, progress
from rocketmq_py import ConsumeFromWhere, Message, Producer, PushConsumer

QUEUES, TOPICS_OF_A_GROUP = 8, 2
LIMIT_MS = 150.0
GROUP, ALL = "billing-000", "reporting-of-everything"
_POLL_SECONDS = 5.0


class Place(NamedTuple):
    """The console and its process, and a message on which pages exist."""

    address: str
    pid: int
    message: str
    message_id: str
    key: str
    client: str


class Cost(NamedTuple):
    """What a page took: its status, bytes, and milliseconds of CPU time of each request."""

    status: int
    size: int
    cpu_ms: list[float]


def configure(config: Path, topics: int, groups: int) -> None:
    """Write topics and groups with committed offsets as a broker finds them; one group consumes all topics."""
    config.mkdir(parents=True)
    names = [f"orders-{number:04d}" for number in range(topics)]
    dead = f"%DLQ%{GROUP}"
    known = {name: {"topicName": name, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6} for name in names}
    known[dead] = {"topicName": dead, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
    (config / "topics.json").write_text(json.dumps({"topicConfigTable": known}))
    offsets: dict[str, dict[str, int]] = {}
    for number in range(groups):
        for step in range(TOPICS_OF_A_GROUP):
            name = names[(number * TOPICS_OF_A_GROUP + step) % topics]
            offsets[f"{name}@billing-{number:03d}"] = dict.fromkeys(map(str, range(QUEUES)), 1)
    offsets |= {f"{name}@{ALL}": dict.fromkeys(map(str, range(QUEUES)), 0) for name in names}
    (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    known_groups = {name: {"groupName": name} for name in {key.partition("@")[2] for key in offsets}}
    (config / "subscriptionGroup.json").write_text(json.dumps({"subscriptionGroupTable": known_groups}))


def fill(session: Session, broker: str, topics: int, dead: int) -> None:
    """Send two messages to each queue, and dead letters as a broker stores them."""
    for number in range(topics):
        load = Load("send", 64, topic=f"orders-{number:04d}", queues=QUEUES, size=200)
        session.generator.drive(broker, load, 2 * QUEUES)
    properties = {
        "RETRY_TOPIC": "orders-0000",
        "ORIGIN_MESSAGE_ID": "7F0000010000000000000000000000000001",
        "KEYS": "k1",
    }
    load = Load("send", 64, topic=f"%DLQ%{GROUP}", queues=1, size=200, properties=properties)
    session.generator.drive(broker, load, dead)


@contextmanager
def served(session: Session, topics: int, groups: int, dead: int) -> Iterator[Place]:
    """Run a broker with all of it, a member of the group, and the console in a process of its own."""
    with session.work() as work, ExitStack() as stack:
        configure(work / "ours" / "config", topics, groups)
        server = start_ours(work)
        stack.callback(server.kill)
        session.tell(f"sending to {topics:,} topics, and {dead:,} dead letters")
        fill(session, server.broker, topics, dead)
        with Control(server.broker) as control:
            control.expect_offsets(f"%DLQ%{GROUP}", [dead])
        with Producer("bench", server.namesrv) as producer:
            sent = producer.send(Message("orders-0000", b'{"order": 1}', keys=["order-1"]))
        consumer = PushConsumer(GROUP, server.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET)
        consumer.subscribe("orders-0000", "*", lambda _: None)
        stack.enter_context(consumer)
        console = stack.enter_context(Program(console_command(server.namesrv), work / "console.log"))
        address = dict(word.split("=", 1) for word in console.ready().split())["console"]
        place = f"{sent.queue.broker_name}/{sent.queue.queue_id}/{sent.queue_offset}"
        settle(console.pid)
        yield Place(address, console.pid, place, sent.offset_msg_id, "order-1", consumer.client_id)


def pages(place: Place) -> list[str]:
    """Return the addresses of all pages."""
    topic, group, everything = "/topics/orders-0000", f"/groups/{GROUP}", f"/groups/{ALL}"
    return [
        "/", "/search?q=orders", f"/search?q={place.key}", "/audit", "/topics", "/topics?q=orders-09", topic,
        f"{topic}/messages", f"{topic}/messages?key={place.key}", f"{topic}/messages/{place.message}",
        f"{topic}/messages/{place.message}/life", f"/messages/{place.message_id}", f"{topic}/cost", "/groups",
        "/groups?q=billing-1", group, everything, f"{everything}?page=2", f"{group}/dead",
        f"{group}/dead?page=2", f"{group}/history", f"{everything}/history", f"{group}/members/{quote(place.client)}",
        f"{group}/reset?topic=orders-0000&target=earliest", f"{everything}/reset?topic=orders-0001&target=latest",
        "/doctor", "/rates", "/transactions", "/timers", "/pops", "/producers",
    ]  # fmt: skip


def cost(place: Place, path: str, rounds: int, accept: str = "text/html") -> Cost:
    """Ask for a page several times, and measure the CPU time of the console until its answer is there."""
    used, status, size = list[float](), 0, 0
    for _ in range(rounds):
        before = cpu_seconds(place.pid)
        status, size = _get(place.address + path, accept)
        used.append((cpu_seconds(place.pid) - before) * 1000)
    return Cost(status, size, used)


def _get(address: str, accept: str) -> tuple[int, int]:
    request = urllib.request.Request(address, headers={"accept": accept})  # noqa: S310 - http, of the console started
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return answer.status, len(answer.read())
    except urllib.error.HTTPError as e:
        return e.code, len(e.read())


class Crowd:
    """Connections that stay open; on each a browser asks for the rates again and again.

    :ivar answers: how many came with each status.
    """

    def __init__(self, address: str, count: int) -> None:
        self._host, _, port = address.removeprefix("http://").rpartition(":")
        self._port, self._count = int(port), count
        self.answers: dict[str, int] = {}
        self.longest = 0.0

    async def run(self, seconds: float) -> None:
        """Ask for ``seconds``; the connections begin one after the other."""
        end = time.monotonic() + seconds
        await asyncio.gather(
            *(self._browse(number / self._count * _POLL_SECONDS, end) for number in range(self._count))
        )

    async def _browse(self, wait: float, end: float) -> None:
        await asyncio.sleep(wait)
        reader, writer = await asyncio.open_connection(self._host, self._port)
        while time.monotonic() < end:
            began = time.monotonic()
            writer.write(b"GET /rates HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n")
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length:"))
            await reader.readexactly(int(length.partition(":")[2]))
            status = head.split(" ")[1]
            self.answers[status] = self.answers.get(status, 0) + 1
            self.longest = max(self.longest, time.monotonic() - began)
            if "connection: close" in head.lower():
                break
            await asyncio.sleep(_POLL_SECONDS)
        writer.close()


def crowded(place: Place, connections: int, seconds: float) -> None:
    """Measure with many browsers: their answers, the console's CPU, and how long another one waits for its pages."""
    crowd = Crowd(place.address, connections)
    thread = threading.Thread(target=lambda: asyncio.run(crowd.run(seconds)))
    before, began = cpu_seconds(place.pid), time.monotonic()
    thread.start()
    waits = []
    while thread.is_alive():
        asked = time.monotonic()
        status, _ = _get(f"{place.address}/groups/{GROUP}", "text/html")
        waits.append((time.monotonic() - asked) * 1000)
        if status != 200:
            raise BenchError(f"another browser got {status}")
        thread.join(0.5)
    share = (cpu_seconds(place.pid) - before) / (time.monotonic() - began)
    click.echo(
        f"{connections:,} browsers: {crowd.answers} answers, the slowest after {crowd.longest * 1000:,.0f} ms\n"
        f"  console: {share:.2f} cores, {anonymous_mib(place.pid):.0f} MiB\n"
        f"  a page of another browser: {statistics.median(waits):.0f} ms, at most {max(waits):.0f} ms"
    )
    if set(crowd.answers) != {"200"}:
        raise BenchError("a browser was refused")


@click.command()
@click.option("--topics", default=1_000)
@click.option("--groups", default=500)
@click.option("--dead", default=10_000)
@click.option("--rounds", default=7, help="Requests of each page.")
@click.option("--browsers", default=1_000)
@click.option("--seconds", default=20.0, help="How long they stay.")
@click.option("--only", help="Pages whose address has this.")
def main(topics: int, groups: int, dead: int, rounds: int, browsers: int, seconds: float, only: str | None) -> None:
    """Measure all pages of the console. The exit status is 1 if a page took more than 150 ms of CPU time."""
    session, over = Session(QUICK, progress()), 0
    with served(session, topics, groups, dead) as place:
        click.echo(f"{'CPU ms: median':>14} {'most':>7} {'status':>6} {'KiB':>7}  page")
        for path in pages(place):
            if only is None or only in path:
                found = cost(place, path, rounds)
                middle = statistics.median(found.cpu_ms)
                over += middle > LIMIT_MS
                click.echo(
                    f"{middle:>14.1f} {max(found.cpu_ms):>7.1f} {found.status:>6} {found.size / 1024:>7.1f}  {path}"
                )
        if browsers:
            crowded(place, browsers, seconds)
        click.echo(f"the console has {anonymous_mib(place.pid):.0f} MiB")
    sys.exit(1 if over else 0)


if __name__ == "__main__":
    main()
