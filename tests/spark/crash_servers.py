"""The servers of :mod:`tests.spark.crashes`, ours or Java's: a broker that is killed and begins again on its store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from signal import SIGKILL
from typing import Protocol

from tests.interop.javapeer import JavaPeer, free_port_block
from tests.interop.ours import READY, first_line

SOON = {"transactionCheckInterval": 300, "transactionTimeOut": 200, "transactionOpBatchInterval": 100}
"""Settings of brokers: they soon ask what has become of a transaction."""
SECONDS = 600.0
"""Longer than a broker takes to die."""


class Server(Protocol):
    """A name server and a broker, always on the same ports and store.

    :ivar pid: the process that has the broker.
    """

    namesrv: str

    @property
    def pid(self) -> int: ...

    def is_dead(self) -> bool: ...

    def begin_again(self) -> None:
        """Wait for the broker's death, and start it once more."""
        ...

    def stop(self) -> None: ...


class OurServer:
    """Name server and broker of this project, in one process."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._ports = ("0", "0")
        self.namesrv = ""
        self._begin()

    def _begin(self) -> None:
        pairs = [word for key, value in SOON.items() for word in ("--set", f"{key}={value}")]
        ports = ["--namesrv-port", self._ports[0], "--port", self._ports[1]]
        with (self._work / "serve.log").open("ab") as log:
            command = [sys.executable, "-m", "rocketmq_py.cli", "serve", "--store", str(self._work / "store")]
            self._process = subprocess.Popen([*command, *ports, *pairs], stdout=subprocess.PIPE, stderr=log, text=True)
        found = READY.search(first_line(self._process))
        assert found is not None, (self._work / "serve.log").read_text()[-3000:]
        self.namesrv, broker = found[1], found[2]
        self._ports = (self.namesrv.rpartition(":")[2], broker.rpartition(":")[2])

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_dead(self) -> bool:
        return self._process.poll() is not None

    def begin_again(self) -> None:
        assert self._process.wait(SECONDS) == -SIGKILL
        self._close()
        self._begin()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()


class JavaServer:
    """Name server and broker of Apache RocketMQ; only the broker is killed."""

    def __init__(self, work: Path) -> None:
        (work / "java").mkdir()
        self._peer = JavaPeer(work / "java")
        self._store, self._port = work / "store", free_port_block()
        try:
            self.namesrv = self._peer.namesrv().address
            self._begin()
        except BaseException:
            self._peer.close()
            raise

    def _begin(self) -> None:
        self._process = self._peer.broker(self.namesrv, store=self._store, port=self._port, conf=SOON).process

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_dead(self) -> bool:
        return self._process.poll() is not None

    def begin_again(self) -> None:
        assert self._process.wait(SECONDS) == -SIGKILL
        self._begin()

    def stop(self) -> None:
        self._peer.close()
