"""A pair whose brokers end in the middle of a rebuild: ``python -m tests.killing_rebuild --rounds 12``.

As ``tests.killing_pair``, but each round also takes queue files or the index from the member it has killed, and starts
it so that the rebuild stands still in the middle of the log. It is loaded, killed there (or stopped) and started once
more; then its rebuild ends, and it is held against all that was acknowledged.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
from collections import Counter
from pathlib import Path
from types import MappingProxyType

from tests.killing import SECONDS, TOPICS, rebuild_progress
from tests.killing_pair import Load, Member, PairRounds, main
from tests.server.held_broker import PART_BYTES, PARTS

LOSSES = ("file", "queue", "all queues", "index", "queue and index", "all queues and index")


class HeldMember(Member):
    """A member that can be started so that a rebuild reads the first parts of the log, and then waits."""

    async def start_held(self) -> None:
        usual, self._command = self._command, [*self._command]
        self._command[self._command.index("rocketmq_py.cli")] = "tests.server.held_broker"
        try:
            await self.start()
        finally:
            self._command = usual

    def lose(self, what: str, chance: random.Random) -> None:
        """Lose files that can be rebuilt from the log."""
        queues = self.store / "consumequeue"
        files = sorted(path for topic in TOPICS for path in (queues / topic).rglob("*") if path.is_file())
        if "index" in what:
            shutil.rmtree(self.store / "index", ignore_errors=True)
        if "all queues" in what:
            shutil.rmtree(queues, ignore_errors=True)
        elif what != "index" and files:  # a queue that was rebuilt just now may have none yet
            file = chance.choice(files)
            if what == "file":
                file.unlink()
            else:
                shutil.rmtree(file.parent)

    async def is_held(self) -> bool:
        """Wait until a rebuild stands still; False if there is none."""
        async with asyncio.timeout(SECONDS):
            while True:
                done, left = await rebuild_progress(self.address)
                if not left or done >= (PARTS - 1) * PART_BYTES:
                    return left > 0
                await asyncio.sleep(0.02)

    async def rebuilt(self) -> None:
        """Wait until a rebuild has ended."""
        async with asyncio.timeout(SECONDS):
            while (await rebuild_progress(self.address))[1]:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.02)


class RebuildRounds(PairRounds):
    """Rounds on one pair of stores."""

    member_type = HeldMember
    settings = MappingProxyType({"rebuildBytesBeforeStart": 0})

    def __init__(self, work: Path, seed: int) -> None:
        super().__init__(work, seed)
        self.ends: Counter[str] = Counter()
        """How often a member was ended in the middle of a rebuild, and how."""

    async def _round(self, victim: str) -> None:
        await super()._round(victim)
        member = self.master if victim == "master" else self.slave
        assert isinstance(member, HeldMember)
        await self._write(self.master)
        member.end(signal.SIGKILL)
        member.lose(self._chance.choice(LOSSES), self._chance)
        await member.start_held()
        await self._write(self.master)
        is_held = await member.is_held()
        how = self._chance.choice(("killed", "killed", "stopped"))
        if victim == "master" and how == "killed":
            await self._write_until_killed(member)
        else:
            member.end(signal.SIGKILL if how == "killed" else signal.SIGTERM)
        self.ends[f"{victim} {how}"] += is_held
        await member.start()
        await member.rebuilt()
        await self._write(self.master)
        await self.check(member)

    async def _write(self, member: Member) -> None:
        """Write until something more has been acknowledged."""
        load = Load(member.address, self)
        running = asyncio.create_task(load.run())
        await load.writes_again()
        load.is_over = True
        await running

    async def _write_until_killed(self, member: Member) -> None:
        load = Load(member.address, self)
        running = asyncio.create_task(load.run())
        await load.writes_again()
        member.end(signal.SIGKILL)
        await running

    def told(self, seconds: float) -> str:
        ends = ", ".join(f"{name} {count} times" for name, count in sorted(self.ends.items()))
        return f"{super().told(seconds)}; in the middle of a rebuild: {ends}"


if __name__ == "__main__":
    main(RebuildRounds, __doc__, 12)
