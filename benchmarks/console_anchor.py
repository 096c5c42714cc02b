"""``python -m benchmarks.console_anchor``: what the console takes for what others can do as well.

Time and CPU time to start and to the first page, its bytes with styles and scripts, memory, the time to find one
message by its key among a million, and to see the lag of 1,000 groups: the fifty that are furthest behind, as the page
shows them, and all. Our broker has the messages; ``--dashboard`` measures Apache's RocketMQ Dashboard on the same one,
whose jar must be built from its source, as no package registry has it.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin

import click

from benchmarks.control import Control
from benchmarks.errors import BenchError
from benchmarks.loads import Load
from benchmarks.machine import anonymous_mib, cpu_seconds
from benchmarks.program import Program
from benchmarks.servers import Server, console_command, start_ours
from benchmarks.session import QUICK, Session, progress
from rocketmq_py import Message, Producer
from tests.interop.javapeer import free_port_block

TOPIC, QUEUES, KEY = "orders", 8, "the-order"
_ROUNDS = 5
_BETWEEN_SECONDS = 3.5
"""Longer than our console keeps the progress of groups."""
_START_SECONDS = 180.0


class Asked(NamedTuple):
    """The addresses of one of the consoles, and how to see in an answer that it knows the message, or lags."""

    by_key: str
    largest: str | None
    all_lags: list[str]
    lag: str


class Running(NamedTuple):
    """A console that has answered its first page."""

    address: str
    pid: int
    seconds: float
    cpu_seconds: float


def ours(groups: int, lag: int) -> Asked:
    """Return the addresses of our console."""
    pages = [f"/groups?size=200&page={number}" for number in range(1, -(-groups // 200) + 1)]
    return Asked(f"/topics/{TOPIC}/messages?key={KEY}", "/groups?sort=lag", pages, f'"lag":{lag}')


def dashboard(lag: int) -> Asked:
    """Return the addresses of RocketMQ Dashboard 2: what its pages ask."""
    return Asked(
        f"/message/queryMessageByTopicAndKey.query?topic={TOPIC}&key={KEY}", None,
        ["/consumer/groupList.query?skipSysGroup=false&address="], f'"diffTotal":{lag}',
    )  # fmt: skip


@contextmanager
def filled(session: Session, messages: int, groups: int) -> Iterator[Server]:
    """Run a broker with the messages, one of which has the key, and groups that have consumed none of them."""
    with session.work() as work, ExitStack() as stack:
        config = work / "ours" / "config"
        config.mkdir(parents=True)
        known = {TOPIC: {"topicName": TOPIC, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6}}
        names = [f"billing-{number:04d}" for number in range(groups)]
        for name in names:  # a group has it once a consumer was connected; the dashboard knows no lag without
            retry = f"%RETRY%{name}"
            known[retry] = {"topicName": retry, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
        offsets = {f"{TOPIC}@{name}": dict.fromkeys(map(str, range(QUEUES)), 0) for name in names}
        tables = {name: {"groupName": name} for name in names}
        (config / "topics.json").write_text(json.dumps({"topicConfigTable": known}))
        (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
        (config / "subscriptionGroup.json").write_text(json.dumps({"subscriptionGroupTable": tables}))
        server = start_ours(work)
        stack.callback(server.kill)
        load, half = Load("send", 256, topic=TOPIC, queues=QUEUES, size=100), messages // 2 // QUEUES * QUEUES
        session.tell(f"sending {2 * half:,} messages")
        session.generator.drive(server.broker, load, half)
        with Producer("bench", server.namesrv) as producer:
            producer.send(Message(TOPIC, b'{"order": 1}', keys=[KEY]))
        session.generator.drive(server.broker, load, half)
        with Control(server.broker) as control:
            if sum(control.max_offsets(TOPIC, QUEUES)) != 2 * half + 1:
                raise BenchError("not all messages are there")
        yield server


@contextmanager
def started(command: list[str], log: Path, address: str | None = None) -> Iterator[Running]:
    """Run a console, and wait until it answers its first page.

    :param address: where it will be; None if it says so itself.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        if address is None:
            program = stack.enter_context(Program(command, log))
            pid = program.pid
            address = dict(word.split("=", 1) for word in program.ready().split())["console"]
        else:
            process = subprocess.Popen(command, stdout=log.open("w"), stderr=subprocess.STDOUT, cwd=log.parent)
            stack.callback(process.wait)
            stack.callback(process.kill)
            pid = process.pid
        while True:
            try:
                get(address + "/")
                break
            except urllib.error.HTTPError:
                break  # a build without pages, which answers what they ask
            except (urllib.error.URLError, OSError) as e:
                if time.monotonic() - began > _START_SECONDS:
                    raise BenchError(f"{address} does not answer: {e}; see {log}") from e
                time.sleep(0.02)
        yield Running(address, pid, time.monotonic() - began, cpu_seconds(pid))


def get(address: str) -> str:
    """Return what a page says; JSON where there is."""
    request = urllib.request.Request(address, headers={"accept": "application/json, text/html"})  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
        return str(answer.read().decode(errors="replace"))


def bytes_of_page(address: str) -> int:
    """Return the bytes of a page and of the styles and scripts that it names, compressed where the server does so."""
    headers = {"accept": "text/html", "accept-encoding": "gzip"}

    def size(where: str) -> int:
        with urllib.request.urlopen(urllib.request.Request(where, headers=headers), timeout=60) as answer:  # noqa: S310
            return len(answer.read())

    page = urllib.request.Request(address, headers={"accept": "text/html"})  # noqa: S310
    try:
        with urllib.request.urlopen(page, timeout=60) as answer:  # noqa: S310
            text = answer.read().decode()
    except urllib.error.HTTPError:
        return 0
    parts = set(re.findall(r'<(?:script|link)\b[^>]*?(?:src|href)="([^"]+\.(?:js|css))"', text))
    return size(address) + sum(size(urljoin(address, part)) for part in parts)


def times(running: Running, paths: list[str], known: str, count: int) -> str:
    """Return the time of the first answers, for which nothing is kept yet, and the median of later ones.

    :param known: what the answers must have, ``count`` times at least.
    """
    took = []
    for _ in range(_ROUNDS):
        began = time.monotonic()
        text = "".join(get(running.address + path) for path in paths)
        took.append((time.monotonic() - began) * 1000)
        if text.replace(" ", "").count(known) < count:
            raise BenchError(f"{paths[0]} does not know {known}: {text[:300]}")
        time.sleep(_BETWEEN_SECONDS)
    return f"first {took[0]:,.0f} ms, then {statistics.median(took[1:]):,.0f} ms"


def measure(name: str, running: Running, asked: Asked, groups: int) -> None:
    """Print the figures of a console."""
    rows = {
        "start to the first page": f"{running.seconds:.1f} s, {running.cpu_seconds:.1f} s of CPU",
        "bytes of the first page": f"{bytes_of_page(running.address + '/'):,}",
        "memory after that": f"{anonymous_mib(running.pid):.0f} MiB",
        "one message by key": times(running, [asked.by_key], KEY, 1),
        "the largest lags": times(running, [asked.largest], asked.lag, 50) if asked.largest else "-",
        "the lags of all groups": times(running, asked.all_lags, asked.lag, groups),
        "memory at the end": f"{anonymous_mib(running.pid):.0f} MiB",
    }
    for row, value in rows.items():
        click.echo(f"{name:<10} {row:<26} {value}")


@click.command()
@click.option("--messages", default=1_000_000)
@click.option("--groups", default=1_000)
@click.option("--dashboard", "jar", type=click.Path(exists=True, path_type=Path), help="Its jar.")
def main(messages: int, groups: int, jar: Path | None) -> None:
    """Measure our console, and Apache's dashboard if its jar is given."""
    session = Session(QUICK, progress())
    with filled(session, messages, groups) as server, session.work() as work:
        lag = messages // 2 // QUEUES * QUEUES * 2 + 1
        with started(console_command(server.namesrv), work / "console.log") as running:
            measure("ours", running, ours(groups, lag), groups)
        if jar is not None:
            port = free_port_block()
            config = {"namesrvAddrs[0]": server.namesrv, "loginRequired": "false", "dataPath": work}
            java = ["java", "-jar", str(jar.absolute()), f"--server.port={port}",
                    *(f"--rocketmq.config.{key}={value}" for key, value in config.items())]  # fmt: skip
            with started(java, work / "dashboard.log", f"http://127.0.0.1:{port}") as running:
                measure("dashboard", running, dashboard(lag), groups)


if __name__ == "__main__":
    main()
