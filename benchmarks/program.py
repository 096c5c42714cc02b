"""Child processes that communicate by lines: servers that print READY, clients that measure one run per line of stdin.

What is measured is not part of this module.
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
    """A running child process, whose stdout is read by lines. A context manager that kills it at the end.

    A thread reads all of its stdout at once, so that it never blocks because nobody reads its output.

    :param command: program and arguments.
    :param log: file to which its stderr is appended; the end of this file is part of every error.
    :param environment: environment variables of the process; None for those of this process.
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
        """Wait for the next line of its stdout and return it.

        :raises BenchError: the process ended, or printed nothing for ``timeout`` seconds.
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
        """Wait for the next line, which must start with READY, and return the rest of the line."""
        line = self.line(timeout)
        if not line.startswith("READY"):
            raise self.error(f"said {line!r} instead of READY")
        return line.removeprefix("READY").strip()

    def row(self, kind: str, timeout: float) -> dict[str, Any]:
        """Wait for the next line and return it, decoded from JSON; its ``type`` must be ``kind``."""
        row: dict[str, Any] = json.loads(self.line(timeout))
        if row.get("type") != kind:
            raise self.error(f"said {row} instead of a line of type {kind}")
        return row

    def tell(self, line: str) -> None:
        """Write a line to its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def wait(self, timeout: float) -> None:
        """Wait until the process has ended.

        :param timeout: seconds.
        :raises BenchError: it still runs after them.
        """
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise self.error(f"still runs after {timeout:.0f} s") from None

    def kill(self) -> None:
        """Kill the process and its children; no effect if it has ended already."""
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
        """Start a measured run by writing the line ``what`` to the program's stdin, and return the run's row."""
        if not self._fresh:
            self.program.row("waiting", self._run_timeout)
        self._fresh = False
        self.program.tell(what)
        return self.program.row("run", self._run_timeout)
