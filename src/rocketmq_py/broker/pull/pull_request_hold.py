"""Long polling: pulls on hold, run again when messages arrive, and answered when they time out.

The table of held pulls is in ``core.broker.hold_table``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from rocketmq_py.broker.pull.pull import HeldPull, PullService
from rocketmq_py.core.broker.hold_table import Held, HoldTable, QueueKey
from rocketmq_py.protocol.bodies.statistics import HeldRequest
from rocketmq_py.server import Hold, Peer, Reply, Responder
from rocketmq_py.server.requests.failures import failure, overloaded
from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.store import Arrival, MessageStore

_log = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """A held pull, the responder that answers it, and when it was held, in milliseconds."""

    pull: HeldPull
    responder: Responder
    since: int


class PullRequestHoldService:
    """Holds pulls until messages arrive or they time out (long polling).

    :param slices: runs held pulls again later and in slices: a pull reads from the store, which cannot be read while it
        reports arrivals, and any number of pulls may wait for one message.
    :param clock: returns milliseconds since the epoch.
    :param limit: returns the current maximum number of held pulls.
    """

    def __init__(
        self,
        pull_service: PullService,
        store: MessageStore,
        slices: SlicedWork,
        clock: Callable[[], int],
        limit: Callable[[], int] = lambda: 100_000,
    ) -> None:
        self._clock = clock
        self._limit = limit
        self._full = False
        self._pull_service = pull_service
        self._store = store
        self._slices = slices
        self._table: HoldTable[Waiting] = HoldTable()

    def __len__(self) -> int:
        return len(self._table)

    def listed(self, most: int) -> Iterator[HeldRequest]:
        """Iterate over the held pulls, as they are when the first is asked for; over ``most`` of them."""
        for key, held in list(islice(self._table, most)):
            waiting = held.token
            yield HeldRequest(
                kind="pull", topic=key.topic, queue_id=key.queue_id, offset=held.offset, since=waiting.since,
                consumer_group=waiting.pull.request.header.consumer_group, client_addr=waiting.pull.peer.address,
                until=held.deadline_ms,
            )  # fmt: skip

    def keep(self, hold: Hold, responder: Responder) -> None:
        """Hold a pull until one of the methods below answers it; refuse it with SYSTEM_BUSY if too many are held."""
        if len(self._table) >= self._limit():
            self._log_full()
            responder.reply(overloaded())
            return
        self._full = False
        held: Held[HeldPull] = hold.payload
        assert isinstance(hold.key, QueueKey)
        waiting = Waiting(held.token, responder, self._clock())
        self._table.add(
            hold.key,
            Held(held.offset, held.deadline_ms, held.tags_filter, waiting, held.record_filter, responder.peer),
        )

    def _log_full(self) -> None:
        if not self._full:
            self._full = True
            _log.warning("%d pulls are on hold (pullThreadPoolQueueCapacity): more are refused", len(self._table))

    def arrived(self, arrivals: Iterable[Arrival]) -> None:
        """Run held pulls again whose queue and filter match new messages."""
        if not self._table:
            return
        for arrival in arrivals:
            key = QueueKey(arrival.topic, arrival.queue_id)
            if self._table.waiting(key) and not self._store.rebuild.has(*key):
                records = partial(self._records, arrival)
                self._wake(self._table.arrived(key, arrival.next_offset, arrival.tags_codes, records))

    def _records(self, arrival: Arrival) -> Iterator[bytes]:
        for physical, size in zip(arrival.entries[0::3], arrival.entries[1::3], strict=True):
            record = self._store.message_at(physical, size)
            if record is not None:
                yield record

    def reset(self, group: str, topic: str, queue_id: int) -> None:
        """Run a group's held pulls of a queue again after an offset reset, so that one returns the new offset."""
        key = QueueKey(topic, queue_id)
        found = self._table.take(key, lambda waiting: waiting.pull.request.header.consumer_group == group)
        self._wake(reversed(found))  # the first to run gets the reset; the latest pull is of the queue's owner

    def moved(self, topic: str, queue_ids: Iterable[int]) -> None:
        """Answer the pulls of physical queues of a static topic whose logical queues have moved to another broker."""
        for queue_id in queue_ids:
            self._wake(iter(self._table.take(QueueKey(topic, queue_id), lambda _: True)))

    def sweep(self) -> None:
        """Run held pulls again whose queue has new messages, in case their arrival was missed."""
        self._wake(self._table.sweep(self._readable_end))

    def _readable_end(self, topic: str, queue_id: int) -> int:
        """End of the messages of a queue that pulls can read: none while the queue is being rebuilt."""
        return 0 if self._store.rebuild.has(topic, queue_id) else self._store.queue_range(topic, queue_id)[1]

    def expire(self, now_ms: int) -> None:
        """Answer pulls that timed out."""
        if self._table.is_due(now_ms):
            self._wake(self._table.expired(now_ms))

    def wake_all(self) -> None:
        """Run all held pulls again and answer them, with or without messages."""
        self._wake(iter(self._table.drain()))

    def disconnected(self, peer: Peer) -> None:
        """Drop the pulls of a closed connection."""
        self._slices.add(self._table.remove(peer))

    def release(self) -> None:
        """Answer all pulls now, because the broker stops."""
        self._slices.finish()
        for _ in self._answer(iter(self._table.drain())):
            pass

    def _wake(self, waiting: Iterator[Waiting | None]) -> None:
        self._slices.add(self._answer(waiting))

    def _answer(self, waiting: Iterator[Waiting | None]) -> Iterator[None]:
        for one in waiting:
            if one is not None and one.responder.alive:
                one.responder.reply(self._run(one.pull))
            yield

    def _run(self, pull: HeldPull) -> Reply:
        try:
            outcome = self._pull_service.pull(pull.peer, pull.request, may_hold=False)
        except Exception as e:  # noqa: BLE001 - a failing pull must not leave the others without an answer
            return failure(e, "a held pull", pull.peer.address)
        assert isinstance(outcome, Reply)
        return outcome
