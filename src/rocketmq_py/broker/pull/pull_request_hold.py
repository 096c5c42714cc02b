"""Long polling: pulls on hold, run again when messages arrive, and answered when they time out.

The table of held pulls is in ``core.broker.hold_table``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from rocketmq_py.broker.pull.pull import HeldPull, PullService
from rocketmq_py.core.broker.hold_table import Held, HoldTable, QueueKey
from rocketmq_py.server import Hold, Peer, Reply, Responder
from rocketmq_py.server.requests.failures import failure, overloaded
from rocketmq_py.store import Arrival, MessageStore

_log = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """A held pull and the right to answer it."""

    pull: HeldPull
    responder: Responder


class PullRequestHoldService:
    """The broker's held pulls.

    :param limit: the current maximum number of held pulls.
    :param call_soon: runs a callback in the next turn of the event loop. The store reports arrivals while it is busy,
        and a pull that runs again reads from it.
    """

    def __init__(
        self,
        pull_service: PullService,
        store: MessageStore,
        call_soon: Callable[[Callable[[], None]], object],
        limit: Callable[[], int] = lambda: 100_000,
    ) -> None:
        self._limit = limit
        self._full = False
        self._pull_service = pull_service
        self._store = store
        self._call_soon = call_soon
        self._table: HoldTable[Waiting] = HoldTable()
        self._woken: list[Waiting] = []

    def __len__(self) -> int:
        return len(self._table)

    def keep(self, hold: Hold, responder: Responder) -> None:
        """Hold a pull until one of the methods below takes it; answer it as busy if too many are on hold."""
        if len(self._table) >= self._limit():
            self._log_full()
            responder.reply(overloaded())
            return
        self._full = False
        held: Held[HeldPull] = hold.payload
        assert isinstance(hold.key, QueueKey)
        self._table.add(hold.key, held._replace(token=Waiting(held.token, responder)))  # type: ignore[arg-type]

    def _log_full(self) -> None:
        if not self._full:
            self._full = True
            _log.warning("%d pulls are on hold (pullThreadPoolQueueCapacity): more are refused", len(self._table))

    def arrived(self, arrivals: Iterable[Arrival]) -> None:
        """Wake the pulls that new messages satisfy."""
        if not self._table:
            return
        for arrival in arrivals:
            key = QueueKey(arrival.topic, arrival.queue_id)
            if self._table.waiting(key):
                records = partial(self._records, arrival)
                self._wake(self._table.arrived(key, arrival.next_offset, arrival.tags_codes, records))

    def _records(self, arrival: Arrival) -> Iterator[bytes]:
        for physical, size in zip(arrival.entries[0::3], arrival.entries[1::3], strict=True):
            record = self._store.message_at(physical, size)
            if record is not None:
                yield record

    def reset(self, group: str, topic: str, queue_id: int) -> None:
        """Wake a group's pulls of a queue after an offset reset."""
        key = QueueKey(topic, queue_id)
        found = self._table.take(key, lambda waiting: waiting.pull.request.header.consumer_group == group)
        self._wake(found[::-1])  # the first to run gets the reset; the latest pull is of the current owner of the queue

    def sweep(self, now_ms: int) -> None:
        """Wake pulls whose queue grew without an arrival."""
        self._wake(self._table.sweep(now_ms, lambda topic, queue: self._store.queue_range(topic, queue)[1]))

    def expire(self, now_ms: int) -> None:
        """Answer pulls that timed out."""
        self._wake(self._table.expired(now_ms))

    def wake_all(self) -> None:
        """Wake all pulls."""
        self._wake(self._table.drain())

    def disconnected(self, peer: Peer) -> None:
        """Drop the pulls of a closed connection."""
        self._table.drain(lambda waiting: waiting.responder.peer is peer)

    def release(self) -> None:
        """Answer all pulls now, because the broker stops."""
        self._answer(self._table.drain() + self._take_woken())

    def _wake(self, waiting: list[Waiting]) -> None:
        if not waiting:
            return
        if not self._woken:
            self._call_soon(lambda: self._answer(self._take_woken()))
        self._woken += waiting

    def _take_woken(self) -> list[Waiting]:
        woken, self._woken = self._woken, []
        return woken

    def _answer(self, waiting: list[Waiting]) -> None:
        for pull, responder in waiting:
            if not responder.alive:
                continue
            responder.reply(self._run(pull))

    def _run(self, pull: HeldPull) -> Reply:
        try:
            outcome = self._pull_service.pull(pull.peer, pull.request, may_hold=False)
        except Exception as e:  # noqa: BLE001 - a failing pull must not leave the others without an answer
            return failure(e, "a held pull", pull.peer.address)
        assert isinstance(outcome, Reply)
        return outcome
