"""CPU time and private memory of a process; pausing it, ending it, waiting until it is idle. Linux only."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CPU_CLOCK = 2
"""Lower bits of the id of a process's CPU clock, below the inverted process id, as in clock_getcpuclockid(3)."""
_SAMPLE_SECONDS = 0.25
_END_SECONDS = 10.0


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used since its start, in seconds, with a resolution of nanoseconds."""
    return time.clock_gettime(~pid << 3 | _CPU_CLOCK)


def anonymous_mib(pid: int) -> float:
    """Anonymous memory of a process in MiB, that is, without mapped files, which belong to the page cache."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/{pid}/status has no RssAnon line; Linux 4.5 or newer is needed")


def children(pid: int) -> list[int]:
    """Return the ids of a process's child processes, ascending."""
    found = [task.joinpath("children").read_text().split() for task in Path(f"/proc/{pid}/task").iterdir()]
    return sorted(int(child) for each in found for child in each)


def end(pid: int, how: signal.Signals = signal.SIGKILL) -> None:
    """Kill a process, which need not be a child of this one, and wait up to 10 s for its end.

    :param how: the signal; SIGTERM lets a broker close its store.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, how)
        select.select([handle], [], [], _END_SECONDS)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def settle(pid: int, share: float = 0.25, timeout: float = 30.0) -> None:
    """Wait until a process uses less than ``share`` of a core, at most ``timeout`` seconds.

    A JVM compiles and collects garbage for a while after a load has ended, which would disturb the next measurement.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        before = cpu_seconds(pid)
        time.sleep(_SAMPLE_SECONDS)
        if cpu_seconds(pid) - before < share * _SAMPLE_SECONDS:
            return


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """Pause a process (SIGSTOP) during the block: on two cores even an idle server disturbs other measurements."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def keep_to(cores: int, pid: int) -> None:
    """Restrict a process and its future children to the first ``cores`` of the cores that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), allowed)
