"""Long polling of pop requests: requests that found nothing are held, woken by new messages, and expire.

``core.pop.long_polling`` has the table of held requests; each held request carries the function that runs it again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.core.pop.long_polling import ANY_QUEUE, Poll, PollKey, PollTable
from rocketmq_py.protocol.bodies.statistics import HeldRequest
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.headers.pop import NotificationResponse, PopResponse
from rocketmq_py.protocol.names import RETRY_PREFIX, is_retry_topic
from rocketmq_py.protocol.pop_handle import RETRY_V2, retry_flag
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply, Responder
from rocketmq_py.server.requests.failures import failure
from rocketmq_py.store import Arrival, MessageStore

_RUN_TOGETHER = 16
"""Number of woken requests that are run before their answers are sent together."""
_RUN_SECONDS = 0.01
"""Maximum time in one turn of the event loop for running woken requests."""

NO_MESSAGES = PopResponse(pop_time=0, invisible_time=0, revive_qid=0, rest_num=0)
"""The response header of a pop that has read no queue."""

CallSoon = Callable[[Callable[[], None]], object]
"""Runs a callback in the next turn of the event loop (``loop.call_soon``)."""
HoldRequest = Callable[[Hold, Responder], None]
"""Holds a request whose handler returned a :class:`Hold`."""


class NotifyKey(PollKey):
    """The key of a held NOTIFICATION request, which waits for messages as a pop does, but does not pop them."""

    __slots__ = ()


class HeldPop(NamedTuple):
    """A held request.

    :ivar run: runs the request once more.
    :ivar born: when the client made the request, in milliseconds.
    :ivar goes_on: True to run it again immediately: no message matched its filter yet, and there are more to read.
    """

    run: Callable[[HeldPop], Reply | Hold]
    peer: Peer
    request: Request
    born: int
    goes_on: bool = False


class WaitingPop(NamedTuple):
    """A held request and the responder that can answer it."""

    held: HeldPop
    responder: Responder


class PopLongPollingService:
    """Holds requests of one kind (pops, or notifications) until messages arrive or their deadline passes.

    :param call_soon: defers callbacks: the store reports arrivals while it writes, and a pop that runs again reads.
    :param hold: holds a request that ran again and still found nothing.
    :param empty_reply: answers the requests that still wait when the broker stops.
    """

    def __init__(
        self,
        config: BrokerConfig,
        table: PollTable[WaitingPop],
        store: MessageStore,
        call_soon: CallSoon,
        hold: HoldRequest,
        empty_reply: Reply,
    ) -> None:
        self.table = table
        self._config = config
        self._store = store
        self._call_soon = call_soon
        self._hold = hold
        self._empty_reply = empty_reply
        self._woken: deque[WaitingPop] = deque()

    def listed(self, kind: str, most: int) -> Iterator[HeldRequest]:
        """Iterate over the held requests, as they are when the first is asked for; over ``most`` of them.

        :param kind: what they are called.
        """
        for key, poll in list(islice(self.table, most)):
            held = poll.token.held
            yield HeldRequest(
                kind=kind, topic=key.topic, queue_id=key.queue_id, consumer_group=key.group,
                client_addr=held.peer.address, since=held.born, until=poll.deadline_ms,
            )  # fmt: skip

    def refusal(self, key: PollKey, left_ms: int, poll_time_ms: int) -> Code | None:
        """Return the response code of a request that found nothing if it may not be held, None if it may.

        :param left_ms: the time until its deadline.
        :param poll_time_ms: the polling time in its header.
        """
        config = self._config
        if poll_time_ms <= 0:
            return Code.POLLING_TIMEOUT
        if not self.table.has_room(key, config.pop_polling_size, config.max_pop_polling_size):
            return Code.POLLING_FULL
        return Code.POLLING_TIMEOUT if left_ms <= 0 else None

    def hold_request(self, hold: Hold, responder: Responder) -> None:
        """Hold a request until one of the methods below wakes or answers it."""
        poll: Poll[HeldPop] = hold.payload
        assert isinstance(hold.key, PollKey)
        waiting = WaitingPop(poll.token, responder)
        self.table.add(hold.key, Poll(poll.deadline_ms, poll.tags_filter, poll.record_filter, waiting))
        if poll.token.goes_on:
            self.wake(hold.key)

    def arrived(self, arrivals: Iterable[Arrival]) -> None:
        """Wake requests that wait for new messages."""
        for arrival in arrivals:
            if self._store.rebuild.has(arrival.topic, arrival.queue_id):
                continue  # its messages cannot be popped yet
            records = partial(self._records, arrival)
            topic, queue_id = _polled_queue(arrival)
            self._wake(self.table.arrived(topic, queue_id, arrival.tags_codes, records))
            for group, popped in _first_version_readings(arrival.topic):
                self.messages_back(popped, group)

    def _records(self, arrival: Arrival) -> Iterator[bytes]:
        for physical, size in zip(arrival.entries[0::3], arrival.entries[1::3], strict=True):
            record = self._store.message_at(physical, size)
            if record is not None:
                yield record

    def wake(self, key: PollKey) -> None:
        """Wake one request that waits for ``key``."""
        self._wake(self.table.wake(key))

    def messages_back(self, topic: str, group: str, queue_id: int | None = None) -> None:
        """Wake requests of a group after messages became visible to it again.

        :param queue_id: of that queue only; None for all queues of the topic.
        """
        for key in self.table.keys_of(topic, group):
            if queue_id is None or key.queue_id in (queue_id, ANY_QUEUE):
                self.wake(key)

    def expire(self, now_ms: int) -> None:
        """Answer the requests whose deadline has passed."""
        self._wake(self.table.expired(now_ms))

    def wake_all(self) -> None:
        """Run all held requests again; those that still find nothing are held until their deadlines."""
        self._wake(self.table.drain())

    def disconnected(self, peer: Peer) -> None:
        """Drop the requests of a closed connection."""
        if len(self.table):
            self.table.drain(lambda waiting: waiting.responder.peer is peer)

    def release(self) -> None:
        """Answer all held requests without messages, because the broker stops."""
        woken, self._woken = self._woken, deque()
        for waiting in (*self.table.drain(), *woken):
            waiting.responder.reply(self._empty_reply)

    def _wake(self, waiting: list[WaitingPop]) -> None:
        if not waiting:
            return
        if not self._woken:
            self._call_soon(self._answer_some)
        self._woken += waiting

    def _answer_some(self) -> None:
        """Run woken requests for a limited time; run the others in the next turn of the event loop."""
        woken, until = self._woken, time.monotonic() + _RUN_SECONDS
        while woken and time.monotonic() < until:
            self._answer([woken.popleft() for _ in range(min(len(woken), _RUN_TOGETHER))])
        if woken:
            self._call_soon(self._answer_some)

    def _answer(self, waiting: list[WaitingPop]) -> None:
        outcomes = [(_run(held), responder) for held, responder in waiting if responder.alive]
        self._store.commit_pending()
        for outcome, responder in outcomes:
            if isinstance(outcome, Reply):
                responder.reply(outcome)
            else:
                self._hold(outcome, responder)


class PopPolling:
    """All held requests about pops: the pops themselves and the notifications.

    :param call_soon: see :class:`PopLongPollingService`.
    :param hold: see :class:`PopLongPollingService`.
    """

    def __init__(self, config: BrokerConfig, store: MessageStore, call_soon: CallSoon, hold: HoldRequest) -> None:
        self.pops = PopLongPollingService(
            config, PollTable(), store, call_soon, hold,
            Reply(Code.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE", NO_MESSAGES),
        )  # fmt: skip
        self.notifications = PopLongPollingService(
            config, PollTable(last_first=True), store, call_soon, hold,
            Reply(header=NotificationResponse(has_msg=False)),
        )  # fmt: skip
        self._both = (self.pops, self.notifications)

    def __len__(self) -> int:
        return len(self.pops.table) + len(self.notifications.table)

    def listed(self, most: int) -> Iterator[HeldRequest]:
        """Iterate over the held pops, then over the notifications; over ``most`` of both together."""
        both = self.pops.listed("pop", most), self.notifications.listed("notification", most)
        return islice(chain.from_iterable(both), most)

    def hold_request(self, hold: Hold, responder: Responder) -> None:
        """Hold a request that found no messages."""
        (self.notifications if isinstance(hold.key, NotifyKey) else self.pops).hold_request(hold, responder)

    def is_awaited(self) -> bool:
        """True if a request waits for messages."""
        return any(service.table.waiting for service in self._both)

    def arrived(self, arrivals: list[Arrival]) -> None:
        """Wake requests that wait for new messages."""
        for service in self._both:
            # Attributes, no calls: this is part of each read in which messages arrive.
            if service.table.waiting:
                service.arrived(arrivals)

    def messages_back(self, topic: str, group: str, queue_id: int | None = None) -> None:
        """Wake requests of a group after messages became visible to it again.

        :param queue_id: of that queue only; None for all queues of the topic.
        """
        for service in self._both:
            service.messages_back(topic, group, queue_id)

    def expire(self, now_ms: int) -> None:
        """Answer the requests whose deadline has passed."""
        for service in self._both:
            service.expire(now_ms)

    def wake_all(self) -> None:
        """Run all held requests again; those that still find nothing are held until their deadlines."""
        for service in self._both:
            service.wake_all()

    def disconnected(self, peer: Peer) -> None:
        """Drop the requests of a closed connection."""
        for service in self._both:
            service.disconnected(peer)

    def release(self) -> None:
        """Answer all held requests without messages, because this broker no longer serves pops."""
        for service in self._both:
            service.release()


def _run(held: HeldPop) -> Reply | Hold:
    try:
        return held.run(held)
    except Exception as e:  # noqa: BLE001 - one request that fails must not leave the others without an answer
        return failure(e, "a held pop", held.peer.address)


def _polled_queue(arrival: Arrival) -> tuple[str, int]:
    """Return the topic and queue id for which held pops wait that this arrival of a message wakes.

    These are the arrival's own, with one exception: pops of a topic also read its retry topic. For a retry topic of
    version 2, the result is the original topic, which its name contains, and ``ANY_QUEUE``.
    """
    topic = arrival.topic
    if is_retry_topic(topic) and retry_flag(topic) == RETRY_V2:
        return topic.partition("+")[2], ANY_QUEUE
    return topic, arrival.queue_id


def _first_version_readings(name: str) -> Iterator[tuple[str, str]]:
    """Return each group and topic whose retry topic of version 1 may have a name: ``%RETRY%group_topic``.

    Both may contain underscores. Names that are no such retry topic have none.
    """
    if not is_retry_topic(name) or retry_flag(name) == RETRY_V2:
        return
    rest = name.removeprefix(RETRY_PREFIX)
    for at, character in enumerate(rest):
        if character == "_" and 0 < at < len(rest) - 1:
            yield rest[:at], rest[at + 1 :]
