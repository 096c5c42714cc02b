"""Servers as processes of their own, each of which may be killed, frozen, cut off and started again where it was.

Knows processes, their ports, and the proxies in front of them. Refuses to know what is sent through them.
"""

from __future__ import annotations

import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rocketmq_py.errors import ClosedError
from rocketmq_py.testing.proxy import TcpProxy

START_SECONDS = 400.0
"""How long a server may take to say READY, on a machine that is busy otherwise."""
_ANSWER_SECONDS = 60.0
_HOST = "127.0.0.1"
_READ = {"slaveReadEnable": "true"}
_SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}


def _environment() -> dict[str, str]:
    """The environment of a process that imports this kit, from whatever directory the tests run in."""
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


class Program:
    """A process that says READY on its standard output, whose other lines are handed on.

    :param command: what to run.
    :param log: the file its standard error is appended to.
    :param on_line: gets the lines after READY, in a thread; without, :meth:`answer` has them.
    """

    def __init__(self, command: Sequence[str], log: Path, on_line: Callable[[str], None] | None = None) -> None:
        self._log = log
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, env=_environment()
            )
        self._command = command
        self.is_ready = False
        self._on_line = on_line
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def await_ready(self) -> None:
        """Wait for READY; does nothing when it has been said.

        :raises RuntimeError: it ended, said something else or nothing for ``START_SECONDS``.
        """
        if self.is_ready:
            return
        try:
            line = self._line(START_SECONDS)
            if line is None or not line.startswith("READY"):
                raise self._error(f"said {line!r} instead of READY")
        except RuntimeError:
            self.kill()
            raise
        self.is_ready = True

    def ask(self, line: str) -> None:
        """Say a line and wait for OK.

        :raises RuntimeError: it answered something else.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._line(_ANSWER_SECONDS)
        if answer != "OK":
            raise self._error(f"answered {answer!r} to {line!r}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once; harmless when it has ended."""
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """End it in good order.

        :raises RuntimeError: its exit status is not 0 (or a signal's, for programs in Java).
        """
        self._process.terminate()
        status = self._end()
        if status not in (0, 128 + signal.SIGTERM):
            raise self._error(f"ended with status {status}")

    def _end(self) -> int:
        status = self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        return status

    def _read(self) -> None:
        assert self._process.stdout is not None
        is_ready = False
        for line in self._process.stdout:
            if is_ready and self._on_line is not None:
                self._on_line(line)
            else:
                is_ready = line.startswith("READY")
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _line(self, seconds: float) -> str | None:
        try:
            return self._lines.get(timeout=seconds)
        except queue.Empty:
            raise self._error(f"was silent for {seconds:.0f} s") from None

    def _error(self, what: str) -> RuntimeError:
        tail = self._log.read_text(errors="replace")[-3000:]
        return RuntimeError(f"{' '.join(self._command)} {what}\n{tail}")


class Servers(Protocol):
    """How name servers and brokers of some kind are started; each says READY on its standard output."""

    has_seams: bool
    """Whether they take the commands of :mod:`tests.chaoskit.node`."""

    def name_server(self, port: int, work: Path) -> Sequence[str]:
        """The command of a name server on this port."""

    def broker(self, port: int, store: Path, settings: Mapping[str, str]) -> Sequence[str]:
        """The command of a broker; ``settings`` have keys of broker.conf, its name and its name servers among them."""

    def serves(self, address: str, settings: Mapping[str, str]) -> None:
        """A broker with these settings has said READY, in its first life or a later one."""


class OurServers:
    """Servers of this package."""

    has_seams = True

    def name_server(self, port: int, work: Path) -> Sequence[str]:
        kept_in = work / f"kv-{port}.json"
        return self._node("namesrv", {"listenPort": str(port), "bindAddress": _HOST, "kvConfigPath": str(kept_in)})

    def broker(self, port: int, store: Path, settings: Mapping[str, str]) -> Sequence[str]:
        fixed = {"listenPort": str(port), "bindAddress": _HOST, "brokerIP1": _HOST, "storePathRootDir": str(store)}
        return self._node("broker", {**settings, **fixed})

    def serves(self, address: str, settings: Mapping[str, str]) -> None:
        """It has been told everything already."""

    def _node(self, kind: str, settings: Mapping[str, str]) -> Sequence[str]:
        pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        return [sys.executable, "-m", "tests.chaoskit.node", kind, *pairs]


class Server:
    """A name server or broker with a proxy in front of it.

    :param name: what to call it, for people; a broker's own name.
    :param port: where it listens, in every life.
    :param command: how it is started.
    :param has_seams: whether it takes commands on its standard input.
    :param on_ready: called with its address whenever it has said READY.
    """

    def __init__(
        self, name: str, port: int, command: Sequence[str], log: Path, *, has_seams: bool = False,
        on_ready: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.name = name
        self.port = port
        self.address = f"{_HOST}:{port}"
        self.has_seams = has_seams
        self.proxy = TcpProxy(self.address)
        """What clients connect to: where the network fails."""
        self._command = command
        self._log = log
        self._on_ready = on_ready
        self._program: Program | None = None
        self._every_start: dict[str, str] = {}

    @property
    def runs(self) -> bool:
        return self._program is not None and self._program.runs

    def start(self) -> None:
        """Start it with its store, on its port; nothing happens when it runs. Serves on return."""
        self.begin()
        self.await_ready()

    def begin(self) -> None:
        """As :meth:`start`, without waiting."""
        if not self.runs:
            self._program = Program(self._command, self._log)

    def await_ready(self) -> None:
        """Wait until it serves, after :meth:`begin`.

        :raises RuntimeError: it does not.
        """
        program = self._running()
        if program.is_ready:
            return
        program.await_ready()
        self._on_ready(self.address)
        for what, how in self._every_start.items():
            self.tell(f"{what} {how}")

    def kill(self) -> None:
        """``kill -9``."""
        self._running().kill()

    def stop(self) -> None:
        """End it in good order.

        :raises RuntimeError: it ended with an error.
        """
        self._running().stop()

    def freeze(self) -> None:
        """SIGSTOP: it does nothing any more, and nobody is told."""
        self._running().signal(signal.SIGSTOP)

    def unfreeze(self) -> None:
        """SIGCONT: it goes on, as if no time had passed. Harmless when it is not frozen."""
        self._running().signal(signal.SIGCONT)

    def fill_disk(self) -> None:
        """Its disk has no room any more."""
        self.tell("disk full")

    def free_disk(self) -> None:
        """Its disk has room again."""
        self.tell("disk free")

    def shift_clock(self, seconds: float) -> None:
        """Its wall clock shows so many seconds more than the machine's, or less; in its next lives, too."""
        self._every_start["clock"] = str(round(seconds * 1000))
        self.tell(f"clock {round(seconds * 1000)}")

    def shorten_locks(self, seconds: float) -> None:
        """Locks of queues that are consumed in order live so long after their last renewal; in its next lives, too."""
        self._every_start["locks"] = str(round(seconds * 1000))
        self.tell(f"locks {round(seconds * 1000)}")

    def tell(self, line: str) -> None:
        """Give it a command of :mod:`tests.chaoskit.node`, which holds on return."""
        self._running().ask(line)

    def heal(self) -> None:
        """The network to it is whole again."""
        self.proxy.heal()

    def close(self) -> None:
        """End it and its proxy, whatever state they are in."""
        if self._program is not None:
            self._program.kill()
            self._program = None
        self.proxy.stop()

    def _running(self) -> Program:
        if self._program is None:
            raise ClosedError(f"{self.name} does not run: start it first")
        return self._program


class Slave(Server):
    """A slave, with a proxy between it and the log of its master.

    :param link: through it the log comes; it runs already.
    """

    def __init__(
        self, name: str, port: int, command: Sequence[str], log: Path, link: TcpProxy, *, has_seams: bool = False,
        on_ready: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        super().__init__(name, port, command, log, has_seams=has_seams, on_ready=on_ready)
        self.link = link

    def heal(self) -> None:
        super().heal()
        self.link.heal()

    def close(self) -> None:
        super().close()
        self.link.stop()


class ClusterProcesses:
    """Name servers and brokers, each a process of its own with a proxy in front of it.

    :param work: a directory for stores and logs.
    :param brokers: how many masters, named broker-a, broker-b and so on.
    :param name_servers: how many name servers.
    :param slaves: how many of the masters, the first ones, have a slave, from which consumers may read; such a master
        is SYNC_MASTER and acknowledges what its slave has, too.
    :param sync: whether masters that have a slave wait for it; without, they are ASYNC_MASTER.
    :param servers: whose: ours by default.
    :param settings: keys of broker.conf, for every broker.
    """

    def __init__(
        self,
        work: Path,
        *,
        brokers: int = 2,
        name_servers: int = 2,
        slaves: int = 0,
        sync: bool = True,
        servers: Servers | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._kind = servers or OurServers()
        self._role = _SYNC if sync else {}
        self._settings = dict(settings or {})
        self._work = work
        ports = iter(_free_ports(name_servers + brokers + slaves))
        seams = self._kind.has_seams
        self.name_servers = [
            Server(f"namesrv-{number}", port, self._kind.name_server(port, work), work / f"namesrv-{number}.log",
                   has_seams=seams)
            for number, port in zip(range(1, name_servers + 1), ports, strict=False)
        ]  # fmt: skip
        self.brokers = [self._broker(number, next(ports), number < slaves) for number in range(brokers)]
        self.slaves = [self._slave(master, next(ports)) for master in self.brokers[:slaves]]

    def _broker(self, number: int, port: int, has_slave: bool) -> Server:
        name, kind = f"broker-{chr(ord('a') + number)}", self._kind
        role = {**self._role, **_READ} if has_slave else {}
        settings = self._of(name, role)
        return Server(name, port, kind.broker(port, self._work / name, settings), self._work / f"{name}.log",
                      has_seams=kind.has_seams, on_ready=lambda at: kind.serves(at, settings))  # fmt: skip

    def _slave(self, master: Server, port: int) -> Slave:
        name, kind = f"{master.name}-slave", self._kind
        link = TcpProxy(f"{_HOST}:{master.port + 1}")
        link.start()  # its address is part of the command
        role = {"brokerRole": "SLAVE", "brokerId": "1", "haMasterAddress": link.address, **_READ}
        settings = self._of(master.name, role)
        return Slave(name, port, kind.broker(port, self._work / name, settings), self._work / f"{name}.log", link,
                     has_seams=kind.has_seams, on_ready=lambda at: kind.serves(at, settings))  # fmt: skip

    def _of(self, name: str, role: Mapping[str, str]) -> Mapping[str, str]:
        """The settings of a broker."""
        return {**self._settings, **role, "brokerName": name, "namesrvAddr": self.direct_namesrv}

    @property
    def all(self) -> list[Server]:
        return [*self.name_servers, *self.brokers, *self.slaves]

    @property
    def namesrv(self) -> str:
        """The name servers as clients reach them: through the proxies."""
        return ";".join(server.proxy.address for server in self.name_servers)

    @property
    def direct_namesrv(self) -> str:
        """The name servers past their proxies, as brokers reach them."""
        return ";".join(server.address for server in self.name_servers)

    @property
    def address_map(self) -> dict[str, str]:
        """The brokers' addresses as they tell them, and the proxies to use instead: ``address_map`` of clients."""
        return {server.address: server.proxy.address for server in [*self.brokers, *self.slaves]}

    def start(self) -> None:
        """Start everything; nothing is left behind when that fails."""
        try:
            for server in self.all:
                server.proxy.start()
            for group in (self.name_servers, self.brokers, self.slaves):
                for server in group:
                    server.begin()
                for server in group:
                    server.await_ready()
        except BaseException:
            self.close()
            raise

    def heal(self) -> None:
        """Everything runs, nothing is frozen, cut off, slow or full. Clocks stay as they are."""
        for server in self.all:
            if server.runs:
                server.unfreeze()
                if server.has_seams:
                    server.free_disk()
            server.begin()
        for server in self.all:
            server.await_ready()
            server.heal()

    def close(self) -> None:
        """End everything. May be called more than once."""
        for server in self.all:
            server.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _free_ports(count: int) -> list[int]:
    """Ports with the two below and the one above free: a broker uses those, too."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        if all(abs(port - other) > 4 for other in found) and all(map(_is_free, range(port - 2, port + 2))):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
        return True
