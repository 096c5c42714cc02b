"""The two brokers that take turns: ours and Apache RocketMQ's, each with a name server, stock settings, a fresh store.

Knows how they are started and stopped. Refuses to know what is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import children, end, paused, settle
from benchmarks.program import Program
from tests.interop.javapeer import JavaPeer

JAVA_SETTINGS = {
    # The broker's own defaults, which the tests' harness changes.
    "mappedFileSizeCommitLog": 1 << 30,
    "timerWheelEnable": "true",
    # The two settings that are not stock: cold or on a busy machine it refuses what waited 200 ms, or 1 s for the log,
    # and a refused send cannot be measured.
    "waitTimeMillsInSendQueue": 10_000,
    "osPageCacheBusyTimeOutMills": 10_000,
}


class Tls(NamedTuple):
    """A server's certificate and key, named as Java's settings are; connections without TLS are taken, too."""

    certPath: Path  # noqa: N815
    keyPath: Path  # noqa: N815


@dataclass(slots=True)
class Server:
    """A running name server and broker; ``pid`` is the broker's process, the one that is judged.

    :param slave: address of its slave, if it has one.
    :param siblings: addresses of further masters of the same kind: broker-b, broker-c …
    :param more_pids: the processes of slaves and siblings.
    """

    name: str
    namesrv: str
    broker: str
    pid: int
    kill: Callable[[], None]
    slave: str = ""
    siblings: tuple[str, ...] = ()
    more_pids: tuple[int, ...] = ()

    @property
    def pids(self) -> tuple[int, ...]:
        """Of everything that works here."""
        return (self.pid, *self.more_pids)

    @property
    def masters(self) -> tuple[str, ...]:
        """Addresses of the masters."""
        return (self.broker, *self.siblings)


def our_command(store: Path, settings: Mapping[str, str] | None = None) -> list[str]:
    """The command line of our server on free ports, with settings of broker.conf."""
    rocketmq = str(Path(sys.executable).with_name("rocketmq"))
    return [rocketmq, "serve", "--store", str(store), "--namesrv-port", "0", "--port", "0",
            *(word for key, value in (settings or {}).items() for word in ("--set", f"{key}={value}"))]  # fmt: skip


def start_ours(
    work: Path, settings: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> Server:
    """Our server, ready: name server and broker in one process.

    :param environment: of the process, instead of this one's; what ``PYTHONPATH`` names is run.
    """
    command = our_command(work / "ours", settings)
    with ExitStack() as unless_ready:
        program = unless_ready.enter_context(Program(command, work / "ours.log", environment))
        said = dict(word.split("=", 1) for word in program.ready().split())
        unless_ready.pop_all()
    return Server("ours", said["namesrv"], said["broker"], program.pid, program.kill)


def start_java(work: Path, settings: Mapping[str, str] | None = None, java_options: str = "") -> Server:
    """The Java name server and broker, ready."""
    peer = JavaPeer(work, stock=True)
    with ExitStack() as unless_ready:
        unless_ready.callback(peer.close)
        namesrv = peer.namesrv()
        broker = peer.broker(namesrv.address, conf={**JAVA_SETTINGS, **(settings or {})}, java_options=java_options)
        unless_ready.pop_all()
    return Server("java", namesrv.address, broker.address, broker.process.pid, peer.close)


def start_our_brokers(work: Path, number: int) -> Server:
    """Several masters of one cluster and the process that watches them (``serve --brokers``), ready."""
    command = [*our_command(work / "ours"), "--brokers", str(number)]
    with ExitStack() as unless_ready:
        program = unless_ready.enter_context(Program(command, work / "ours.log"))
        said = dict(word.split("=", 1) for word in program.ready().split())
        unless_ready.pop_all()
    brokers = children(program.pid)

    def kill() -> None:
        program.kill()  # first, or it would start the others again
        for pid in brokers:
            end(pid)

    first, *others = said["broker"].split(";")
    return Server("ours", said["namesrv"], first, program.pid, kill, siblings=tuple(others), more_pids=tuple(brokers))


# -- pairs


def start_our_pair(work: Path, role: str, settings: Mapping[str, str]) -> Server:
    """Our master and a slave of it in a process of its own, ready; it finds its master by the name server, later."""
    with ExitStack() as unless_ready:
        master = start_ours(work, {**settings, "brokerRole": role})
        unless_ready.callback(master.kill)
        command = our_command(work / "our-slave", settings)
        command += ["--namesrv", master.namesrv, "--role", "SLAVE", "--id", "1"]
        slave = unless_ready.enter_context(Program(command, work / "our-slave.log"))
        said = dict(word.split("=", 1) for word in slave.ready().split())
        unless_ready.pop_all()

    def kill() -> None:
        slave.kill()
        master.kill()

    return replace(master, kill=kill, slave=said["broker"], more_pids=(slave.pid,))


def start_java_pair(work: Path, role: str, settings: Mapping[str, str]) -> Server:
    """The same of Java brokers."""
    peer = JavaPeer(work, stock=True)
    with ExitStack() as unless_ready:
        unless_ready.callback(peer.close)
        namesrv = peer.namesrv()
        conf = {**JAVA_SETTINGS, **settings}
        master = peer.broker(namesrv.address, role=role, conf=conf)
        slave = peer.broker(namesrv.address, role="SLAVE", id=1, conf=conf)
        unless_ready.pop_all()
    return Server(
        "java", namesrv.address, master.address, master.process.pid, peer.close, slave.address,
        more_pids=(slave.process.pid,),
    )  # fmt: skip


@contextmanager
def ours_and_java(
    work: Path, settings: Mapping[str, str] | None = None, tls: Tls | None = None
) -> Iterator[tuple[Server, Server]]:
    """Both servers; killed at the end of the block, a failed start of the second included.

    :param tls: what both also speak TLS with.
    """
    own = {f"tls.server.{key}": str(path) for key, path in tls._asdict().items()} if tls is not None else {}
    words = " ".join(f"-D{key}={value}" for key, value in own.items())
    java_options = f"-Dtls.test.mode.enable=false {words}" if tls is not None else ""
    with ExitStack() as stack:
        ours = start_ours(work, {**(settings or {}), **own})
        stack.callback(ours.kill)
        java = start_java(work, settings, java_options)
        stack.callback(java.kill)
        yield ours, java


@contextmanager
def our_and_java_pair(work: Path, role: str, settings: Mapping[str, str]) -> Iterator[tuple[Server, Server]]:
    """Both pairs; killed at the end of the block, a failed start of the second included."""
    with ExitStack() as stack:
        servers = []
        for start in (start_our_pair, start_java_pair):
            servers.append(start(work, role, settings))
            stack.callback(servers[-1].kill)
        yield servers[0], servers[1]


@contextmanager
def alone(server: Server, other: Server) -> Iterator[None]:
    """The block runs with ``server`` awake and settled and the other one paused."""
    with ExitStack() as stack:
        for pid in other.pids:
            stack.enter_context(paused(pid))
        for pid in server.pids:
            settle(pid)
        yield
