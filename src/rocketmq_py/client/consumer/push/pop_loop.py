"""The pop loop of one assignment (a topic at a broker): pops messages and delivers them until the queue is released.

``core.consumer.flow_control`` decides when it pops. With ``pulls_in_flight`` above 1, each answer that is full starts
one more pop beside those in flight; such a pop is not held by the broker, and none follows one that was not full. So a
queue without further messages has one pop, which its broker holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from rocketmq_py.client.consumer.calls.pop_calls import AttemptIds, PopAnswer, PopCalls
from rocketmq_py.client.consumer.calls.pull_calls import WakeUp
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup, ConsumerState
from rocketmq_py.client.consumer.flow_control_log import FlowControlLog
from rocketmq_py.core.consumer.flow_control import PullDecision, PullStep, decide_pull, failure_delay
from rocketmq_py.core.consumer.pulls_ahead import most_in_flight
from rocketmq_py.core.pop.receipts import PoppedMessage, PopQueue, init_mode
from rocketmq_py.errors import RocketMQError

_log = logging.getLogger(__name__)

POLL_SECONDS = 15.0
"""Seconds a broker may hold a pop until a message arrives (long polling)."""

Deliver = Callable[[PopQueue, PopAnswer, float], None]
"""Gets popped messages, and when they become visible to other members: seconds of the group's monotonic clock."""


class PopLoop:
    """Pops the messages of one assignment.

    :param deliver: called with the popped messages, to pass them to listeners.
    :param give_back: called with popped messages that will not be consumed here; makes them visible to other members.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        queue: PopQueue,
        calls: PopCalls,
        deliver: Deliver,
        give_back: Callable[[Sequence[PoppedMessage]], None],
    ) -> None:
        self._group = group
        self._queue = queue
        self._calls = calls
        self._deliver = deliver
        self._give_back = give_back
        self._attempts = AttemptIds() if group.options.orderly else None
        self._failures = group.failure_log(("queue", queue.queue), queue.queue.broker_name)
        self._flow = FlowControlLog(group.name, queue)
        self._pause = WakeUp()
        self._late: set[asyncio.Future[None]] = set()
        self._is_popping = False
        self._ahead: set[asyncio.Task[None]] = set()
        options = group.options
        alone = options.orderly or options.pull_interval
        self._most_ahead = 0 if alone else most_in_flight(options.pulls_in_flight) - 1

    def wake(self) -> None:
        """Check now whether flow control still forbids to fetch messages, without waiting for the end of its pause."""
        self._pause.set()

    async def run(self) -> None:
        """Pop until the rebalance takes the assignment away (``dropped``)."""
        try:
            while not self._queue.dropped:
                await self._step()
        finally:
            ahead = list(self._ahead)
            for task in ahead:
                task.cancel()
            self._failures.close()
            await asyncio.gather(*ahead, return_exceptions=True)

    def _decide(self) -> PullDecision:
        """Decide whether flow control allows another pop; the pops in flight count with all they may bring."""
        options = self._group.options
        return decide_pull(
            self._queue,
            options.pop_limits,
            running=self._group.state is ConsumerState.RUNNING,
            suspended=self._group.suspended,
            subscribed=self._queue.queue.topic in self._group.announced,
            coming=(len(self._ahead) + self._is_popping) * options.pop_batch_size,
        )

    async def _step(self) -> None:
        """Pop once, or wait if flow control forbids it."""
        now = self._queue.pulled_at = self._group.now()
        limits = self._group.options.pop_limits
        decision = self._decide()
        if decision.step is PullStep.WAIT:
            self._flow.waits(decision, limits, now)
            await self._pause.wait(decision.delay)
            return
        self._flow.pulls(now)
        self._is_popping = True
        is_full, pause = await self._pop_or_fail(POLL_SECONDS)
        self._is_popping = False
        if is_full:
            self._pop_ahead()
        pause = pause or self._group.options.pull_interval
        if pause:
            await asyncio.sleep(pause)

    def _pop_ahead(self) -> None:
        """Start one more pop beside those in flight, if the limits allow it."""
        if len(self._ahead) < self._most_ahead and self._decide().step is PullStep.PULL:
            self._ahead.add(asyncio.ensure_future(self._ahead_once()))

    async def _ahead_once(self) -> None:
        is_full, _ = await self._pop_or_fail(0.0)
        task = asyncio.current_task()
        assert task is not None
        self._ahead.remove(task)
        if is_full:
            self._pop_ahead()

    async def _pop_or_fail(self, poll: float) -> tuple[bool, float]:
        """Pop once. Failures are logged.

        :param poll: seconds that the broker may hold the request until a message arrives.
        :returns: whether there were as many messages as asked for, and the seconds to wait after a failure.
        """
        try:
            return await self._pop(poll), 0.0
        except RocketMQError as e:
            return False, await self._failed(e)
        except Exception:  # noqa: BLE001 - a fault here must not end the consumption of a queue unnoticed
            _log.exception("popping %s failed", self._queue.queue)
            return False, self._group.options.pull_delay_after_error

    async def _pop(self, poll: float) -> bool:
        """Pop once and deliver the messages; returns True if there were as many as asked for."""
        group, options = self._group, self._group.options
        asked_at = group.now()
        call = asyncio.ensure_future(
            self._calls.pop(
                self._queue.queue, group.announced[self._queue.queue.topic], most=options.pop_batch_size,
                invisible=options.pop_invisible_time, poll=poll, start=init_mode(options.consume_from),
                order=self._attempts,
            )
        )  # fmt: skip
        try:
            answer = await asyncio.shield(call)
        except asyncio.CancelledError:
            late = asyncio.ensure_future(self._too_late(call))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            raise
        level = self._failures.recovered()
        if level is not None:
            _log.log(level, "popping %s works again", self._queue.queue)
        if answer is None:
            return False
        now = group.now()
        group.stats(self._queue.queue.topic).pulled.add(len(answer.popped), now - asked_at)
        self._deliver(self._queue, answer, now + options.pop_invisible_time)
        return len(answer.popped) + len(answer.unwanted) >= options.pop_batch_size

    async def _too_late(self, call: asyncio.Future[PopAnswer | None]) -> None:
        """Deliver the messages of a pop whose answer arrives after :meth:`run` was cancelled, or return them to the
        broker if the consumer has closed, no longer subscribes to the topic or consumes in order.
        """
        try:
            answer = await call
        except RocketMQError:
            return  # no messages
        if answer is None:
            return
        group = self._group
        wanted = group.state is ConsumerState.RUNNING and self._queue.queue.topic in group.subscriptions
        if wanted and not group.options.orderly:
            self._deliver(self._queue, answer, group.now() + group.options.pop_invisible_time)
        else:
            self._give_back(answer.popped)

    async def _failed(self, error: RocketMQError) -> float:
        """Log a failed pop, refresh the route if that may help, and return the seconds to wait before the next pop."""
        delay, queue = failure_delay(error, self._group.options.pull_delay_after_error), self._queue.queue
        level = self._failures.failed(error)
        _log.log(level, "popping %s failed%s, again in %g s: %s", queue, self._failures.duration, delay, error)
        if error.refresh_route:
            await self._group.instance.routes.refresh_all({queue.topic})
        return delay
