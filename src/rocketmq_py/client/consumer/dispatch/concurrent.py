"""The concurrent dispatcher: passes messages to listeners, commits offsets in memory and sends failed messages back.

It runs in the event loop; plain listeners run in threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import groupby, islice
from time import monotonic
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from rocketmq_py.client.consumer.dispatch.listeners import ConsumeRequest, Listener, ListenerFailure
from rocketmq_py.client.consumer.dispatch.worker_pool import Pool, TaskPool, ThreadPool, Worker, post
from rocketmq_py.core.consumer.consume_result import EXPIRED_DELAY_LEVEL, MOST_EXPIRED, RESUBMIT_DELAY
from rocketmq_py.core.consumer.consume_stats import ConsumeStats
from rocketmq_py.core.consumer.offset_table import OffsetTable
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageExt
from rocketmq_py.protocol.names import is_retry_topic

_log = logging.getLogger(__name__)

TICK = 0.01
"""Seconds between checks of running requests: results of calls are handled, and workers are added if all are busy."""

SendBack = Callable[[ProcessQueue, MessageExt, int], Coroutine[Any, Any, bool]]
"""Sends a failed message back, with a delay level, to be delivered again; returns True if the broker confirmed it."""
L = TypeVar("L")


class Listeners(Generic[L]):
    """The listeners of a consumer by topic, and its default listener for all other topics."""

    def __init__(self, default: L | None, by_topic: Mapping[str, L]) -> None:
        self._default = default
        self._by_topic = by_topic

    def of(self, topic: str) -> L | None:
        """The listener of a topic, else the default one; None if there is neither."""
        return self._by_topic.get(topic, self._default)

    def __iter__(self) -> Any:
        return iter([*self._by_topic.values(), *([self._default] if self._default else [])])


class ListenerCall(NamedTuple):
    """A running call of a listener.

    :ivar workers: the threads or tasks that may run it: all that work on the same request.
    """

    queue: ProcessQueue
    messages: Sequence[MessageExt]
    workers: Sequence[Worker]


class Dispatcher(Protocol):
    """Passes messages to listeners, concurrently or in order."""

    def submit(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Pass messages to their listeners; they must be in ``queue``."""
        ...

    def drop(self, queue: ProcessQueue) -> Sequence[MessageExt]:
        """Start no further call for a queue; running ones end normally.

        :returns: the messages that no listener has got; an orderly dispatcher returns none.
        """
        ...

    def running_calls(self) -> list[ListenerCall]:
        """The running calls of listeners. A new call may be left out until the second call of this method."""
        ...

    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that run ``async def`` listeners."""
        ...

    def resize(self, threads: int) -> None:
        """Change how many listeners may run at the same time."""
        ...

    async def close(self) -> None:
        """Start no further call, wait for running listeners and handle their results."""
        ...


class ConcurrentDispatcher:
    """Passes messages to listeners concurrently, in no order.

    :param threads: maximum number of listeners that run at the same time.
    :param offsets: gets the offsets to commit.
    :param send_back: sends failed messages back to the broker.
    :param stats: returns the statistics of a topic.
    :param capacity_freed: called with a queue when messages of it have been removed from memory.
    :param name: prefix of the threads' names.
    """

    def __init__(
        self,
        listeners: Listeners[Listener],
        threads: int,
        offsets: OffsetTable,
        send_back: SendBack,
        stats: Callable[[str], ConsumeStats],
        capacity_freed: Callable[[ProcessQueue], None],
        name: str,
    ) -> None:
        self._listeners = listeners
        self._offsets = offsets
        self._send_back = send_back
        self._stats = stats
        self._capacity_freed = capacity_freed
        self._loop = asyncio.get_running_loop()
        self.threads = ThreadPool(threads, self._completed_in_thread, name)
        self._tasks = TaskPool(threads, self._completed_here)
        self._active: dict[ConsumeRequest, None] = {}
        self._completed: deque[ConsumeRequest] = deque()
        self._awaited = False
        self._ticker: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._closing = False
        self._seen: set[ConsumeRequest] = set()
        self._most_begun = _most_begun(threads)

    # -- in

    def submit(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        for topic, run in _runs(queue.queue.topic, messages):
            listener = self._listeners.of(topic)
            if listener is None:
                self._no_listener(queue, topic, run)
                continue
            request = ConsumeRequest(queue, topic, run, listener)
            self._active[request] = None
            self._pool(listener).submit(request)
        if self._ticker is None and self._active:
            self._ticker = self._loop.call_later(TICK, self._tick)

    def drop(self, queue: ProcessQueue) -> list[MessageExt]:
        left: list[MessageExt] = []
        for request in [request for request in self._active if request.queue is queue]:
            left += request.cancel_pending()
            if (
                not queue.has_invisible_time or request.is_complete
            ):  # results of running calls still ack popped messages
                del self._active[request]
        return left

    async def close(self) -> None:
        self._closing = True
        for request in self._active:
            request.cancel_pending()
        try:
            await asyncio.gather(self.threads.close(), self._tasks.close())
        finally:
            for request in list(self._active):
                self._settle(request)
            self._active.clear()
            if self._ticker is not None:
                self._ticker.cancel()
        await asyncio.gather(*self._sending)

    def running_calls(self) -> list[ListenerCall]:
        begun = list(islice(self._active, self._most_begun))
        old = [request for request in begun if request in self._seen]  # leave out calls that may have just begun
        self._seen = set(begun)
        return [
            ListenerCall(request.queue, messages, self._pool(request.listener).workers_on(request))
            for request in old
            for messages in request.running_calls()
        ]

    def tasks(self) -> list[asyncio.Task[None]]:
        return self._tasks.tasks

    def resize(self, threads: int) -> None:
        self._most_begun = max(self._most_begun, _most_begun(threads))  # surplus calls may still run
        self.threads.resize(threads)
        self._tasks.resize(threads)

    def _pool(self, listener: Listener) -> Pool:
        return self._tasks if listener.is_async else self.threads

    def _no_listener(self, queue: ProcessQueue, topic: str, messages: Sequence[MessageExt]) -> None:
        """Send back retried messages whose topic is no longer subscribed: another member may consume them."""
        _log.error("no listener for topic %s; %d messages of %s are sent back", topic, len(messages), queue.queue)
        self._spawn(self._deliver_again(queue, [ListenerFailure(message) for message in messages]))

    # -- out

    def _completed_in_thread(self, request: ConsumeRequest) -> None:
        self._completed.append(request)
        if not self._awaited:  # one callback handles all requests completed before it runs
            self._awaited = True
            post(self._loop, self._drain)

    def _completed_here(self, request: ConsumeRequest) -> None:
        self._settle(request)

    def _drain(self) -> None:
        self._awaited = False
        while self._completed:
            self._settle(self._completed.popleft())

    def _tick(self) -> None:
        self.threads.add_workers_if_stalled()
        self._tasks.add_workers_if_stalled()
        for request in list(islice(self._active, self._most_begun)):
            if request.finished:
                self._settle(request)
        self._ticker = self._loop.call_later(TICK, self._tick) if self._active else None

    def _settle(self, request: ConsumeRequest) -> None:
        """Handle the new results of a request: commit offsets, send failed messages back."""
        done, failed = request.new_results()
        if request.is_complete and request in self._active:
            del self._active[request]
            self._stats(request.topic).consumed.add(request.calls, request.seconds)
        if request.queue.dropped and not request.queue.has_invisible_time:
            return  # the queue's new owner consumes these messages again
        if request.expired:
            self._release_expired(request)
        if done:
            self._ack(request.queue, done)
        if failed:
            self._spawn(self._deliver_again(request.queue, failed))

    def _ack(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        stats = self._stats(messages[0].topic)
        stats.ok.add(len(messages))
        self._release(queue, messages)

    def _release(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        offset = queue.ack(messages)
        queue.consumed_at = monotonic()
        if offset is not None and not queue.dropped:
            self._offsets.update(queue.queue, offset)
        self._capacity_freed(queue)

    def _release_expired(self, request: ConsumeRequest) -> None:
        """Remove popped messages whose invisible time ended before their listener was called."""
        lost = [message for message in request.expired if request.queue.holds(message)]
        for message in lost:
            request.queue.release(message, monotonic())
        if lost:
            _log.warning(
                "the invisible time of %d messages of %s ended before their listener was called, so they are "
                "delivered again: the listeners are too slow for what is fetched ahead", len(lost), request.queue.queue,
            )  # fmt: skip
            self._capacity_freed(request.queue)

    async def expire(self, queue: ProcessQueue, is_expired: Callable[[MessageExt], bool]) -> int:
        """Send expired messages back to the broker, from the start of the queue up to the first one not expired.

        Results that their listeners return later are ignored; the offset is committed past these messages.

        :param is_expired: returns True if the listener of a message has run for too long.
        :returns: the number of messages sent back.
        """
        count = 0
        while count < MOST_EXPIRED:
            oldest = queue.oldest()
            if oldest is None or queue.dropped or not is_expired(oldest):
                break
            if not await self._send_back(queue, oldest, EXPIRED_DELAY_LEVEL):
                break
            count += 1
            if queue.oldest() is oldest:
                self._release(queue, [oldest])
        return count

    async def _deliver_again(self, queue: ProcessQueue, failures: Sequence[ListenerFailure]) -> None:
        stats = self._stats(failures[0].message.topic)
        stats.failed.add(len(failures))
        stats.failed_hour.add(len(failures))
        sent: list[MessageExt] = []
        kept: list[MessageExt] = []
        for message, level in failures:
            if not queue.holds(message):
                continue
            (sent if await self._send_back(queue, message, level) else kept).append(message)
        if sent:
            self._release(queue, sent)
        if kept and not self._closing:
            self._loop.call_later(RESUBMIT_DELAY, self._resubmit, queue, kept)

    def _resubmit(self, queue: ProcessQueue, messages: list[MessageExt]) -> None:
        if queue.dropped or self._closing:
            return
        for message in messages:
            message.reconsume_times += 1
        self.submit(queue, messages)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)


def _most_begun(threads: int) -> int:
    """Return the maximum number of consume requests with running calls, for this many threads.

    Requests start in order and each running call occupies a thread.
    """
    return 2 * (threads + 1)


def _runs(topic: str, messages: Sequence[MessageExt]) -> Iterable[tuple[str, Sequence[MessageExt]]]:
    """Split messages where their original topic changes; return pairs of original topic and consecutive messages.

    :param topic: of the queue; only a retry topic holds messages of several original topics.
    """
    if not is_retry_topic(topic):
        return [(topic, messages)]
    return [(origin, list(run)) for origin, run in groupby(messages, key=lambda message: message.topic)]
