"""Our own server as a user starts it: the ``rocketmq`` command in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interop.javapeer import PATIENT_CONF

READY = re.compile(r"READY namesrv=(\S+)(?: broker=(\S+))?")
START_SECONDS = 180.0
STOP_SECONDS = 240.0
LOG_FILE_BYTES = 64 << 20
"""Commit log files of this size on both sides, so that a Java broker can open our store and we its."""


@dataclass(slots=True)
class OurServer:
    """A running ``rocketmq`` command; the addresses are those of its READY line."""

    process: subprocess.Popen[str]
    namesrv: str
    broker: str
    log: Path

    def stop(self) -> None:
        """SIGTERM, and the exit status must be 0."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(STOP_SECONDS)
        self.close()
        assert status == 0, f"exit status {status}\n{self.log.read_text()[-3000:]}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()


@dataclass(slots=True)
class OurServers:
    """Starts servers in ``work`` and ends those that still run."""

    work: Path
    command: Sequence[str] = (str(Path(sys.executable).with_name("rocketmq")),)
    _running: list[OurServer] = field(default_factory=list)
    _started: int = 0

    def serve(self, store: Path | None = None, *flags: str, **settings: Any) -> OurServer:
        """A broker, and a name server unless ``flags`` name another; ``settings`` are keys of broker.conf."""
        store = store or self.work / f"store-{self._started + 1}"
        settings = {"mappedFileSizeCommitLog": LOG_FILE_BYTES, **PATIENT_CONF, **settings}
        pairs = [arg for key, value in settings.items() for arg in ("--set", f"{key}={value}")]
        return self._start("serve", "--store", str(store), "--namesrv-port", "0", "--port", "0", *flags, *pairs)

    def namesrv(self, *flags: str, **settings: Any) -> OurServer:
        """A name server alone; ``settings`` are keys of namesrv.conf."""
        settings = {"kvConfigPath": self.work / f"kv-{self._started + 1}.json", **settings}
        pairs = [arg for key, value in settings.items() for arg in ("--set", f"{key}={value}")]
        return self._start("namesrv", "--port", "0", *flags, *pairs)

    def _start(self, *args: str) -> OurServer:
        command = [*self.command, *args]
        self._started += 1
        log = self.work / f"{args[0]}-{self._started}.log"
        with log.open("wb") as stderr:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=os.environ.copy())
        match = READY.search(first_line(process))
        if match is None:
            process.kill()
            process.wait()
            raise RuntimeError(f"{' '.join(command)} is not READY:\n{log.read_text()[-3000:]}")
        server = OurServer(process, match[1], match[2] or "", log)
        self._running.append(server)
        return server

    @property
    def count(self) -> int:
        """How many servers were started and not yet closed."""
        return len(self._running)

    def close(self, keep: int = 0) -> None:
        """Kills the servers that still run, except the first ``keep`` ones."""
        for server in self._running[keep:]:
            if server.process.poll() is None:
                server.kill()
        del self._running[keep:]


def first_line(process: subprocess.Popen[str]) -> str:
    """The first line of stdout, or what came of it within the time to start."""
    assert process.stdout is not None
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.append(process.stdout.readline()), daemon=True)  # type: ignore[union-attr]
    reader.start()
    reader.join(START_SECONDS)
    return lines[0] if lines else ""
