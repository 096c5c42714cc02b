"""Requests about pops that wait for messages: kept, woken, and answered when their time is up.

Brings the table of waiting pops (``core.pop.long_polling``) together with those who wait. Refuses to know how a
request is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from rocketmq_py.broker.pop.pop import HeldPop
from rocketmq_py.core.pop.long_polling import ANY_QUEUE, Poll, PollKey, PollTable
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.pop_handle import RETRY_V2, retry_flag
from rocketmq_py.server import Hold, Peer, Reply, Responder
from rocketmq_py.server.requests.failures import failure
from rocketmq_py.store import Arrival, MessageStore

Run = Callable[[HeldPop], Reply | Hold]
"""Runs a request that waited once more."""


class WaitingPop(NamedTuple):
    """A held request and the right to answer it."""

    held: HeldPop
    responder: Responder


class PopLongPollingService:
    """Waiting requests of one kind.

    :param soon: runs a callback in the next turn of the event loop: arrivals are told from within the store, and a pop
        that runs again reads from it.
    :param hold: takes what a request that ran again wants to wait for.
    :param nothing: the answer for who has waited in vain when the broker stops.
    """

    def __init__(
        self,
        table: PollTable[WaitingPop],
        run: Run,
        store: MessageStore,
        soon: Callable[[Callable[[], None]], object],
        hold: Callable[[Hold, Responder], None],
        nothing: Reply,
    ) -> None:
        self.table = table
        self._run_again = run
        self._store = store
        self._soon = soon
        self._hold = hold
        self._nothing = nothing
        self._woken: list[WaitingPop] = []

    def keep(self, hold: Hold, responder: Responder) -> None:
        """Hold a request until one of the methods below takes it."""
        poll: Poll[HeldPop] = hold.payload
        assert isinstance(hold.key, PollKey)
        waiting = WaitingPop(poll.token, responder)
        self.table.add(hold.key, Poll(poll.deadline_ms, poll.tags_filter, poll.record_filter, waiting))
        if poll.token.goes_on:
            self.wake(hold.key)

    def arrived(self, arrivals: Iterable[Arrival]) -> None:
        """Messages have become readable."""
        if not len(self.table):
            return
        for arrival in arrivals:
            records = partial(self._records, arrival)
            topic, queue_id = _waited_for(arrival)
            self._wake(self.table.arrived(topic, queue_id, arrival.tags_codes, records))

    def _records(self, arrival: Arrival) -> Iterator[bytes]:
        for physical, size in zip(arrival.entries[0::3], arrival.entries[1::3], strict=True):
            record = self._store.message_at(physical, size)
            if record is not None:
                yield record

    def wake(self, key: PollKey) -> None:
        """There is something for one request that waits for this."""
        self._wake(self.table.wake(key))

    def back(self, topic: str, group: str, queue_id: int | None = None) -> None:
        """Messages of a topic are there again for a group: for everything it waits for, or for one queue."""
        for key in self.table.keys_of(topic, group):
            if queue_id is None or key.queue_id in (queue_id, ANY_QUEUE):
                self.wake(key)

    def expire(self, now_ms: int) -> None:
        """Answer requests whose time is up."""
        self._wake(self.table.expired(now_ms))

    def forget(self, peer: Peer) -> None:
        """A connection is gone: nobody waits on it any more."""
        if len(self.table):
            self.table.drain(lambda waiting: waiting.responder.peer is peer)

    def release(self) -> None:
        """Answer everybody now: the broker stops."""
        for waiting in self.table.drain() + self._take_woken():
            waiting.responder.reply(self._nothing)

    def _wake(self, waiting: list[WaitingPop]) -> None:
        if not waiting:
            return
        if not self._woken:
            self._soon(lambda: self._answer(self._take_woken()))
        self._woken += waiting

    def _take_woken(self) -> list[WaitingPop]:
        woken, self._woken = self._woken, []
        return woken

    def _answer(self, waiting: list[WaitingPop]) -> None:
        outcomes = [(self._run(held), responder) for held, responder in waiting if responder.alive]
        self._store.settle()
        for outcome, responder in outcomes:
            if isinstance(outcome, Reply):
                responder.reply(outcome)
            else:
                self._hold(outcome, responder)

    def _run(self, held: HeldPop) -> Reply | Hold:
        try:
            return self._run_again(held)
        except Exception as e:  # noqa: BLE001 - one request that fails must not leave the others without an answer
            return failure(e, "a held pop", held.peer.address)


def _waited_for(arrival: Arrival) -> tuple[str, int]:
    """Who pops waits for the topic itself, wherever its messages come from; old retry topics do not tell theirs."""
    topic = arrival.topic
    if is_retry_topic(topic) and retry_flag(topic) == RETRY_V2:
        return topic.partition("+")[2], ANY_QUEUE
    return topic, arrival.queue_id
