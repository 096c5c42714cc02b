"""Memory of our server under mixed load for minutes.

``python -m benchmarks.soak --minutes 10`` sends one by one, in batches and with delays, consumes with two push
consumers of which one is restarted repeatedly, makes administrative requests, and prints the private memory of server
and clients every few seconds. The exit status is 1 if either grows, if a message is lost, or if a request fails.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median

import click

from benchmarks.machine import anonymous_mib, cpu_seconds
from benchmarks.servers import start_ours
from rocketmq_py import Admin, ConsumeFromWhere, Message, MessageExt, Producer, PushConsumer, RocketMQError

TOPICS = ("soak-a", "soak-b", "soak-c")
SAMPLE_SECONDS = 5.0
GROWTH = 1.05
"""Limit of memory at the end, as a multiple of that in the second quarter; growth up to ``GROWTH_MIB`` is allowed."""
GROWTH_MIB = 8.0
WAIT_SECONDS = 120.0
_EARLY = 5_000


@dataclass(slots=True)
class Books:
    """Messages that were sent and not received yet; kept small, because this process's memory is measured, too."""

    missing: set[int] = field(default_factory=set)
    early: set[int] = field(default_factory=set)
    """Numbers of messages that were received before their send was noted, or received again."""
    total_sent: int = 0
    total_received: int = 0
    failures: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note_sent(self, *messages: Message) -> None:
        numbers = {int(message.body) for message in messages}
        with self.lock:
            self.total_sent += len(numbers)
            self.missing |= numbers - self.early
            self.early -= numbers

    def note_received(self, message: MessageExt) -> None:
        number = int(message.body)
        with self.lock:
            self.total_received += 1
            if number in self.missing:
                self.missing.discard(number)
                return
            self.early.add(number)
            if len(self.early) > _EARLY:
                self.early = {one for one in self.early if one > self.total_sent - _EARLY // 2}


class Worker(threading.Thread):
    """Calls ``act`` repeatedly until :meth:`end`, with a pause in seconds before each call; notes its errors."""

    def __init__(self, books: Books, pause: float, act: Callable[[], None]) -> None:
        super().__init__(name=act.__name__, daemon=True)
        self._books = books
        self._pause = pause
        self._act = act
        self._stop_event = threading.Event()

    def run(self) -> None:
        while not self._stop_event.wait(self._pause):
            try:
                self._act()
            except RocketMQError as e:
                self._books.failures.append(f"{self.name}: {e}")

    def end(self) -> None:
        self._stop_event.set()
        self.join()


class Load:
    """The clients and the threads that use them."""

    def __init__(self, namesrv: str, broker: str, books: Books) -> None:
        self._namesrv = namesrv
        self._broker = broker
        self._books = books
        self._numbers = count()
        self._producer = Producer(group="soak", namesrv=namesrv)
        self._admin = Admin(namesrv=namesrv)
        self._steady = self._consumer()
        self._restless = self._consumer()
        self._workers = [
            Worker(books, 0.005, self.one),
            Worker(books, 0.05, self.batch),
            Worker(books, 0.05, self.delayed),
            Worker(books, 10.0, self.restart),
            Worker(books, 0.5, self.ask),
        ]

    def start(self) -> None:
        self._admin.start()
        for topic in TOPICS:
            self._admin.create_topic(topic, 4)
        self._producer.start()
        self._steady.start()
        self._restless.start()
        for worker in self._workers:
            worker.start()

    def stop_sending(self) -> None:
        for worker in self._workers:
            worker.end()

    def close(self) -> None:
        self._restless.close()
        self._steady.close()
        self._producer.close()
        self._admin.close()

    def _consumer(self) -> PushConsumer:
        consumer = PushConsumer(group="soak", namesrv=self._namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET)
        for topic in TOPICS:
            consumer.subscribe(topic, listener=self._books.note_received)
        return consumer

    def _message(self, topic: str, delay_level: int = 0) -> Message:
        number = next(self._numbers)
        tag, key = random.choice("AB"), f"k{number % 1000}"
        return Message(topic, f"{number}", tags=tag, keys=key, delay_level=delay_level)

    # -- actions of the workers

    def one(self) -> None:
        message = self._message(random.choice(TOPICS))
        self._producer.send(message)
        self._books.note_sent(message)

    def batch(self) -> None:
        topic = random.choice(TOPICS)
        messages = [self._message(topic) for _ in range(16)]
        self._producer.send_batch(messages)
        self._books.note_sent(*messages)

    def delayed(self) -> None:
        message = self._message(random.choice(TOPICS), delay_level=1)
        self._producer.send(message)
        self._books.note_sent(message)

    def restart(self) -> None:
        self._restless.close()
        self._restless = self._consumer()
        self._restless.start()

    def ask(self) -> None:
        topic, admin = random.choice(TOPICS), self._admin
        admin.cluster()
        admin.broker_state(self._broker)
        admin.topics()
        admin.topic_stats(topic)
        admin.progress("soak")
        admin.members("soak")
        admin.messages_by_key(topic, f"k{random.randrange(1000)}")


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="How long the load lasts.")
def main(minutes: float) -> None:
    """Put mixed load on a server of ours and watch its memory."""
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketmq-soak-")))
        # Small log files, so that the log rolls over as it does in months.
        server = start_ours(work, {"mappedFileSizeCommitLog": str(16 << 20), "enablePropertyFilter": "true"})
        stack.callback(server.kill)
        books = Books()
        load = Load(server.namesrv, server.broker, books)
        load.start()
        stack.callback(load.close)
        samples = _watch(server.pid, books, minutes * 60)
        load.stop_sending()
        _judge(samples, books)


def _watch(pid: int, books: Books, seconds: float) -> list[tuple[float, float]]:
    """Return samples of the memory of server and clients in MiB, taken every few seconds; print each."""
    samples = []
    click.echo("    s  server MiB  clients MiB  server CPU       sent   received")
    begin, worked = time.monotonic(), cpu_seconds(pid)
    while (passed := time.monotonic() - begin) < seconds:
        time.sleep(SAMPLE_SECONDS)
        now = cpu_seconds(pid)
        samples.append((anonymous_mib(pid), anonymous_mib(os.getpid())))
        share, worked = (now - worked) / SAMPLE_SECONDS, now
        click.echo(
            f"{passed + SAMPLE_SECONDS:5.0f}  {samples[-1][0]:10.1f}  {samples[-1][1]:11.1f}  {share:9.0%}  "
            f"{books.total_sent:9}  {books.total_received:9}"
        )
    return samples


def _judge(samples: list[tuple[float, float]], books: Books) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while books.missing and time.monotonic() < deadline:
        time.sleep(0.5)
    faults = [f"{len(books.missing)} messages are missing"] if books.missing else []
    faults += books.failures[:5]
    for who, series in zip(("server", "clients"), zip(*samples, strict=True), strict=True):
        quarter = max(1, len(series) // 4)
        before, after = median(series[quarter : 2 * quarter] or series), median(series[-quarter:])
        click.echo(f"{who}: {before:.1f} MiB in the second quarter, {after:.1f} MiB in the last")
        if after > max(before * GROWTH, before + GROWTH_MIB):
            faults.append(f"the memory of the {who} has grown from {before:.1f} to {after:.1f} MiB")
    click.echo(f"{books.total_sent} sent, {books.total_received} received, {len(books.failures)} failures")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
