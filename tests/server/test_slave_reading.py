"""Our master and our slave as processes, one of them killed: consumers go on, from the slave or from the master."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.javapeer import free_port_block
from tests.interop.ours import OurServer, OurServers
from tests.replicas import FIRST, Inbox, N, Nodes, consumer, reading_outlives_the_master, send, topic_on_all


class Pair:
    """A name server, a master and a slave."""

    def __init__(self, work: Path) -> None:
        self._servers, self._work, self._port = OurServers(work), work, str(free_port_block())
        self.namesrv = self._servers.namesrv().namesrv
        self.master = self._start_master()
        self.slave = self._start("slave", "0", "--role", "SLAVE", "--id", "1", slaveSyncInterval=200)

    def _start(self, store: str, port: str, *flags: str, **settings: Any) -> OurServer:
        more = ("--namesrv", self.namesrv, "--name", "broker-a", "--port", port, *flags)
        return self._servers.serve(self._work / store, *more, slaveReadEnable="true", **settings)

    def _start_master(self) -> OurServer:
        return self._start("master", self._port)

    def kill_master(self) -> None:
        self.master.kill()

    def restart_master(self) -> None:
        self.master = self._start_master()

    def close(self) -> None:
        self._servers.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


async def test_consumers_continue_when_the_master_is_killed(pair: Pair) -> None:
    await topic_on_all(pair.namesrv, "t")
    await reading_outlives_the_master(Nodes(pair.namesrv, pair.kill_master, pair.restart_master), "t")


async def test_consumers_continue_when_the_slave_is_killed(pair: Pair) -> None:
    await topic_on_all(pair.namesrv, "t")
    await send(pair.namesrv, "t", 0, N)
    inbox = Inbox()
    async with consumer(pair.namesrv, "g", "t", inbox, orderly=False):
        await inbox.until(FIRST)
        pair.slave.kill()
        await inbox.let(N)
        await inbox.until(N)
        assert not inbox.repeats
