"""The sources of a simple consumer: one per topic and broker, popped in turn.

A source that may have messages is popped without long polling. When all sources are empty, each broker gets a
notification request, which it holds until a message arrives; unlike a pop it makes no message invisible.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection

from rocketmq_py.client.consumer.calls.pop_calls import AttemptIds, PopCalls
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.failure_log import FailureLog
from rocketmq_py.core.consumer.flow_control import failure_delay
from rocketmq_py.core.pop.receipts import ALL_QUEUES
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.errors import BrokerError, NetworkError, NoRouteError, RocketMQError
from rocketmq_py.model import MessageQueue

_log = logging.getLogger(__name__)

EMPTY_PAUSES = (0.005, 1.0)
"""First and longest pause in seconds after a notification of messages that a pop did not find; it doubles each time."""
REFRESH_INTERVAL = 1.0
"""Seconds between checks of routes while no message arrives, to find new brokers and topics."""


class Source:
    """All queues of a topic on one broker, and the state of the requests for them.

    :ivar is_ready: True if there may be messages to pop.
    :ivar error: why the last request failed; None if it succeeded.
    :param queue: topic and broker, with the queue id for all queues.
    :param delay: seconds to wait after a failed request.
    :param order: pop in order.
    """

    def __init__(self, queue: MessageQueue, failures: FailureLog, now: float, delay: float, *, order: bool) -> None:
        self.queue = queue
        self._failures = failures
        self._delay = delay
        self.attempts = AttemptIds() if order else None
        self.is_ready = True
        self.error: RocketMQError | None = None
        self.asked_at = now
        self.paused_until = 0.0
        self.watch: asyncio.Task[None] | None = None
        self._misses = 0

    def found(self, count: int) -> None:
        """Record that a pop has returned ``count`` messages."""
        self.answered()
        self.is_ready = count > 0
        self._misses = 0 if count else self._misses + 1

    def failed(self, error: RocketMQError, now: float) -> None:
        """Log and record a failed request; the source is popped again after a pause. ``now``: monotonic seconds."""
        level, lasting = self._failures.failed(error), self._failures.duration
        topic, broker_name = self.queue.topic, self.queue.broker_name
        _log.log(level, "receiving from %s of broker %s failed%s: %s", topic, broker_name, lasting, error)
        self.error = error
        self.is_ready = True
        self.paused_until = now + failure_delay(error, self._delay)

    def answered(self) -> None:
        """Record that a request has succeeded."""
        self.error = None
        level = self._failures.recovered()
        if level is not None:
            _log.log(level, "receiving from %s of broker %s works again", self.queue.topic, self.queue.broker_name)

    def close(self) -> None:
        """Cancel the notification request, and remove the source's failure from the consumer's health."""
        self._failures.close()
        if self.watch is not None:
            self.watch.cancel()

    def notified(self, now: float) -> None:
        """Record that the broker has answered a notification request: there are messages to pop.

        If two or more pops in a row have returned none all the same, the next pop waits for a pause.

        :param now: current time in monotonic seconds.
        """
        self.answered()
        self.is_ready = True
        first, longest = EMPTY_PAUSES
        self.paused_until = now + min(first * 2**self._misses, longest) if self._misses > 1 else 0.0


class Sources:
    """The sources of all subscribed topics of a consumer.

    :param poll: seconds a broker may hold a notification request.
    :param order: pop the messages of each queue in order.
    :ivar missing: why a subscribed topic had no route at the last refresh; None if all have one.
    """

    def __init__(self, group: ConsumerGroup, calls: PopCalls, *, poll: float, order: bool) -> None:
        self._group = group
        self._calls = calls
        self._poll = poll
        self._order = order
        self._routes: dict[str, TopicRoute] = {}
        self._sources: dict[MessageQueue, Source] = {}
        self._arrived = asyncio.Event()
        self._turn = 0
        self.missing: RocketMQError | None = None
        self._missing: dict[str, FailureLog] = {}

    @property
    def all(self) -> list[Source]:
        """All sources, sorted by topic and broker name."""
        return [self._sources[queue] for queue in sorted(self._sources)]

    async def refresh(self) -> None:
        """Add and remove sources by the current subscriptions and routes.

        Call this before :meth:`ready` and :meth:`wait`: messages or changes reported after this call end that wait.
        """
        self._arrived.clear()
        self.missing = None
        found: dict[str, TopicRoute] = {}
        for topic in self._group.subscriptions:
            try:
                found[topic] = await self._group.instance.routes.get(topic)
            except (NoRouteError, NetworkError, BrokerError) as e:
                self.missing = e
                self._note_missing(topic, e)
        self._note_found(found)
        if len(found) == len(self._routes) and all(self._routes.get(topic) is route for topic, route in found.items()):
            return
        self._routes = found
        now = self._group.now()
        wanted = [
            MessageQueue(topic, broker, ALL_QUEUES)
            for topic, route in found.items()
            for broker in dict.fromkeys(queue.broker_name for queue in route.read_queues)
        ]
        for queue in [queue for queue in self._sources if queue not in wanted]:
            self._sources.pop(queue).close()
        for queue in wanted:
            if queue not in self._sources:
                failures = self._group.failure_log(("source", queue), queue.broker_name)
                delay = self._group.options.pull_delay_after_error
                self._sources[queue] = Source(queue, failures, now, delay, order=self._order)

    def _note_missing(self, topic: str, error: RocketMQError) -> None:
        failures = self._missing.get(topic)
        if failures is None:
            failures = self._missing[topic] = self._group.failure_log(("topic", topic), "")
        level = failures.failed(error)
        _log.log(level, "topic %s is not consumed for now%s: %s", topic, failures.duration, error)

    def _note_found(self, found: Collection[str]) -> None:
        """Clear the failures of topics that have a route again, or are no longer subscribed."""
        for topic in list(self._missing):
            if topic in found:
                level = self._missing.pop(topic).recovered()
                if level is not None:
                    _log.log(level, "topic %s is consumed again", topic)
            elif topic not in self._group.subscriptions:
                self._missing.pop(topic).close()

    def ready(self) -> list[Source]:
        """The sources to pop now, starting with a different one at each call."""
        sources = self.all
        if not sources:
            return []
        self._turn = (self._turn + 1) % len(sources)
        now = self._group.now()
        ordered = sources[self._turn :] + sources[: self._turn]
        return [source for source in ordered if source.is_ready and source.paused_until <= now]

    async def wait(self, seconds: float | None) -> None:
        """Wait until a source may have messages, :data:`REFRESH_INTERVAL` is over, or ``seconds`` (if not None)."""
        pauses = [REFRESH_INTERVAL]
        for source in self.all:
            if source.is_ready:
                pauses.append(max(0.0, source.paused_until - self._group.now()))
            elif source.watch is None:
                source.watch = asyncio.ensure_future(self._watch(source))
                source.watch.add_done_callback(self._watched(source))
        pause = min([*pauses, *([] if seconds is None else [seconds])])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._arrived.wait()

    async def _watch(self, source: Source) -> None:
        source.asked_at = self._group.now()
        try:
            if await self._calls.notified(source.queue, poll=self._poll, order=self._order):
                source.notified(self._group.now())
            else:
                source.answered()
        except RocketMQError as e:
            source.failed(e, self._group.now())
            if e.refresh_route:
                await self._group.instance.routes.refresh_all({source.queue.topic})

    def _watched(self, source: Source) -> Callable[[asyncio.Task[None]], None]:
        def over(watch: asyncio.Task[None]) -> None:
            if source.watch is watch:
                source.watch = None
            self._arrived.set()
            if not watch.cancelled() and watch.exception() is not None:
                _log.error("watching %s failed", source.queue, exc_info=watch.exception())
                source.is_ready = True
                source.paused_until = self._group.now() + REFRESH_INTERVAL

        return over

    def wake(self) -> None:
        """Make all calls of :meth:`wait` return."""
        self._arrived.set()

    async def close(self) -> None:
        """Cancel all notification requests and wait for their end."""
        watches = [source.watch for source in self._sources.values() if source.watch is not None]
        for source in self._sources.values():
            source.close()
        self.wake()
        await asyncio.gather(*watches, return_exceptions=True)
