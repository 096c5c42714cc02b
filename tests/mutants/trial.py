"""Runs tests on a copy of the sources, with a fault or without: the working tree stays as it is."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.mutants.faults import Fault
from tests.mutants.queued import queued_seconds
from tests.side_by_side import QUICK_START

PYTEST = (sys.executable, "-m", "pytest", "-q", "--hypothesis-profile", "quick", "-p", "no:cacheprovider")
NOTHING_RAN = 5
"""pytest's status when no test was collected or all were deselected."""
LONGEST = 600.0
"""Seconds a recording of a part of the tests takes at most for each of its files."""


class Bench:
    """A copy of ``src`` in a directory of its own, ``folder``; one trial at a time."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root, self._folder = root, folder
        self._process: subprocess.Popen[bytes] | None = None
        self.source = folder / "src"
        shutil.copytree(root / "src", self.source, dirs_exist_ok=True)

    def notices(self, file: str, fault: Fault, tests: list[str], seconds: float) -> bool | None:
        """Whether one of the tests fails with the fault in ``file``; None if they have not ended after ``seconds``."""
        path = self.source / file
        sound = path.read_bytes()
        compiled = Path(py_compile.compile(str(path), doraise=True) or "")
        try:
            compiled.unlink()  # its time stamp may be that of the faulty file
            path.write_bytes(fault.apply(sound))
            status = self._pytest(["-x"], tests, {}, seconds)
        finally:
            path.write_bytes(sound)
        if status == NOTHING_RAN:
            raise RuntimeError(f"no test ran for {file}:{fault.line}: {tests[:3]}")
        return None if status is None else status != 0

    def record(self, tests: list[str]) -> dict[str, Any]:
        """What the recorder says about these test files. Tests that fail are left out of it."""
        file = self._folder / "record.json"
        file.unlink(missing_ok=True)
        extra = {"MUTANTS_RECORD": str(file), "MUTANTS_SOURCE": str(self.source / "rocketmq_py")}
        status = self._pytest(["-p", "tests.mutants.recorder"], tests, extra, LONGEST * len(tests))
        if status not in (0, 1, NOTHING_RAN) or not file.exists():
            raise RuntimeError(f"pytest ended with {status}:\n{self._tail()}")
        recorded: dict[str, Any] = json.loads(file.read_text())
        return recorded

    def _pytest(self, options: list[str], tests: list[str], extra: dict[str, str], seconds: float) -> int | None:
        """The status of pytest, None when it took longer. Thousands of tests do not fit into a command line."""
        names = self._folder / "tests.txt"
        names.write_text("\n".join(tests))
        environment = {**os.environ, **QUICK_START, "PYTHONPATH": str(self.source), "PYTHONDONTWRITEBYTECODE": "1"}
        with (self._folder / "output.txt").open("wb") as output:
            process = self._process = subprocess.Popen(
                [*PYTEST, *options, "--basetemp", str(self._folder / "tmp"), f"@{names}"],
                cwd=self._root,
                env=environment | extra,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return ended(process, seconds)
            finally:
                _end(process)

    def interrupt(self) -> None:
        """End the tests that run, because nobody wants to know any more."""
        if self._process is not None and self._process.poll() is None:
            _end(self._process)

    def _tail(self) -> str:
        return (self._folder / "output.txt").read_text(errors="replace")[-2000:]


def ended(
    process: subprocess.Popen[bytes], seconds: float, clock: Callable[[], float] = time.monotonic,
) -> int | None:  # fmt: skip
    """The status of a process; None if it has not ended after ``seconds``.

    Time in which it waits for a processor does not count: on a busy machine every fault would seem to be noticed.
    """
    begin, left = clock(), seconds
    while left > 0:
        try:
            return process.wait(left)
        except subprocess.TimeoutExpired:
            left = seconds - (clock() - begin - queued_seconds(process.pid))
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the tests and what they started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def memory() -> str | None:
    """A directory in memory where thousands of small files cost nothing, if there is room."""
    shared = Path("/dev/shm")
    room = shared.is_dir() and shutil.disk_usage(shared).free > 1 << 30
    return str(shared) if room else tempfile.gettempdir()
