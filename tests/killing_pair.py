"""``kill -9`` of a master or its slave under load, again and again: ``python -m tests.killing_pair --rounds 100``.

The master is a SYNC_MASTER with SYNC_FLUSH and inSyncReplicas=2, so what it acknowledges is in both stores. Each round
kills one of them at a random moment. While the master is dead its slave is held against all that was acknowledged; in
the end both are. Knows what was acknowledged. Believes nothing a broker says about it: messages are pulled.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from rocketmq_py.aio import Admin
from rocketmq_py.errors import ConnectError, ConnectionLost
from rocketmq_py.namesrv import NameServer, NamesrvConfig
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.verify import verify
from rocketmq_py.wire.command import Command
from tests import killing
from tests.interop.javapeer import free_port_block
from tests.killing import QUEUES, SECONDS, TOPICS, Queue, ask, body, queues, read_everything, send_command

PRODUCERS = 6
_TOPIC_SECONDS = 240.0
"""A Java slave takes topics over every minute."""
SETTINGS = killing.SETTINGS | {"inSyncReplicas": 2, "slaveTimeout": 60_000, "slaveReadEnable": "true"}


class Member:
    """One of the two, as a process."""

    is_ours = True
    """Whether the files it leaves are ours to answer for."""

    def __init__(self, work: Path, name: str, namesrv: str, *flags: str, **settings: object) -> None:
        self.store = work / name
        self.log = work / f"{name}.log"
        pairs = [word for key, value in {**SETTINGS, **settings}.items() for word in ("--set", f"{key}={value}")]
        self._command = [
            sys.executable, "-m", "rocketmq_py.cli", "serve", "--store", str(self.store), "--port", "0",
            "--namesrv", namesrv, *flags, *pairs,
        ]  # fmt: skip
        self.address = ""

    async def start(self) -> None:
        """Start it, again or for the first time, and wait until it serves."""
        self._process = self._launch()
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        assert line.startswith("READY"), f"{line!r} instead of READY\n{self.log.read_text()[-3000:]}"
        self.address = dict(pair.split("=", 1) for pair in line.split()[1:])["broker"]

    def _launch(self) -> subprocess.Popen[str]:
        with self.log.open("ab") as log:
            return subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)

    def end(self, number: int) -> int:
        """End it by a signal; its exit status."""
        self._process.send_signal(number)
        status = self._process.wait(SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status


class Load:
    """Producers on the master, until it is gone or they are told to stop."""

    def __init__(self, address: str, rounds: PairRounds) -> None:
        self._address = address
        self._rounds = rounds
        self.progress = asyncio.Event()
        self.is_over = False

    async def run(self) -> None:
        caller = RpcClient()
        try:
            await asyncio.gather(*(self._produce(caller, queues()[i % len(queues())]) for i in range(PRODUCERS)))
        finally:
            caller.close()

    async def _produce(self, caller: RpcClient, queue: Queue) -> None:
        rounds = self._rounds
        while not self.is_over:
            number = rounds.next_number
            rounds.next_number += 1
            try:
                answer = await ask(caller, self._address, send_command(*queue, body(number), keys=f"k{number}"))
            except (ConnectionLost, ConnectError):
                return
            assert answer.code in (ResponseCode.SUCCESS, ResponseCode.FLUSH_SLAVE_TIMEOUT), answer
            if answer.code == ResponseCode.SUCCESS:
                place = queue, int(answer.ext["queueOffset"])
                assert place not in rounds.acknowledged, f"{place} was given twice"
                rounds.acknowledged[place] = number
                self.progress.set()

    async def writes_again(self) -> None:
        """Until something more has been acknowledged."""
        self.progress.clear()
        async with asyncio.timeout(SECONDS):
            await self.progress.wait()


class PairRounds:
    """Rounds on one pair of stores.

    :param work: a directory of its own.
    """

    member_type: type[Member] = Member
    settings: Mapping[str, object] = MappingProxyType({})
    """Of both members, beside the usual ones."""

    def __init__(self, work: Path, seed: int) -> None:
        self._work = work
        self._chance = random.Random(seed)
        self.acknowledged: dict[tuple[Queue, int], int] = {}
        """What was acknowledged, by queue and offset."""
        self.next_number = 0
        self.kills: Counter[str] = Counter()

    async def run(self, count: int) -> None:
        """So many kills; then both end in good order, and have the same."""
        namesrv = NameServer(NamesrvConfig(listen_port=0, bind_address="127.0.0.1"))
        await namesrv.start()
        port = free_port_block()
        self.master = self.make_master(namesrv.address, port)
        self.slave = self.make_slave(namesrv.address, port)
        try:
            await self.master.start()
            async with Admin(namesrv.address) as admin:
                for topic in TOPICS:
                    await admin.create_topic(topic, QUEUES)
            await self.slave.start()
            for _ in range(count):
                await self._round(self.victim())
            await self._finish()
        finally:
            await namesrv.stop()

    def told(self, seconds: float) -> str:
        """What rounds came to that nothing was against."""
        kills = ", ".join(f"{count} of the {name}" for name, count in sorted(self.kills.items()))
        return f"kills: {kills}; {len(self.acknowledged)} acknowledged messages, none lost, in {seconds:.0f} s"

    def make_master(self, namesrv: str, ha_port: int) -> Member:
        return self.member_type(
            self._work, "master", namesrv, "--role", "SYNC_MASTER", haListenPort=ha_port, **self.settings
        )

    def make_slave(self, namesrv: str, ha_port: int) -> Member:
        return self.member_type(
            self._work, "slave", namesrv, "--role", "SLAVE", "--id", "1", haMasterAddress=f"127.0.0.1:{ha_port}",
            slaveSyncInterval=200, **self.settings,
        )  # fmt: skip

    def victim(self) -> str:
        """Who is killed next, ``master`` or ``slave``."""
        return self._chance.choice(("master", "slave"))

    async def _round(self, victim: str) -> None:
        load = Load(self.master.address, self)
        running = asyncio.create_task(load.run())
        await load.writes_again()
        await asyncio.sleep(self._chance.uniform(0, 0.3))
        self.kills[victim] += 1
        if victim == "slave":
            self.slave.end(signal.SIGKILL)
            await self.slave.start()
            await load.writes_again()
            load.is_over = True
            await running
        else:
            await self._slave_knows_the_topics()
            self.master.end(signal.SIGKILL)
            await running
            await self.check(self.slave)
            await self.master.start()

    async def _slave_knows_the_topics(self) -> None:
        """It takes them over from time to time, and nobody reads a topic of it before."""
        caller = RpcClient()
        try:
            async with asyncio.timeout(_TOPIC_SECONDS):
                for topic in TOPICS:
                    command = Command(RequestCode.GET_TOPIC_CONFIG, ext={"topic": topic})
                    while (await ask(caller, self.slave.address, command)).code != 0:  # noqa: ASYNC110 - nobody tells
                        await asyncio.sleep(0.05)
        finally:
            caller.close()

    async def _finish(self) -> None:
        load = Load(self.master.address, self)
        running = asyncio.create_task(load.run())
        await load.writes_again()
        load.is_over = True
        await running
        for member in (self.master, self.slave):
            await self.check(member)
        for member in (self.slave, self.master):
            assert member.end(signal.SIGTERM) == 0, member.log.read_text()[-3000:]
            if member.is_ours:
                with OfflineStore(member.store) as store:
                    report = verify(store)
                assert report.is_valid, report.findings.listed()
        if self.slave.is_ours:  # a Java slave that was killed may believe half a record
            self._compare_logs()

    def _compare_logs(self) -> None:
        for log in (self.slave.store / "commitlog").iterdir():
            theirs = (self.master.store / "commitlog" / log.name).read_bytes()
            if self.master.is_ours:
                assert log.read_bytes() == theirs, log.name
            else:  # what a Java master had begun when it was killed may lie behind its end
                assert theirs.startswith(log.read_bytes().rstrip(b"\0")), log.name

    async def check(self, member: Member) -> None:
        """All that was acknowledged is there, at its place; readers of a slave may see it a moment later."""
        async with asyncio.timeout(SECONDS):
            while missing := self._missing(await read_everything(member.address)):
                assert member is self.slave, f"lost by the master: {missing}"
                await asyncio.sleep(0.05)

    def _missing(self, found: dict[Queue, dict[int, int]]) -> dict[tuple[Queue, int], int]:
        return {
            (queue, offset): number for (queue, offset), number in self.acknowledged.items()
            if found[queue].get(offset) != number
        }  # fmt: skip


def main(kind: Callable[[Path, int], PairRounds], description: str, count: int) -> None:
    """Run the command line of a kind of rounds.

    :param count: number of rounds unless told otherwise.
    """
    parser = argparse.ArgumentParser(description=description.partition(":")[0])
    parser.add_argument("--rounds", type=int, default=count)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="killing-", ignore_cleanup_errors=True) as work:
        rounds = kind(Path(work), arguments.seed)
        print(f"{arguments.rounds} rounds in {work}, seed {arguments.seed}", flush=True)
        asyncio.run(rounds.run(arguments.rounds))
    print(rounds.told(time.monotonic() - begin))


if __name__ == "__main__":
    main(PairRounds, __doc__, 100)
