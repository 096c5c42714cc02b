"""Rows about a broker's store: the time to start after ``kill -9``, and the CPU time with ten thousand topics."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.control import Control
from benchmarks.drive import Generator
from benchmarks.figures import Figure, at_most
from benchmarks.loads import QUEUES, TOPIC, Load
from benchmarks.machine import settle
from benchmarks.program import Program
from benchmarks.servers import JAVA_SETTINGS, Server, alone, our_command, start_ours
from benchmarks.session import Session
from tests.interop.javapeer import JavaPeer

SENDS = Load("send", 256)
_LOG_BYTES = 2 << 30
_RECORD_BYTES = 1200
FEW, MANY = 10, 10_000

Start = Callable[[Path], tuple[str, Callable[[], None]]]
"""Starts a broker on a store directory; returns its address and a function that kills it."""


# -- recovery


def recovery(session: Session) -> list[Figure]:
    """Time from the command until a broker is ready, on a log of 2 GiB whose broker was killed after the last send."""
    count = session.scale.of(_LOG_BYTES // _RECORD_BYTES, QUEUES)
    with session.work() as work, _java(work) as start_java:

        def start_ours_on(store: Path) -> tuple[str, Callable[[], None]]:
            with ExitStack() as unless_ready:
                program = unless_ready.enter_context(Program(our_command(store), work / "ours.log"))
                said = dict(word.split("=", 1) for word in program.ready(timeout=600).split())
                unless_ready.pop_all()
            return said["broker"], program.kill

        sides = [_Killed(work / name, start) for name, start in (("ours", start_ours_on), ("java", start_java))]
        for side in sides:
            session.tell(f"recovery: storing {count:,} messages in {side.store.name}")
            side.fill(session.generator, count)
        ours, java = sides
        values = session.in_turn("recovery", "s", ours.start_again, java.start_again)
    return [Figure("recovery", "s", at_most(1.0), *values)]


@contextmanager
def _java(work: Path) -> Iterator[Start]:
    """Run a Java name server during the block, which gets a function that starts brokers."""
    peer = JavaPeer(work, stock=True)
    try:
        namesrv = peer.namesrv().address
        peer.brokers(namesrv)  # warms up the tool that shows when a broker is registered

        def start(store: Path) -> tuple[str, Callable[[], None]]:
            broker = peer.broker(namesrv, store=store, conf=JAVA_SETTINGS)
            return broker.address, broker.process.kill

        yield start
    finally:
        peer.close()


class _Killed:
    """A store in the state in which its broker was killed, which is restored before each start.

    The commit log is not copied: a start does not change it, and the files that it adds are removed.
    """

    def __init__(self, store: Path, start: Start) -> None:
        self.store = store
        self._start = start
        self._kept = store.with_name(f"{store.name}-kept")
        self._sent: list[int] = []

    def fill(self, generator: Generator, count: int) -> None:
        """Store messages, kill the broker as soon as all are acknowledged, and copy the store without its log."""
        address, kill = self._start(self.store)
        with Control(address) as control:
            control.create_topic(TOPIC, QUEUES)
        driven = generator.drive(address, SENDS, count)
        kill()
        (self._sent,) = driven.sent
        self._log = sorted(path.name for path in (self.store / "commitlog").iterdir())
        self._kept.mkdir()
        _copy(self._others(self.store), self._kept)

    def start_again(self) -> float:
        """Restore the store and start a broker; return the seconds until it is ready. All messages must be readable."""
        self._restore()
        begin = time.perf_counter()
        address, kill = self._start(self.store)
        took = time.perf_counter() - begin
        with Control(address) as control:
            control.expect_offsets(TOPIC, self._sent)
        kill()
        return took

    def _restore(self) -> None:
        for path in (self.store / "commitlog").iterdir():
            if path.name not in self._log:
                path.unlink()
        for path in self._others(self.store):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        _copy(self._others(self._kept), self.store)

    def _others(self, folder: Path) -> list[Path]:
        return [path for path in folder.iterdir() if path.name != "commitlog"]


def _copy(paths: list[Path], target: Path) -> None:
    """Copy files and folders, sparse where they have zeros, as most files of a store have."""
    subprocess.run(["/bin/cp", "-r", "--sparse=always", *paths, target], check=True)


# -- topics


def topics(session: Session) -> list[Figure]:
    """CPU time of our broker per 1 KiB send, to 10,000 topics in turn (ours) and to 10 topics (peer)."""
    count = session.scale.of(160_000, MANY)
    with session.work() as work, ExitStack() as stack:
        sides = []
        for number in (MANY, FEW):
            session.tell(f"topics: starting a broker with {number:,} topics")
            sides.append(stack.enter_context(_topics(session, work / str(number), number)))
        many, few = sides

        def turn(side: _Topics, other: _Topics) -> Callable[[], float]:
            def once() -> float:
                with alone(side.server, other.server):
                    return side.run(count)

            return once

        values = session.in_turn("topics", "µs CPU/msg", turn(many, few), turn(few, many))
    return [Figure("topics", "µs CPU/msg", at_most(1.3), *values)]


class _Topics:
    """A broker with topics of one queue each."""

    def __init__(self, server: Server, generator: Generator, control: Control, names: list[str]) -> None:
        self.server = server
        self._generator = generator
        self._control = control
        self._names = names
        self._load = replace(SENDS, topics=len(names))
        self._sent = 0

    def run(self, count: int) -> float:
        """Send messages to the topics in turn; return CPU microseconds of the broker per message."""
        driven = self._generator.drive(self.server.broker, self._load, count, pids=self.server.pids)
        self._sent += count
        for name in (self._names[0], self._names[-1]):
            self._control.expect_offsets(name, [self._sent // len(self._names)])
        return driven.server_cpu_us_per_message


@contextmanager
def _topics(session: Session, work: Path, number: int) -> Iterator[_Topics]:
    names = [f"{TOPIC}-{i}" for i in range(number)]
    # Creating ten thousand topics by requests takes minutes, because each rewrites the file of all topics.
    known = {name: {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6} for name in names}
    config = work / "ours" / "config" / "topics.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"topicConfigTable": known}))
    with ExitStack() as stack:
        server = start_ours(work)
        stack.callback(server.kill)
        control = stack.enter_context(Control(server.broker))
        side = _Topics(server, session.generator, control, names)
        side.run(2 * MANY)
        settle(server.pid)
        yield side
