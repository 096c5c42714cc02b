"""Runs a program of ``clients`` against a cluster and collects what it says and what our own consumer reads of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rocketmq_py import Admin, ConsumeFromWhere, Message, MessageQueue, Producer, PushConsumer
from rocketmq_py.model import MessageExt
from tests.interop import foreign_builds
from tests.interop.foreign_builds import PROGRAMS, Builder
from tests.interop.foreign_modes import (
    BROADCASTS,
    FED_BY_US,
    INPUTS,
    JUDGES,
    READ_BY_US,
    Judge,
    Row,
    mostly_delivered_again,
    verdicts,
)  # fmt: skip

RESULTS = PROGRAMS / "results.toml"
QUEUES = 4
BROKER = "broker-a"
END_SECONDS = 15.0
TOOLS = {"java": ("java", "mvn"), "cpp": (), "node": ("node", "npm"), "go": ("go",), "rust": ("cargo",)}


def lacking(program: str) -> str | None:
    """Why programs in a language cannot be built here, or None."""
    absent = [tool for tool in TOOLS[program] if shutil.which(tool) is None]
    return f"not on PATH: {', '.join(absent)}" if absent else None


@dataclass(frozen=True, slots=True)
class Client:
    """A line of results.toml: a version of a client, and what was seen of each mode.

    ``modes`` has an empty text for a mode that works and a reason for one that does not; what the client does not offer
    is not there. ``quick`` clients are part of every run of the tests. Modes ``apart`` run in a process
    of their own, since they disturb the others. A client that ``asks_once`` does not repeat a request for another
    delivery that failed, so that the message comes again only after its next start.
    """

    language: str
    package: str
    version: str
    modes: dict[str, str]
    quick: bool = False
    program: str = ""
    apart: tuple[str, ...] = ()
    asks_once: bool = False

    @property
    def judges(self) -> dict[str, Judge]:
        return JUDGES | ({"retry": mostly_delivered_again} if self.asks_once else {})

    @property
    def name(self) -> str:
        short = self.package.removesuffix("/v2").rpartition("/")[2].rpartition(":")[2]
        return f"{short}-{self.version}"

    def missing(self) -> str | None:
        """Why the program cannot be built here, or None."""
        return lacking(self.program)

    def command(self) -> list[str]:
        builder: Builder = getattr(foreign_builds, self.program)
        return builder(self.package, self.version)


def clients() -> list[Client]:
    return [Client(**one) for one in tomllib.loads(RESULTS.read_text())["client"]]


class Run:
    """One program with one cluster. Use as a context manager; leaving ends the program.

    :param prefix: of the names of all topics and groups of the run.
    """

    def __init__(self, client: Client, namesrv: str, prefix: str, work: Path) -> None:
        self.client = client
        self.modes = tuple(client.modes)
        self.rows: list[Row] = []
        self._changed = threading.Condition()
        self._namesrv = namesrv
        self._prefix = prefix
        self._work = work
        self._log = work / f"{client.name}.log"
        self._more = 0
        self._processes: list[tuple[subprocess.Popen[str], threading.Thread]] = []

    @property
    def before_restart(self) -> tuple[str, ...]:
        return tuple(mode for mode in self.modes if mode != "steady")

    def __enter__(self) -> Self:
        command = self.client.command()
        with Admin(self._namesrv) as admin:
            for mode in self.modes:
                admin.create_topic(self._topic(mode), queues=QUEUES)
        self._producer = Producer(group=f"{self._prefix}-inputs", namesrv=self._namesrv, send_timeout=30)
        self._producer.start()
        self._reader = PushConsumer(
            group=f"{self._prefix}-reader", namesrv=self._namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET
        )
        for mode in self.modes:
            if mode in READ_BY_US:
                self._reader.subscribe(self._topic(mode), listener=self._stored)
            if mode in FED_BY_US:
                self._feed(mode)
        if any(mode in READ_BY_US for mode in self.modes):
            self._reader.start()
        home = self._work / "home"
        home.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {
            "HOME": str(home),
            "JAVA_TOOL_OPTIONS": f"-Duser.home={home}",
            "NODE_ENV": "production",
        }
        together = [mode for mode in self.modes if mode not in self.client.apart]
        for modes in [together, *([mode] for mode in self.client.apart)]:
            self._start([*command, self._namesrv, self._prefix, *modes], environment, home)
        return self

    def _start(self, command: list[str], environment: dict[str, str], home: Path) -> None:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=home,
                text=True, start_new_session=True,
            )  # fmt: skip
        lines = threading.Thread(target=self._read_lines, args=[process], daemon=True)
        lines.start()
        self._processes.append((process, lines))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()
        self._producer.close()
        for process, lines in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            lines.join()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def _topic(self, mode: str) -> str:
        return f"{self._prefix}-{mode}"

    def _feed(self, mode: str) -> None:
        for body, tag, key in INPUTS:
            queue = MessageQueue(self._topic(mode), BROKER, int(body) % QUEUES)
            self._producer.send(Message(queue.topic, body, tags=tag, keys=key, properties={"a": body}), queue)

    def _stored(self, message: MessageExt) -> None:
        self.add({
            "mode": message.topic.removeprefix(f"{self._prefix}-"), "kind": "stored", "body": message.body.decode(),
            "tags": message.tags, "keys": message.keys, "queue": message.queue_id, "offset": message.queue_offset,
            "late": message.store_timestamp - message.born_timestamp,
        })  # fmt: skip

    def _read_lines(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith('{"'):
                self.add(json.loads(line))

    def add(self, row: Row) -> None:
        with self._changed:
            self.rows.append(row)
            self._changed.notify_all()

    def wait(self, wanted: Callable[[list[Row]], Any], seconds: float) -> bool:
        """Whether the rows became as wanted in time; while it waits, consumers that broadcast get more messages."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not wanted(self.rows):
                if time.monotonic() > deadline:
                    return False
                self._changed.wait(0.5)
                self._broadcast()
        return True

    def _broadcast(self) -> None:
        """One more message: a consumer that broadcasts begins where it finds the end of its queues."""
        if "broadcast" in self.modes and self._more < 20 * BROADCASTS:
            self._more += 1
            self._producer.send_oneway(Message(self._topic("broadcast"), str(self._more)))

    def verdicts(self, modes: tuple[str, ...], seconds: float) -> dict[str, str]:
        """What each mode lacks, once nothing lacks what is known to work, or after ``seconds``."""
        working = tuple(mode for mode in modes if not self.client.modes[mode])
        judges = self.client.judges
        self.wait(lambda rows: not any(verdicts(rows, working, judges).values()), seconds)
        with self._changed:
            return verdicts(self.rows, modes, judges)

    def end(self) -> None:
        """Asks the programs to close their clients, which need not work: some fail in their own destructors."""
        for process, _ in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process, _ in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]
