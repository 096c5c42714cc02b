"""A replica with the whole log, beside a broker whose store is damaged: what the check of the store takes from it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rocketmq_py.broker.ha.replicas import Replicas
from rocketmq_py.core.peer import Reply
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import InProcess
from tests.unit.broker.rpc import Others, reply

ADDRESS = "127.0.0.1:1"


class Replica:
    """The slave of a damaged master: it answers with the record at an offset of the log, if there is one.

    :param root: its store.
    """

    def __init__(self, root: Path) -> None:
        paths = sorted((root / "commitlog").iterdir())
        self._begin = int(paths[0].name)
        self._log = b"".join(path.read_bytes() for path in paths)

    def heal(self, running: InProcess) -> None:
        """Let a broker check its whole store once."""
        asyncio.run(self._heal(running))

    async def _heal(self, running: InProcess) -> None:
        services = running.services
        services.scrubber._replicas = Replicas(self._members, services.role, Others(self._answer), services.address)
        services.store.config.scrub_bytes_per_second = 1 << 30
        while not services.scrubber.counts.passes:
            running.now += 1_000
            services.scrubber.tick()
            while services.scrubber._work.runs:
                await asyncio.sleep(0)
                running.run_callbacks()
        services.store.config.scrub_bytes_per_second = 0

    async def _members(self) -> dict[int, str]:
        return {1: ADDRESS}

    def _answer(self, address: str, command: Command) -> Reply:
        assert address == ADDRESS
        at = int(command.ext["offset"]) - self._begin
        size = int.from_bytes(self._log[at : at + 4], "big")
        return reply(0, self._log[at : at + size]) if size else reply(1, remark="there is no message")
