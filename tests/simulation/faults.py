"""What goes wrong in a schedule: chosen by its seed, at times chosen by it, and put right again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.simulation.ledger import Ledger
from tests.simulation.loop import Process
from tests.simulation.world import Server, World

_FRAME_DAMAGES = ((0, 0x80), (0, 0x40), (4, 0x7E), (5, 0x80), (8, 0x01))
"""Byte of a frame and the bits of it that turn: a length below 0, a huge one, an unknown header format, a header longer
than its frame, a header that is no JSON."""


def _flipped(data: bytes, at: int, flips: int) -> bytes:
    """The data with some bits turned; damage that the protocol can see, as it has no check sum."""
    changed = bytearray(data)
    if at < len(changed) and (at < 8 or data[at : at + 1] == b"{"):
        changed[at] ^= flips
    return bytes(changed)


class Allowed(NamedTuple):
    """What may go wrong.

    :ivar power: machines of brokers may lose power: brokers flush before they answer.
    :ivar kills: brokers may be killed.
    :ivar consumers: consumers may be killed.
    :ivar damage: bytes on the network may change, so that frames are no frames any more.
    """

    power: bool = False
    kills: bool = True
    consumers: bool = True
    damage: bool = False


class Faults:
    """The faults of one schedule.

    :param members: the processes of consumers that run now, by name.
    :param replace: starts another consumer for one that died.
    """

    def __init__(
        self, world: World, ledger: Ledger, chance: random.Random, allowed: Allowed,
        members: dict[str, Process], replace: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._world = world
        self._ledger = ledger
        self._chance = chance
        self._allowed = allowed
        self._members = members
        self._replace = replace
        self._busy: set[str] = set()

    def _kinds(self) -> list[Callable[[], Awaitable[None]]]:
        kinds = [self._reset, self._reset, self._pause_server, self._slow_network, self._slow_disk, self._part]
        if self._allowed.kills:
            kinds += [self._kill, self._kill, self._stop]
        if self._allowed.consumers:
            kinds += [self._kill_consumer, self._pause_consumer, self._join]
        if self._allowed.damage:
            kinds += [self._damage] * 8
        return kinds

    async def play(self, count: int, span: float) -> None:
        """Let things go wrong, one after the other or at once, and return when all of it is put right.

        :param span: seconds within which they begin.
        """
        await asyncio.gather(*(self._one(self._chance.random() * span) for _ in range(count)))
        self._world.network.heal()

    async def _one(self, at: float) -> None:
        kind = self._chance.choice(self._kinds())
        await asyncio.sleep(at)
        if len(self._members) > 1:
            # A member that a broker does not see loses its queues to another, and stores its offsets after all.
            self._ledger.offsets_may_fall = True
        await kind()

    def _server(self, *, but_ns: bool) -> Server | None:
        """A server to which nothing happens now."""
        free = [
            server
            for name, server in self._world.servers.items()
            if name not in self._busy and not (but_ns and name == "ns")
        ]
        return self._chance.choice(free) if free else None

    def _member(self) -> str | None:
        free = [name for name in self._members if name not in self._busy]
        return self._chance.choice(free) if free else None

    # -- kinds

    async def _reset(self) -> None:
        server = self._server(but_ns=False)
        if server is not None:
            number = self._world.network.reset(server.process, self._chance.choice([0.3, 1.0]))
            self._world.note("reset", number, "connections of", server.name)

    async def _damage(self) -> None:
        server = self._server(but_ns=False)
        if server is not None:
            at, flips = self._chance.choice(_FRAME_DAMAGES)
            number = self._world.network.damage(
                server.process, self._chance.choice([0.3, 1.0]), lambda data: _flipped(data, at, flips)
            )
            self._world.note("byte", at, "of a frame changes on", number, "connections of", server.name)

    async def _slow_network(self) -> None:
        seconds = self._chance.uniform(0.2, 2)
        self._world.note("the network is slow for", f"{seconds:.1f} s")
        self._world.network.slow_until = self._world.loop.time() + seconds

    async def _slow_disk(self) -> None:
        server = self._server(but_ns=True)
        if server is not None:
            seconds = self._chance.uniform(0.2, 3)
            self._world.note("the disk of", server.name, "is slow for", f"{seconds:.1f} s")
            server.slow_disk_until = self._world.loop.time() + seconds

    async def _pause_server(self) -> None:
        server = self._server(but_ns=False)
        if server is None:
            return
        self._busy.add(server.name)
        await self._pause(server.process, self._chance.choice([0.1, 1.0, 4.0]))
        self._busy.discard(server.name)

    async def _pause_consumer(self) -> None:
        name = self._member()
        if name is None:
            return
        self._busy.add(name)
        await self._pause(self._members[name], self._chance.choice([0.1, 1.0, 5.0]))
        self._busy.discard(name)

    async def _pause(self, process: Process, seconds: float) -> None:
        self._world.note(process, "stands still for", seconds, "s")
        process.pause()
        await asyncio.sleep(seconds)
        process.resume()

    async def _part(self) -> None:
        server = self._server(but_ns=True)
        others = [*self._members.values(), *(other.process for other in self._world.servers.values())]
        others = [process for process in others if server is not None and process.ip != server.ip]
        if server is None or not others:
            return
        other = self._chance.choice(others)
        seconds = self._chance.choice([0.3, 2.0, 5.0])
        self._world.note(server.name, "and", other, "do not reach each other for", seconds, "s")
        self._world.network.part(server.process, other)
        await asyncio.sleep(seconds)
        self._world.network.heal()

    async def _kill(self) -> None:
        server = self._server(but_ns=False)
        if server is None:
            return
        self._busy.add(server.name)
        self._ledger.lives_overlap = True
        power = self._allowed.power and server.name != "ns" and self._chance.random() < 0.6
        if power and self._chance.random() < 0.6:  # so that it dies with much that is not on the disk
            server.slow_disk_until = self._world.loop.time() + 1.0
            await asyncio.sleep(self._chance.random() * 0.5)
        server.kill(power=power)
        await asyncio.sleep(self._chance.choice([0.05, 0.5, 2.0]))
        await server.restart()
        self._busy.discard(server.name)

    async def _stop(self) -> None:
        server = self._server(but_ns=True)
        if server is None:
            return
        self._busy.add(server.name)
        self._ledger.lives_overlap = True
        before = server.committed()
        await server.stop()
        await asyncio.sleep(self._chance.choice([0.05, 0.5, 2.0]))
        await server.restart()
        self._ledger.restarted(server.name, before, server.committed())
        self._busy.discard(server.name)

    async def _kill_consumer(self) -> None:
        name = self._member()
        if name is None:
            return
        process = self._members.pop(name)
        self._world.note(name, "is killed")
        if not self._world.network.is_whole:  # what it has sent arrives after what its successor sends
            self._ledger.offsets_may_fall = True
        process.kill()
        self._world.network.process_died(process, machine_too=False)
        self._ledger.member_died(name)
        self._ledger.patience = 90.0  # its locks end by themselves, after a minute
        await asyncio.sleep(self._chance.choice([0.01, 0.5]))
        self._replace(name)

    async def _join(self) -> None:
        if len(self._members) < 4:
            self._replace("one more")
