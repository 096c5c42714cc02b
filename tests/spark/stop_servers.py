"""Clusters whose processes :mod:`tests.spark.stops` stops: a name server, a master and its slave, ours or Java's."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from rocketmq_py import Admin
from rocketmq_py.errors import RocketMQError
from tests.interop.javapeer import JavaPeer, free_port_block
from tests.interop.ours import READY, first_line

TOPIC = "stops"
QUEUES = 4
CATCH_UP_SECONDS = 240.0
"""Longer than anything takes; only a round that fails waits for it."""
FULL_TIME = "STOPS_FULL_TIME" in os.environ
"""Whether all timeouts are the defaults, and stops are as long as they are called."""
SERVER = {"slaveReadEnable": "true", "mappedFileSizeCommitLog": str(16 << 20)}
NAMESRV: dict[str, str] = {}
if not FULL_TIME:
    SERVER |= {
        "serverChannelMaxIdleTimeSeconds": "12", "brokerNotActiveTimeoutMillis": "2000",
        "sendHeartbeatTimeoutMillis": "500",
    }  # fmt: skip
    NAMESRV |= {"serverChannelMaxIdleTimeSeconds": "12", "scanNotActiveBrokerInterval": "500"}


@dataclass
class Servers:
    """A name server, a master and its slave; ``pids`` by role."""

    namesrv: str = ""
    pids: dict[str, int] = field(default_factory=dict)
    closing: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.close()


def settings_of(role: str, *, slave_reads: bool, acting: bool) -> dict[str, str]:
    """The keys of broker.conf for a master or a slave."""
    found = dict(SERVER)
    if slave_reads and role == "master":
        found["accessMessageInMemoryMaxRatio"] = "0"  # nothing counts as in memory: it suggests its slave
    if acting:
        found |= {"enableSlaveActingMaster": "true"}
        if role == "master":
            found |= {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
    return found


def our_servers(work: Path, *, slave_reads: bool, acting: bool) -> Servers:
    """Processes of this project."""
    servers = Servers()

    def start(role: str, *words: str, **settings: str) -> str:
        pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        with (work / f"{role}.log").open("ab") as log:
            command = [sys.executable, "-m", "rocketmq_py.cli", *words, *pairs]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        servers.closing.callback(_end, process)
        servers.pids[role] = process.pid
        found = READY.search(first_line(process))
        assert found is not None, (work / f"{role}.log").read_text()[-3000:]
        return found[1]

    names = NAMESRV | ({"supportActingMaster": "true"} if acting else {}) | {"kvConfigPath": str(work / "kv.json")}
    servers.namesrv = start("namesrv", "namesrv", "--port", "0", **names)
    for role, more in (("master", ()), ("slave", ("--role", "SLAVE", "--id", "1"))):
        words = ("serve", "--namesrv", servers.namesrv, "--port", "0", "--store", str(work / role), *more)
        settings = settings_of(role, slave_reads=slave_reads, acting=acting)
        start(role, *words, **settings)
        if role == "master":
            eventually(lambda: _create_topic(servers.namesrv))
    return servers


def java_servers(work: Path, *, slave_reads: bool, acting: bool) -> Servers:
    """Stock ones."""
    java = JavaPeer(work)
    servers = Servers()
    servers.closing.callback(java.close)
    names = {**NAMESRV, "supportActingMaster": str(acting).lower()}
    namesrv = java.namesrv(conf=names)
    servers.namesrv, servers.pids["namesrv"] = namesrv.address, namesrv.process.pid
    for role in ("master", "slave"):
        conf = settings_of(role, slave_reads=slave_reads, acting=acting)
        named: dict[str, Any] = {"role": conf.pop("brokerRole", "ASYNC_MASTER")}
        if role == "slave":
            named = {"role": "SLAVE", "id": 1}
        broker = java.broker(servers.namesrv, store=work / role, port=free_port_block(), conf=conf, **named)
        servers.pids[role] = broker.process.pid
        if role == "master":
            eventually(lambda: _create_topic(servers.namesrv))
    return servers


def _create_topic(namesrv: str) -> bool:
    with Admin(namesrv) as admin:
        admin.create_topic(TOPIC, QUEUES)
        return len(list(admin.queues(TOPIC))) == QUEUES


def eventually(look: Callable[[], bool], seconds: float = CATCH_UP_SECONDS) -> None:
    """:raises AssertionError: what is looked for does not come in time."""
    deadline, last = time.monotonic() + seconds, None
    while True:
        try:
            if look():
                return
        except RocketMQError as e:
            last = e
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s; the last error is {last}"
        time.sleep(0.1)


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGCONT)
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
