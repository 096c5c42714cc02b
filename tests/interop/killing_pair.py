"""``kill -9`` of a master and its slave in turn under load, one ours and one Java's: both keep acknowledged messages.

``python -m tests.interop.killing_pair --java slave --rounds 10``.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.interop.javapeer import JavaPeer, free_port_block
from tests.killing_pair import SETTINGS, Member, PairRounds

_PATIENT = {"brokerFastFailureEnable": "false", "osPageCacheBusyTimeOutMills": 60_000, "slaveTimeout": 30_000}
"""A slow broker refuses nothing, and a send that waits for a JVM is answered before its producer gives up."""


class JavaMember(Member):
    """One of the two, if it is Java's."""

    is_ours = False

    def __init__(self, java: JavaPeer, work: Path, name: str, namesrv: str, **settings: Any) -> None:
        super().__init__(work, name, namesrv)
        self._java = java
        self._namesrv = namesrv
        self._settings = settings
        self._port = free_port_block()

    async def start(self) -> None:
        self._server = await asyncio.to_thread(self._launch_java)
        self.log = self._server.process.log
        self.address = self._server.address

    def _launch_java(self) -> Any:
        named = {key: self._settings[key] for key in ("role", "id") if key in self._settings}
        others = {key: value for key, value in self._settings.items() if key not in named}
        conf = {**SETTINGS, **_PATIENT, **others}
        return self._java.broker(self._namesrv, store=self.store, port=self._port, conf=conf, **named)

    def end(self, number: int) -> int:
        if number == signal.SIGKILL:
            self._server.process.kill()
            return -signal.SIGKILL
        self._server.process.stop()
        return 0


class MixedRounds(PairRounds):
    """Rounds on a pair one of which is Java's; each of the two is killed in turn."""

    def __init__(self, work: Path, java: JavaPeer, *, java_master: bool, seed: int = 5) -> None:
        super().__init__(work, seed)
        self._java = java
        self._java_master = java_master

    def make_master(self, namesrv: str, ha_port: int) -> Member:
        if self._java_master:
            return JavaMember(self._java, self._work, "master", namesrv, role="SYNC_MASTER", haListenPort=ha_port)
        return Member(self._work, "master", namesrv, "--role", "SYNC_MASTER", haListenPort=ha_port, **_PATIENT)

    def make_slave(self, namesrv: str, ha_port: int) -> Member:
        if self._java_master:
            return super().make_slave(namesrv, ha_port)
        return JavaMember(self._java, self._work, "slave", namesrv, role="SLAVE", id=1)

    def victim(self) -> str:
        return ("slave", "master")[self.kills.total() % 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--java", choices=("master", "slave"), required=True, help="which of the two is Java's")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    begin = time.monotonic()
    JavaPeer.build()
    with tempfile.TemporaryDirectory(prefix="killing-pair-", ignore_cleanup_errors=True) as work:
        print(f"{arguments.rounds} rounds in {work}, seed {arguments.seed}", flush=True)
        java = JavaPeer(Path(work))
        try:
            rounds = MixedRounds(Path(work), java, java_master=arguments.java == "master", seed=arguments.seed)
            asyncio.run(rounds.run(arguments.rounds))
        finally:
            java.close()
    print(rounds.told(time.monotonic() - begin))


if __name__ == "__main__":
    main()
