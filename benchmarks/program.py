"""A child process that talks in lines: servers that say READY, clients that measure one run per line they are told.

Knows pipes and processes. Refuses to know what is measured.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from benchmarks.errors import BenchError

_TAIL = 3000
_END_SECONDS = 10.0


class Program:
    """One running child with its stdout as lines; stderr goes to ``log``. A context manager that kills it at the end.

    A thread takes its stdout as it comes: a server that says more than anybody reads must not get stuck in saying it.

    :param command: program and arguments.
    :param log: file its stderr is appended to; its end is part of every error.
    :param environment: instead of this process's own.
    """

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = " ".join(Path(word).name for word in command[:3])
        self.log = log
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                start_new_session=True, text=True, encoding="utf-8", env=environment,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name=f"reader of {self.name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self, timeout: float) -> str:
        """The next line of its stdout.

        :raises BenchError: it ended, or nothing came within ``timeout`` seconds.
        """
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise self.error(f"was silent for {timeout:.0f} s") from None
        if line is None:
            self._process.wait(_END_SECONDS)
            raise self.error("ended before its line")
        return line

    def ready(self, timeout: float = 60.0) -> str:
        """Waits for the line that starts with READY and gives what follows it."""
        line = self.line(timeout)
        if not line.startswith("READY"):
            raise self.error(f"said {line!r} instead of READY")
        return line.removeprefix("READY").strip()

    def row(self, kind: str, timeout: float) -> dict[str, Any]:
        """The next JSON line, which must be of this ``type``."""
        row: dict[str, Any] = json.loads(self.line(timeout))
        if row.get("type") != kind:
            raise self.error(f"said {row} instead of a line of type {kind}")
        return row

    def tell(self, line: str) -> None:
        """Sends a line to its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Ends the child and its children at once; harmless when it has ended already."""
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(_END_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def error(self, what: str) -> BenchError:
        tail = self.log.read_text(errors="replace")[-_TAIL:] if self.log.exists() else ""
        return BenchError(f"{self.name} (exit status {self._process.poll()}) {what}\n{tail}".rstrip())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Runner:
    """A client program that measures: it prints ``{"type": "waiting"}``, and after a line on stdin a run's row."""

    def __init__(self, program: Program, warm_timeout: float = 300.0, run_timeout: float = 180.0) -> None:
        self.program = program
        self._run_timeout = run_timeout
        program.row("waiting", warm_timeout)
        self._fresh = True

    def run(self, what: str = "") -> dict[str, Any]:
        """One measured run; ``what`` is the line it is told."""
        if not self._fresh:
            self.program.row("waiting", self._run_timeout)
        self._fresh = False
        self.program.tell(what)
        return self.program.row("run", self._run_timeout)
