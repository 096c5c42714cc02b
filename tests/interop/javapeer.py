"""Drives the stock Java RocketMQ (folder ``peer``) from tests.

Knows how to find Java and Maven, build the peer once, start its servers and clients, read their JSON lines and end
them. Knows nothing about our own package: what the peer says is the judge, so it must not pass through our code.
"""

from __future__ import annotations

import json
import os
import queue
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

PEER = Path(__file__).with_name("peer") / "peer"
QUICK = "-XX:TieredStopAtLevel=1 -Dtls.server.mode=disabled -Dpeer.paced=true"
"""Servers that live for a few tests need no optimising compiler, no key pair made for a TLS nobody speaks, and no core
of their own after the first transaction."""
PATIENT_CONF = {
    "brokerFastFailureEnable": "false", "osPageCacheBusyTimeOutMills": 60_000, "syncFlushTimeout": 60_000,
}  # fmt: skip
"""Of brokers of both sides. By default a send that has waited for 200 ms, a lock held for a second and a sync of 5 s
are errors; that a process has no core or no disk for so long is none."""
QUICK_CONF = {
    "mappedFileSizeCommitLog": 64 << 20,
    "transactionMetricFlushInterval": 1000,
    "timerFlushIntervalMs": 60_000,
    **PATIENT_CONF,
}
"""Small files. A Java broker turns round and round with nothing to do until the first of the intervals, 10 s, is over
once; whenever the other is over, a second by default, it writes a timer wheel of 38 MB, and how far its timers are."""
START_SECONDS = 180.0
"""How long a JVM may take to say READY; the usual 3 s become a minute on a machine that is busy otherwise."""
PATIENCE_SECONDS = 300.0
"""How long what must come is waited for; far above what it takes. Where a client has left a Java broker it may take two
minutes: one that handles a heartbeat after the end of the connection keeps the member, and its queues, for so long."""

Row = dict[str, Any]


class PeerError(RuntimeError):
    """A Java process failed, was silent for too long, or said something unexpected; the text carries its stderr."""


def missing() -> str | None:
    """Why the Java peer cannot run on this machine, or None when it can."""
    if os.name != "posix" or shutil.which("bash") is None or shutil.which("flock") is None:
        return "the Java peer needs Linux with bash and flock"
    absent = [tool for tool in (os.environ.get("JAVA", "java"), "mvn") if shutil.which(tool) is None]
    return f"not on PATH: {', '.join(absent)}" if absent else None


def free_port_block() -> int:
    """A port N with N-2, N-1, N, N+1 free: a Java broker uses three of them.

    No other process of tests is given it while this one runs: a JVM may take a minute until it listens there.
    """
    for _ in range(200):
        port = random.randrange(20_002, 32_000, 4)
        if _take(port) and all(map(_is_free, range(port - 2, port + 2))):
            return port
    raise PeerError("no block of four free ports between 20000 and 32000")


def _take(port: int) -> bool:
    """Marks a block, on a port of UDP, which nothing else here uses."""
    mark = socket.socket(type=socket.SOCK_DGRAM)
    try:
        mark.bind(("127.0.0.1", port))
    except OSError:
        mark.close()
        return False
    mark.detach()  # stays open until this process ends
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def options(**named: Any) -> list[str]:
    """Keyword arguments as the peer's flags: ``work_ms=5`` gives ``--work-ms 5``; True a bare flag; a list repeats."""
    args: list[str] = []
    for name, value in named.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        for item in value if isinstance(value, list) else [value]:
            if item is True:
                args.append(flag)
            elif item is not False and item is not None:
                args += [flag, str(item)]
    return args


class JavaProcess:
    """One running JVM of the peer, its stdout as a stream of lines and its stderr in a file.

    Use as a context manager; leaving kills the JVM. ``stop()`` asks it to end in good order (slow for a broker).
    """

    def __init__(self, args: Iterable[str], log: Path, java_options: str = "", level: str = "WARN") -> None:
        self.args = list(args)
        self.log = log
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        environment = {**os.environ, "PEER_LOG": level}
        if java_options:
            environment["PEER_JAVA_OPTS"] = f"{environment.get('PEER_JAVA_OPTS', '')} {java_options}".strip()
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [str(PEER), *self.args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                env=environment, start_new_session=True, text=True, encoding="utf-8", cwd=log.parent,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name=f"peer-{self.args[0]}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self, timeout: float) -> str | None:
        """The next line of stdout, or None at its end; PeerError when none comes within ``timeout`` seconds."""
        try:
            return self._lines.get(timeout=timeout)
        except queue.Empty:
            raise self.error(f"was silent for {timeout:.0f} s") from None

    def say(self, line: str) -> None:
        """Writes a line to stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def ready(self) -> JavaProcess:
        """Waits for a server's READY line."""
        line = self.line(START_SECONDS)
        if line is None or not line.startswith("READY"):
            raise self.error(f"said {line!r} instead of READY")
        return self

    def rows(self, timeout: float = PATIENCE_SECONDS) -> Iterator[Row]:
        """The JSON lines to the end of stdout, each within ``timeout`` seconds of the one before."""
        while (line := self.line(timeout)) is not None:
            yield json.loads(line)

    def until(self, wanted: Callable[[Row], bool], timeout: float = PATIENCE_SECONDS) -> list[Row]:
        """The rows up to and with the first wanted one; PeerError when it has not come within ``timeout`` seconds."""
        seen: list[Row] = []
        deadline = time.monotonic() + timeout
        while (line := self.line(max(0.0, deadline - time.monotonic()))) is not None:
            seen.append(json.loads(line))
            if wanted(seen[-1]):
                return seen
        raise self.error(f"ended before the wanted line; it said {seen[-5:]}")

    def wait(self, timeout: float) -> int:
        """The exit status; PeerError when the JVM still runs after ``timeout`` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise self.error(f"did not end within {timeout:.0f} s") from None

    def poll(self) -> int | None:
        """The exit status, or None while the JVM runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """Asks the JVM to shut down in good order; does not wait."""
        self._process.terminate()

    def stop(self, timeout: float = PATIENCE_SECONDS) -> int:
        """Shuts the JVM down in good order and waits: what a test of a cleanly closed Java store needs."""
        self.terminate()
        return self.wait(timeout)

    def kill(self) -> None:
        """Ends the JVM at once; harmless when it has ended already."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def error(self, what: str) -> PeerError:
        tail = self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""
        return PeerError(f"peer {' '.join(self.args)}: {what}\n{tail}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@dataclass(slots=True)
class JavaServer:
    """A name server or broker that has said READY; ``namesrv`` is where a broker is registered."""

    process: JavaProcess
    address: str
    namesrv: str
    store: Path


@dataclass(slots=True)
class JavaPeer:
    """Everything a test asks of Java. ``work`` takes logs and stores; ``close()`` kills what was started.

    Servers are set up to start soon and to do little beside what they are asked, unless they are to be ``stock``.
    Commands of mqadmin, producers and consumers that are waited for run in a JVM of this peer, or in that of its
    ``host``: one after the other.
    """

    work: Path
    stock: bool = False
    host: JavaPeer | None = None
    _running: list[JavaProcess] = field(default_factory=list)
    _count: int = 0
    _shell: JavaProcess | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @staticmethod
    def build() -> None:
        """Downloads and compiles the peer when its sources changed; PeerError with Maven's words when that fails."""
        done = subprocess.run([str(PEER), "build"], capture_output=True, text=True, check=False, timeout=900)
        if done.returncode != 0:
            raise PeerError(f"peer build failed:\n{done.stdout}\n{done.stderr}")

    def start(self, *args: str, java_options: str = "", level: str = "WARN") -> JavaProcess:
        """Any verb of the peer; ``level`` is what of RocketMQ's own log goes to the log file."""
        self._count += 1
        process = JavaProcess(args, self.work / f"{self._count:03}-{args[0]}.log", java_options, level)
        self._running.append(process)
        return process

    def _server(self, *args: str, java_options: str) -> JavaProcess:
        return self.start(*args, java_options=java_options if self.stock else f"{QUICK} {java_options}")

    def namesrv(self, *, conf: dict[str, Any] | None = None, java_options: str = "") -> JavaServer:
        port = free_port_block()
        store = self.work / f"namesrv-{port}"
        address = f"127.0.0.1:{port}"
        flags = options(store=store, conf=[f"{k}={v}" for k, v in (conf or {}).items()])
        process = self._server("namesrv", str(port), *flags, java_options=java_options)
        return JavaServer(process.ready(), address, address, store)

    def broker(
        self, namesrv: str, *, store: Path | None = None, port: int | None = None, conf: dict[str, Any] | None = None,
        java_options: str = "", **named: Any,
    ) -> JavaServer:  # fmt: skip
        """A broker registered at ``namesrv``, with the settings ``conf`` beside :data:`QUICK_CONF`."""
        port = port or free_port_block()
        store = store or self.work / f"store-{port}"
        settings = {**({} if self.stock else QUICK_CONF), **(conf or {})}
        flags = options(
            store=store, namesrv=namesrv, port=port, conf=[f"{k}={v}" for k, v in settings.items()], **named
        )
        process = self._server("broker", *flags, java_options=java_options).ready()
        address = f"{settings.get('brokerIP1', '127.0.0.1')}:{port}"
        self._await_registration(namesrv, address)
        return JavaServer(process, address, namesrv, store)

    def _await_registration(self, namesrv: str, broker: str) -> None:
        """READY comes before the first registration, and no one tells when that is done: asks until it is."""
        deadline = time.monotonic() + START_SECONDS
        while broker not in self.brokers(namesrv):
            if time.monotonic() > deadline:
                raise PeerError(f"broker {broker} has not registered at {namesrv}")
            time.sleep(0.1)

    def produce(
        self,
        namesrv: str,
        topic: str,
        n: int,
        *,
        java_options: str = "",
        timeout: float = PATIENCE_SECONDS,
        **named: Any,
    ) -> list[Row]:
        """Sends ``n`` messages and returns the ``sent`` rows; PeerError when a send failed.

        All producers share one JVM, except those with ``java_options`` of their own.
        """
        flags = options(namesrv=namesrv, topic=topic, n=n, **named)
        if java_options:
            process = self.start("produce", *flags, java_options=java_options)
            rows, status = list(process.rows(timeout)), process.wait(timeout)
        else:
            process = self._shell_process()
            rows = self._run("produce", *flags, timeout=timeout)
            status = rows[-1]["status"]
        if status != 0:
            raise process.error(f"failed: {[row for row in rows if row['type'] in ('error', 'answer')][:3]}")
        return [row for row in rows if row["type"] in ("sent", "reply")]

    def consumer(self, namesrv: str, topic: str, group: str, *, java_options: str = "", **named: Any) -> JavaProcess:
        """A Java consumer in the background, returned once it has started; read its ``rows()`` or ``until()``."""
        named.setdefault("timeout", int(PATIENCE_SECONDS))
        args = options(namesrv=namesrv, topic=topic, group=group, **named)
        process = self.start("consume", *args, java_options=java_options)
        process.until(lambda row: row["type"] == "ready", START_SECONDS)
        return process

    def consume(
        self, namesrv: str, topic: str, group: str, n: int, *, timeout: float = PATIENCE_SECONDS, **named: Any
    ) -> list[Row]:
        """The first ``n`` deliveries (at least) to a new Java consumer; PeerError when they do not all come.

        It runs in the JVM of the producers, except with ``java_options`` of its own: nothing else can be asked of that
        one until all have come.
        """
        if "java_options" in named:
            process = self.consumer(namesrv, topic, group, n=n, timeout=int(timeout), **named)
            rows, status = list(process.rows(timeout + 30)), process.wait(30)
        else:
            flags = options(namesrv=namesrv, topic=topic, group=group, n=n, timeout=int(timeout), **named)
            process = self._shell_process()
            rows = self._run("consume", *flags, timeout=timeout + 30)
            status = rows[-1]["status"]
        received = [row for row in rows if row["type"] == "msg"]
        if status != 0:
            raise process.error(f"got {len(received)} of {n} messages {rows[-1].get('text', '')}")
        return received

    def admin(self, *args: str, timeout: float = PATIENCE_SECONDS) -> str:
        """What mqadmin prints. All commands share one JVM.

        :raises PeerError: it failed, which it says as the text of an exception.
        """
        text = self.say_admin(*args, timeout=timeout)
        if "Exception" in text:
            raise PeerError(f"mqadmin {' '.join(args)} failed:\n{text[-3000:]}")
        return text

    def say_admin(self, *args: str, timeout: float = PATIENCE_SECONDS) -> str:
        """What mqadmin prints, exceptions included."""
        return str(self._run("admin", *args, timeout=timeout)[-1]["text"])

    def brokers(self, namesrv: str) -> set[str]:
        """The addresses a name server lists.

        A Java broker that has just started cannot tell its statistics yet; mqadmin prints that as an exception beside
        the list, which is of no interest here.
        """
        text = self.say_admin("clusterList", "-n", namesrv)
        return set(re.findall(r"^\S+ +\S+ +\d+ +(\d+(?:\.\d+){3}:\d+) ", text, re.MULTILINE))

    def _run(self, *words: str, timeout: float) -> list[Row]:
        """The rows of one command in the shell, its answer last."""
        if self.host is not None:
            return self.host._run(*words, timeout=timeout)
        with self._turn:
            shell = self._shell_process()
            shell.say("\t".join(words))
            try:
                return shell.until(lambda row: row["type"] == "answer", timeout)
            except PeerError:
                shell.kill()  # its answer would be taken for that of the next command
                self._shell = None
                raise

    def _shell_process(self) -> JavaProcess:
        if self.host is not None:
            return self.host._shell_process()
        if self._shell is None:
            self._shell = self.start("shell", level="OFF")  # a logger would write into the answers
            self._shell.until(lambda row: row["type"] == "ready", START_SECONDS)
        return self._shell

    def facts(self, verb: str, stdin: str = "") -> list[Row]:
        """The lines of ``peer facts table`` or, with base64 stored messages as ``stdin``, ``peer facts decode``."""
        done = subprocess.run([str(PEER), "facts", verb], input=stdin, capture_output=True, text=True, check=False,
                              timeout=START_SECONDS)  # fmt: skip
        if done.returncode != 0:
            raise PeerError(f"peer facts {verb} failed:\n{done.stderr[-3000:]}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    @property
    def count(self) -> int:
        """How many processes were started and not yet closed."""
        return len(self._running)

    def close(self, keep: int = 0) -> None:
        """Kills what was started, the latest first, except the first ``keep`` processes."""
        for process in reversed(self._running[keep:]):
            process.kill()
            if process is self._shell:
                self._shell = None
        del self._running[keep:]
