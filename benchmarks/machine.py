"""What the kernel says about a process: CPU time, private memory; pausing it, waiting until it is quiet.

Linux only, as the peers' start scripts are.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CPU_CLOCK = 2
"""With a process's number above it, the id of that process's clock, as clock_getcpuclockid(3) makes it."""
_SAMPLE_SECONDS = 0.25
_END_SECONDS = 10.0


def cpu_seconds(pid: int) -> float:
    """User and system time a process has used since its start; a nanosecond is the unit, in /proc it would be 10 ms."""
    return time.clock_gettime(~pid << 3 | _CPU_CLOCK)


def anonymous_mib(pid: int) -> float:
    """Private memory of a process that no file backs, in MiB: mapped log files are the page cache's, not its own."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/{pid}/status has no RssAnon line; Linux 4.5 or newer is needed")


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = [task.joinpath("children").read_text().split() for task in Path(f"/proc/{pid}/task").iterdir()]
    return sorted(int(child) for each in found for child in each)


def end(pid: int) -> None:
    """End a process that is no child of this one at once, and wait for it."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [], _END_SECONDS)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def settle(pid: int, share: float = 0.25, timeout: float = 30.0) -> None:
    """Wait until a process uses less than ``share`` of a core, or ``timeout`` seconds at most.

    A JVM compiles and collects for a while after a load has ended; what follows should not be measured beside that.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        before = cpu_seconds(pid)
        time.sleep(_SAMPLE_SECONDS)
        if cpu_seconds(pid) - before < share * _SAMPLE_SECONDS:
            return


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """Stop a process for the time of the block: on two cores even an idle server would be measured with its rival."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def keep_to(cores: int, pid: int) -> None:
    """Let all threads of a process, and what they start from now on, have the first so many cores of this one's."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), allowed)
