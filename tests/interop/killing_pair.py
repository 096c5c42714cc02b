"""``kill -9`` of a master and of its slave under load, one ours and one Java's: both have what was acknowledged."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.javapeer import JavaPeer, free_port_block
from tests.killing_pair import SETTINGS, Member, PairRounds

pytestmark = pytest.mark.long

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

    def __init__(self, work: Path, java: JavaPeer, *, java_master: bool) -> None:
        super().__init__(work, seed=5)
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


@pytest.fixture
def own_java(tmp_path: Path) -> Iterator[JavaPeer]:
    """Whose servers end with the test."""
    JavaPeer.build()
    peer = JavaPeer(tmp_path)
    yield peer
    peer.close()


@pytest.mark.parametrize("java_master", [False, True], ids=["java slave", "java master"])
def test_what_was_acknowledged_outlives_kills_of_either(own_java: JavaPeer, tmp_path: Path, java_master: bool) -> None:
    rounds = MixedRounds(tmp_path, own_java, java_master=java_master)
    asyncio.run(rounds.run(2))
    assert rounds.kills == {"slave": 1, "master": 1}
    assert len(rounds.acknowledged) > 4
