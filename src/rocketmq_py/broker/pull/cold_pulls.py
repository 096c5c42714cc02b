"""Pulls and other reads of messages that are not in main memory: threads load them, and the read runs again.

Connections take turns, and each has at most one load in progress, so a reader of old messages slows only itself down.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import NamedTuple

from rocketmq_py.broker.pull.cold_read import ColdRead
from rocketmq_py.broker.pull.pull import COLD, ColdPull, PullService
from rocketmq_py.server import Hold, Peer, Reply, Responder
from rocketmq_py.server.requests.failures import failure, overloaded
from rocketmq_py.store.fs.residency import Part

_log = logging.getLogger(__name__)

THREADS = 4
"""Maximum number of concurrent loads. A disk serves several better than one; more would only queue there."""


class Waiting(NamedTuple):
    """A pull or another read that waits for the disk, and the responder that answers it."""

    pull: ColdPull | ColdRead
    responder: Responder


class ColdPulls:
    """Loads messages from disk for pulls, then answers them.

    :param load: loads parts of files into memory; it blocks and is called in threads.
    :param hold: holds a pull that finds no message after all, for long polling.
    :param executors: run the loads, each one at a time.
    :param limit: returns the current maximum number of waiting pulls.
    :param commit: writes what reads have appended, such as check-points of pops, before they are answered.
    """

    def __init__(
        self,
        pull_service: PullService,
        load: Callable[[Sequence[Part]], None],
        hold: Callable[[Hold, Responder], None],
        executors: Sequence[Executor],
        limit: Callable[[], int],
        commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._pull_service = pull_service
        self._load = load
        self._hold = hold
        self._executors = tuple(executors)
        self._idle = list(executors)
        self._limit = limit
        self._commit = commit
        self._turns: dict[Peer, deque[Waiting]] = {}
        """Waiting pulls by connection, in the order in which connections get their turn."""
        self._loading: set[Peer] = set()

    def __len__(self) -> int:
        """Number of pulls that wait for their turn."""
        return sum(map(len, self._turns.values()))

    def keep(self, hold: Hold, responder: Responder) -> None:
        """Load the messages of a pull, then answer it; refuse it with SYSTEM_BUSY if too many pulls wait."""
        assert hold.key == COLD
        if len(self) >= self._limit():
            responder.reply(overloaded())
            return
        self._turns.setdefault(responder.peer, deque()).append(Waiting(hold.payload, responder))
        self._start()

    def disconnected(self, peer: Peer) -> None:
        """Drop the pulls of a closed connection."""
        self._turns.pop(peer, None)

    def close(self) -> None:
        """Stop the threads after their current loads; waiting pulls are not answered."""
        self._turns.clear()
        for executor in self._executors:
            executor.shutdown(wait=True)

    def _start(self) -> None:
        """Start loads in idle threads, for the connections whose turn it is."""
        while self._idle:
            peer = next((one for one in self._turns if one not in self._loading), None)
            if peer is None:
                return
            first = self._turns[peer].popleft()
            if not self._turns[peer]:
                del self._turns[peer]
            if first.responder.alive:
                self._loading.add(peer)
                self._begin(first, self._idle.pop())

    def _begin(self, waiting: Waiting, executor: Executor) -> None:
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(executor, self._load, waiting.pull.parts)
        future.add_done_callback(lambda done: self._loaded(waiting, executor, done))

    def _loaded(self, waiting: Waiting, executor: Executor, done: asyncio.Future[None]) -> None:
        self._idle.append(executor)
        self._loading.discard(waiting.responder.peer)
        if done.cancelled():
            return
        fault = done.exception()
        if isinstance(fault, Exception):
            waiting.responder.reply(failure(fault, "a read of old messages", waiting.responder.peer.address))
        elif waiting.responder.alive:
            self._answer(waiting)
        others = self._turns.pop(waiting.responder.peer, None)
        if others:
            self._turns[waiting.responder.peer] = others  # behind those of other connections
        self._start()

    def _answer(self, waiting: Waiting) -> None:
        """Run a read again: it is answered, waits for more parts of files, or is held until a message arrives."""
        pull, responder = waiting
        try:
            if isinstance(pull, ColdRead):
                outcome = pull.run()
                self._commit()
            else:
                outcome = self._pull_service.pull(pull.peer, pull.request, residency=pull.residency)
        except Exception as e:  # noqa: BLE001 - as for other requests
            outcome = failure(e, "a read of old messages", responder.peer.address)
        if isinstance(outcome, Reply):
            responder.reply(outcome)
        elif outcome.key == COLD:
            self._turns.setdefault(responder.peer, deque()).appendleft(Waiting(outcome.payload, responder))
        else:
            self._hold(outcome, responder)
