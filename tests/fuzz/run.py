"""The fuzz run: sends mutated frames to a server and judges what comes of it.

No request is left out: none of them ends a server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rocketmq_py.protocol.codes import RequestCode as Code
from tests.fuzz.links import Link
from tests.fuzz.targets import TARGETS, BrokerTarget, HaTarget, NamesrvTarget
from tests.fuzz.watch import LogWatch, TurnWatch, resident_kib, watched_logs, watched_turns

LINKS = 8
KEEP_EVERY = 50
LOOK_EVERY = 2_000
PER_TURN = 8
ANSWER_SECONDS = 30.0
"""The longest wait for an answer. Relays and forwarded requests wait for another server or client, some 10 s."""
HOLDING = frozenset({Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.POP_MESSAGE, Code.NOTIFICATION})
"""Requests that the broker may hold as long as the client asks for; they are answered when it stops."""


class Outcome(NamedTuple):
    """What came of a run."""

    target: str
    frames: int
    seconds: float
    asked: int
    answered: int
    closed: int
    kept: int
    longest_ms: float
    longest_name: str
    memory_kib: tuple[int, ...]
    findings: list[str]

    def __str__(self) -> str:
        memory = " ".join(f"{kib / 1024:.1f}" for kib in self.memory_kib)
        return (
            f"{self.target}: {self.frames} frames in {self.seconds:.1f} s ({self.frames / self.seconds:.0f}/s), "
            f"{self.asked} to answer, {self.answered} answered, {self.closed} connections closed for corrupt frames, "
            f"{self.kept} kept; longest turn {self.longest_ms:.0f} ms ({self.longest_name}); "
            f"memory MiB {memory}; {len(self.findings)} findings"
        )


class Run:
    """One run against one target."""

    def __init__(self, target: Any, seed: int, frames: int, *, sockets: bool, tell: Callable[[str], None]) -> None:
        self._target, self._seed, self._frames = target, seed, frames
        self._sockets, self._tell = sockets, tell
        self._links: list[Link] = []
        self._left: list[Link] = []
        self._asked = self._answered = self._closed = 0
        self._findings: list[str] = []
        self._memory: list[int] = []

    async def _connect(self) -> Link:
        return await self._target.connect_client_by_socket() if self._sockets else self._target.connect_client()

    async def run(self, logs: LogWatch, turns: TurnWatch) -> None:
        self._links = [await self._connect() for _ in range(LINKS)]
        self._memory.append(resident_kib())
        for number in range(self._frames):
            logs.current = turns.current = f"frame {number} of seed {self._seed}"
            await self._send(number)
            if number % PER_TURN == 0 or self._sockets:
                await asyncio.sleep(0)
            if number % KEEP_EVERY == 0:
                await self._target.store_probe()
            if number % LOOK_EVERY == 0 and number:
                self._check_findings(number)
                if number % (self._frames // 10 or 1) < LOOK_EVERY:
                    self._memory.append(resident_kib())
        await self._await_answers()
        self._memory.append(resident_kib())

    async def _send(self, number: int) -> None:
        place = number % LINKS
        link = self._links[place]
        if link.is_closed or link.must_close or link.is_stuck:
            await self._close_link(link)
            link = self._links[place] = await self._connect()
        link.send(self._target.data(self._seed, number))

    async def _close_link(self, link: Link) -> None:
        """Drop a connection: after a corrupt frame the server must close it, otherwise the client does."""
        if link.must_close:
            if not await _happens(link, lambda: link.is_closed):
                self._findings.append("a connection with a corrupt frame was not closed")
            self._closed += 1
        else:
            await _happens(link, lambda: not _unanswered(link))
            if link.is_closed and link.asked > link.answered and not link.may_expire:
                self._findings.append(f"a connection was closed without a corrupt frame: {link.waiting}")
            link.close()
        self._asked += link.asked
        self._answered += link.answered

    def _check_findings(self, number: int) -> None:
        self._tell(f"{self._target.name}: {number} of {self._frames} frames, {len(self._findings)} findings")
        old = time.monotonic() - ANSWER_SECONDS
        for link in self._links:
            for opaque, (code, since) in list(link.waiting.items()):
                if since < old and code not in HOLDING and not link.is_closed and not link.must_close:
                    self._findings.append(f"frame {opaque} of seed {self._seed} (code {code}) is not answered")
                    del link.waiting[opaque]

    async def _await_answers(self) -> None:
        """Wait for the last answers."""
        await asyncio.sleep(0)
        if isinstance(self._target, HaTarget):
            for link in self._links:
                link.close()  # the broker would wait for slaves before it stops
        for link in self._links:
            await _happens(link, lambda link=link: not _unanswered(link))  # type: ignore[misc]
            if left := _unanswered(link):
                self._findings.append(f"requests {sorted(set(left))} are not answered: {list(link.waiting)[:5]}")

    async def end(self) -> None:
        """Judge the requests that were on hold, after the server has stopped."""
        for link in self._links:
            if link.waiting and not (link.must_close or link.may_expire):
                self._findings.append(f"not answered when the server stopped: {list(link.waiting.items())[:5]}")
            self._asked += link.asked
            self._answered += link.answered

    def outcome(self, seconds: float, kept: int, logs: LogWatch, turns: TurnWatch) -> Outcome:
        return Outcome(
            self._target.name, self._frames, seconds, self._asked, self._answered, self._closed, kept,
            turns.longest * 1000, turns.name, tuple(self._memory), self._findings + list(logs.findings.values()),
        )  # fmt: skip


def _unanswered(link: Link) -> list[int]:
    """The codes of the requests that must be answered soon."""
    if link.is_closed or link.must_close:
        return []
    return [code for code, _ in link.waiting.values() if code not in HOLDING]


async def _happens(link: Link, condition: Callable[[], bool]) -> bool:
    """Wait until a condition of a link holds; False if it does not in time."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            while not condition():
                link.changed.clear()
                await link.changed.wait()
    except TimeoutError:
        return condition()
    return True


def _block_other_hosts() -> None:
    """Refuse connections to any other address than this machine's: hostile requests name addresses."""
    loop: Any = asyncio.get_running_loop()
    connect = loop.create_connection

    async def local(factory: Any, host: str | None = None, port: int | None = None, **options: Any) -> Any:
        if host not in (None, "127.0.0.1"):
            raise ConnectionRefusedError(f"{host}:{port} is not of this machine")
        return await connect(factory, host, port, **options)

    loop.create_connection = local


async def fuzz(
    name: str, root: Path, seed: int, frames: int, *, sockets: bool = False, tell: Callable[[str], None] = print
) -> Outcome:
    """Send mutated frames to a new server of a kind.

    :param name: of the target: broker, namesrv, ha, grpc, grpc-front or proxied, which always uses sockets.
    :param root: an empty directory for its files.
    :raises AssertionError: what well-formed requests stored is not there.
    """
    _block_other_hosts()
    target: BrokerTarget | NamesrvTarget = TARGETS[name](root)
    with watched_logs() as logs, watched_turns(asyncio.current_task()) as turns:
        await target.start()
        run = Run(target, seed, frames, sockets=sockets or name == "proxied", tell=tell)
        begin = time.monotonic()
        try:
            await run.run(logs, turns)
            kept = await target.check()
            seconds = time.monotonic() - begin
        finally:
            logs.current = "the stop"
            await target.stop()
        await asyncio.sleep(0.01)
        await run.end()
        logs.current = "the next start"
        turns_of_run = (turns.longest, turns.name)
        await target.start()
        await target.check()
        await target.stop()
        turns.longest, turns.name = turns_of_run
    return run.outcome(seconds, kept, logs, turns)
