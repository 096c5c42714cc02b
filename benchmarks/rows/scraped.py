"""What scrapes of metrics cost sends: our broker with 1,000 topics and 10 groups, scraped every 5 s, and not."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.control import Control
from benchmarks.errors import BenchError
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.loads import QUEUES, TOPIC
from benchmarks.machine import settle
from benchmarks.rows.sides import SENDS
from benchmarks.servers import Server, start_ours
from benchmarks.session import Session
from tests.interop.javapeer import free_port_block

TOPICS, GROUPS = 1_000, 10
EVERY_SECONDS = 5.0
_RUN_SECONDS = 10.0
_SENDS = replace(SENDS, size=128)
"""Small bodies: a run lasts as long as two scrapes are apart, and all of it is stored."""


def scraped(session: Session) -> list[Figure]:
    """128 B sends, 256 in flight: scraped as by Prometheus every 5 s (ours), and not (peer); one broker, in turn."""
    port = free_port_block()
    url = f"http://127.0.0.1:{port}/metrics"
    session.tell(f"scraped: starting a broker with {TOPICS:,} topics and {GROUPS} groups")
    with _broker(session, port) as (server, control):
        lines = _lines(url)
        sent, cpu = [0] * QUEUES, dict[bool, list[float]]()

        def run(*, with_scrapes: bool) -> float:
            with scraping(url if with_scrapes else None):
                driven = session.generator.drive(server.broker, _SENDS, 1 << 40, pids=server.pids, seconds=_RUN_SECONDS)
            sent[:] = map(sum, zip(sent, driven.sent[0], strict=True))
            control.expect_offsets(TOPIC, sent)
            cpu.setdefault(with_scrapes, []).append(driven.server_cpu_us_per_message)
            return driven.rate

        run(with_scrapes=True)
        settle(server.pid)
        cpu.clear()
        values = session.in_turn("scraped", "msg/s", lambda: run(with_scrapes=True), lambda: run(with_scrapes=False))
    return [
        Figure("scraped", "msg/s", at_least(0.98), *values, notes={"lines": lines}),
        Figure("scraped-cpu", "µs CPU/msg", at_most(1.02), cpu[True], cpu[False]),
    ]


@contextmanager
def _broker(session: Session, port: int) -> Iterator[tuple[Server, Control]]:
    metrics = {"metricsExporterType": "PROM", "metricsPromExporterPort": str(port), "brokerIP1": "127.0.0.1"}
    with session.work() as work, ExitStack() as stack:
        _configure(work / "ours" / "config")
        server = start_ours(work, metrics)
        stack.callback(server.kill)
        session.generator.drive(server.broker, replace(SENDS, topics=TOPICS), 8 * TOPICS)
        control = stack.enter_context(Control(server.broker))
        control.create_topic(TOPIC, QUEUES)
        yield server, control


def _configure(config: Path) -> None:
    """Write the topics, and offsets of groups, which are behind in the first queue of each, to which is sent."""
    config.mkdir(parents=True)
    names = [f"{TOPIC}-{number}" for number in range(TOPICS)]
    known = {name: {"topicName": name, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6} for name in names}
    (config / "topics.json").write_text(json.dumps({"topicConfigTable": known}))
    offsets = {f"{name}@group-{number}": dict.fromkeys(map(str, range(QUEUES)), 0)
               for name in names for number in range(GROUPS)}  # fmt: skip
    (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))


def _lines(url: str) -> int:
    """Return the number of lines of an answer.

    :raises BenchError: it lacks groups.
    """
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - http, of the broker that was started
        lines = int(answer.read().count(b"\n"))
    if lines < 5 * TOPICS * GROUPS:
        raise BenchError(f"{url} has only {lines:,} lines")
    return lines


@contextmanager
def scraping(url: str | None) -> Iterator[None]:
    """Ask for metrics during the block, the first time at once, compressed as by Prometheus; None: do nothing.

    :raises BenchError: it failed.
    """
    if url is None:
        yield
        return
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})  # noqa: S310
    ended, failures = threading.Event(), list[Exception]()

    def scrape() -> None:
        try:
            while True:
                with urllib.request.urlopen(request) as answer:  # noqa: S310
                    answer.read()
                if ended.wait(EVERY_SECONDS):
                    return
        except Exception as e:  # noqa: BLE001 - raised at the end of the block
            failures.append(e)

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failures:
        raise BenchError(f"a scrape failed: {failures[0]}")
