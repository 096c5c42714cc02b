"""Our broker or Java's on a prepared store, and measurements of its process."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.errors import BenchError
from benchmarks.machine import anonymous_mib, cpu_seconds
from benchmarks.servers import JAVA_SETTINGS, start_ours
from tests.interop.javapeer import JavaPeer

Side = Literal["ours", "java"]
_STOP_SECONDS = 300.0

SETTINGS = {"waitTimeMillsInSendQueue": "10000", "osPageCacheBusyTimeOutMills": "10000"}
"""Settings of our broker against refused sends, which have no waiting time; Java brokers always have them here."""


@dataclass(slots=True)
class Running:
    """A running broker.

    :param start_seconds: time from the command until it is ready; a Java broker's name server is started before.
    :param log: the file of its log; None for Java's.
    """

    broker: str
    pid: int
    start_seconds: float
    log: Path | None = None

    @property
    def memory_mib(self) -> float:
        return anonymous_mib(self.pid)

    @property
    def descriptors(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def cpu_at_rest(self, seconds: float) -> float:
        """Wait without sending requests; return the part of a core that the broker uses, 1.0 for a full core."""
        before = cpu_seconds(self.pid)
        time.sleep(seconds)
        return (cpu_seconds(self.pid) - before) / seconds

    def stop(self) -> float:
        """Shut the broker down (SIGTERM) and return the seconds that this takes.

        :raises BenchError: the broker still runs after five minutes.
        """
        handle = os.pidfd_open(self.pid)
        begin = time.monotonic()
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        ended, _, _ = select.select([handle], [], [], _STOP_SECONDS)
        os.close(handle)
        if not ended:
            raise BenchError(f"the broker at {self.broker} did not stop within {_STOP_SECONDS:g} s")
        return time.monotonic() - begin


@contextmanager
def running(side: Side, work: Path, prepare: Callable[[Path], None]) -> Iterator[Running]:
    """Run a broker during the block; kill it afterwards if it still runs.

    :param prepare: writes files into the store directory before the broker starts.
    """
    start = _ours if side == "ours" else _java
    with start(work, prepare) as server:
        yield server


@contextmanager
def _ours(work: Path, prepare: Callable[[Path], None]) -> Iterator[Running]:
    prepare(work / "ours")
    begin = time.monotonic()
    server = start_ours(work, SETTINGS)
    try:
        yield Running(server.broker, server.pid, time.monotonic() - begin, work / "ours.log")
    finally:
        server.kill()


@contextmanager
def _java(work: Path, prepare: Callable[[Path], None]) -> Iterator[Running]:
    prepare(work / "java")
    peer = JavaPeer(work, stock=True)
    try:
        namesrv = peer.namesrv()
        begin = time.monotonic()
        broker = peer.broker(namesrv.address, store=work / "java", conf=JAVA_SETTINGS)
        yield Running(broker.address, broker.process.pid, time.monotonic() - begin)
    finally:
        peer.close()
