"""Starting and stopping our broker and Apache RocketMQ's, each with a name server, default settings and a new store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import children, end, paused, settle
from benchmarks.program import Program
from tests.interop.java_proxy import java_proxy
from tests.interop.javapeer import JavaPeer, free_port_block

JAVA_SETTINGS = {
    # The broker's own defaults, which the tests' harness changes.
    "mappedFileSizeCommitLog": 1 << 30,
    "timerWheelEnable": "true",
    # The two settings that are not the defaults: by default, a broker that is cold or on a busy machine refuses
    # requests that waited 200 ms, or 1 s for the log, and a refused send cannot be measured.
    "waitTimeMillsInSendQueue": 10_000,
    "osPageCacheBusyTimeOutMills": 10_000,
}


class Tls(NamedTuple):
    """A server's certificate and key, named like Java's settings; connections without TLS are accepted, too."""

    certPath: Path  # noqa: N815
    keyPath: Path  # noqa: N815


@dataclass(slots=True)
class Server:
    """A running name server and broker; ``pid`` is the broker's process, which is measured.

    :param slave: address of its slave; empty if it has none.
    :param siblings: addresses of further masters of the same kind: broker-b, broker-c …
    :param more_pids: the processes of slaves and siblings.
    :param grpc: endpoint for clients that speak gRPC, if it is not that of ``broker``.
    """

    name: str
    namesrv: str
    broker: str
    pid: int
    kill: Callable[[], None]
    slave: str = ""
    siblings: tuple[str, ...] = ()
    more_pids: tuple[int, ...] = ()
    grpc: str = ""

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the broker, its slaves and its siblings."""
        return (self.pid, *self.more_pids)

    @property
    def masters(self) -> tuple[str, ...]:
        """Addresses of all masters, that of ``broker`` first."""
        return (self.broker, *self.siblings)


def our_command(store: Path, settings: Mapping[str, str] | None = None) -> list[str]:
    """Return the command line of our server on free ports.

    :param settings: settings under the names of broker.conf.
    """
    rocketmq = str(Path(sys.executable).with_name("rocketmq"))
    return [rocketmq, "serve", "--store", str(store), "--namesrv-port", "0", "--port", "0",
            *(word for key, value in (settings or {}).items() for word in ("--set", f"{key}={value}"))]  # fmt: skip


def console_command(namesrv: str) -> list[str]:
    """Return the command line of our console on a free port."""
    return [str(Path(sys.executable).with_name("rocketmq")), "console", "--port", "0", "--namesrv", namesrv]


def start_ours(
    work: Path, settings: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> Server:
    """Start our server, name server and broker in one process, and wait until it is ready.

    :param environment: environment of the process, by ``PYTHONPATH`` also the source to run; None for this process's.
    """
    command = our_command(work / "ours", settings)
    with ExitStack() as unless_ready:
        program = unless_ready.enter_context(Program(command, work / "ours.log", environment))
        said = dict(word.split("=", 1) for word in program.ready().split())
        unless_ready.pop_all()
    return Server("ours", said["namesrv"], said["broker"], program.pid, program.kill)


def start_java(
    work: Path, settings: Mapping[str, str] | None = None, java_options: str = "", port: int | None = None
) -> Server:
    """Start the Java name server and broker, and wait until they are ready.

    :param port: the broker's port; None for a free one.
    """
    peer = JavaPeer(work, stock=True)
    with ExitStack() as unless_ready:
        unless_ready.callback(peer.close)
        namesrv = peer.namesrv()
        broker = peer.broker(
            namesrv.address, conf={**JAVA_SETTINGS, **(settings or {})}, java_options=java_options, port=port
        )
        unless_ready.pop_all()
    return Server("java", namesrv.address, broker.address, broker.process.pid, peer.close)


def start_java_with_proxy(work: Path) -> Server:
    """Start the Java name server, and broker and proxy in one process, as ``mqbroker --enable-proxy`` does."""
    peer = JavaPeer(work, stock=True)
    with ExitStack() as unless_ready:
        unless_ready.callback(peer.close)
        namesrv, port = peer.namesrv(), free_port_block()
        conf = JAVA_SETTINGS | {
            "brokerName": "broker-a", "listenPort": port, "brokerIP1": "127.0.0.1", "haListenPort": port + 3,
            "storePathRootDir": work / "proxied",
        }  # fmt: skip
        proxy = unless_ready.enter_context(java_proxy(namesrv.address, work / "proxy", conf))
        kill = unless_ready.pop_all().close
    return Server("java", namesrv.address, f"127.0.0.1:{port}", proxy.pid, kill, grpc=proxy.endpoint)


def start_our_brokers(work: Path, number: int) -> Server:
    """Start several masters of our cluster and the process that supervises them; wait until they are ready."""
    command = [*our_command(work / "ours"), "--brokers", str(number)]
    with ExitStack() as unless_ready:
        program = unless_ready.enter_context(Program(command, work / "ours.log"))
        said = dict(word.split("=", 1) for word in program.ready().split())
        unless_ready.pop_all()
    brokers = children(program.pid)

    def kill() -> None:
        program.kill()  # the supervisor first, which would restart the others
        for pid in brokers:
            end(pid)

    first, *others = said["broker"].split(";")
    return Server("ours", said["namesrv"], first, program.pid, kill, siblings=tuple(others), more_pids=tuple(brokers))


# -- pairs


def start_our_pair(work: Path, role: str, settings: Mapping[str, str]) -> Server:
    """Start our master, and its slave in a second process; the slave may still have to find its master."""
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
    """Start a Java master and its slave."""
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
    """Run our server and Java's during the block; they are killed afterwards, also if the second cannot start.

    :param tls: certificate and key with which both also accept TLS; None for servers without them.
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
    """Run our master and slave, and Java's, during the block; they are killed afterwards."""
    with ExitStack() as stack:
        servers = []
        for start in (start_our_pair, start_java_pair):
            servers.append(start(work, role, settings))
            stack.callback(servers[-1].kill)
        yield servers[0], servers[1]


@contextmanager
def alone(server: Server, other: Server) -> Iterator[None]:
    """Pause ``other`` during the block, which begins when ``server`` is idle."""
    with ExitStack() as stack:
        for pid in other.pids:
            stack.enter_context(paused(pid))
        for pid in server.pids:
            settle(pid)
        yield
