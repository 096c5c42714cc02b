"""Consumes by POP: a pop loop for each assignment (a topic at a broker), and the acks of popped messages.

Consumed messages are acked. The invisible time of a failed one is changed to its retry delay, which grows with each
attempt; then the broker delivers it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from rocketmq_py.client.consumer.calls.pop_calls import PopAnswer, PopCalls
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.dispatch.concurrent import Dispatcher
from rocketmq_py.client.consumer.push.pop_loop import PopLoop
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.pop.receipts import GIVE_BACK, PoppedMessage, PopQueue, are_retries_used_up, retry_delay
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageExt

_log = logging.getLogger(__name__)

ACK_AGAIN = 1.0
"""Seconds until a failed ack is sent again."""

DeadLetter = Callable[[MessageExt], Coroutine[Any, Any, bool]]
"""Sends a message without retries left to the dead-letter topic; returns True if the broker has confirmed it."""


class PopDelivery(Protocol):
    """Delivers popped messages to listeners, concurrently or in order."""

    def take(self, queue: PopQueue, popped: Sequence[PoppedMessage], visible_at: float) -> None:
        """Pass messages to listeners.

        :param visible_at: when they become visible to other members: seconds of the group's monotonic clock.
        """
        ...

    def drop(self, queue: PopQueue) -> None:
        """Return the messages of an assignment that no listener has started on to the broker."""
        ...

    def settled(self, queue: ProcessQueue) -> PopQueue:
        """Ack the messages of ``queue`` that listeners have consumed since the last call.

        :returns: the assignment (a topic at a broker) that the messages were popped for; ``queue`` itself, or the
            owner of an orderly queue.
        """
        ...

    async def close(self) -> None:
        """Return unconsumed messages to the broker. Call it after the listeners have ended."""
        ...


class PopAcks:
    """Acks consumed messages, in batches of several queues, and sets the retry delay of failed messages.

    :param dead_letter: sends messages without retries left to the dead-letter topic.
    """

    def __init__(self, group: ConsumerGroup, calls: PopCalls, dead_letter: DeadLetter) -> None:
        self._group = group
        self._calls = calls
        self._dead_letter = dead_letter
        self._outbox: list[tuple[PoppedMessage, float]] = []
        self._acking: asyncio.Task[None] | None = None
        self._work: set[asyncio.Future[Any]] = set()
        self._closing = False

    def done(self, popped: Sequence[tuple[PoppedMessage, float]]) -> None:
        """Ack messages in the background.

        :param popped: messages, each with the time when it becomes visible again, on the group's monotonic clock. One
            whose time is over is not acked: the broker delivers it again.
        """
        self._outbox += popped
        if self._outbox and self._acking is None:
            self._acking = asyncio.ensure_future(self._ack_all())

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine in the background; :meth:`close` waits for it."""
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def give_back(self, popped: Sequence[PoppedMessage]) -> None:
        """Make unconsumed messages visible to other members soon, in the background."""
        if popped:
            self.begin(self._calls.give_back(popped, GIVE_BACK))

    async def send_back(self, queue: PopQueue, message: MessageExt, level: int) -> bool:
        """Delay a failed message until its next delivery, or send it to the dead-letter topic if no retry is left.

        :param level: the delay level that the listener set: 0 for one that grows with the message's deliveries, -1 for
            the dead-letter topic.
        :returns: True always: if the broker cannot be reached, it delivers the message after the invisible time.
        """
        visible_at = self._group.now() + self._group.options.pop_invisible_time
        popped = queue.release(message, self._group.now())
        if popped is None:
            _log.warning("%r failed after its invisible time: it is being delivered again already", message)
        elif are_retries_used_up(message.reconsume_times, self._group.options.most_reconsume_times, level):
            await self.dead_letter(popped, visible_at)
        else:
            await self._hide(popped, retry_delay(message.reconsume_times, level))
        return True

    async def dead_letter(self, popped: PoppedMessage, visible_at: float) -> None:
        """Send a message to the dead-letter topic, and ack it if the broker has confirmed that.

        :param visible_at: when it becomes visible to other members: seconds of the group's monotonic clock.
        """
        if await self._dead_letter(popped.message):
            self.done([(popped, visible_at)])

    async def _hide(self, popped: PoppedMessage, seconds: float) -> None:
        try:
            await self._calls.extend(popped, seconds)
        except RocketMQError as e:
            _log.warning(
                "%r is delivered again when its invisible time ends, not in %d s: %s", popped.message, seconds, e
            )

    async def _ack_all(self) -> None:
        try:
            while self._outbox:
                now = self._group.now()
                fresh = [one for one in self._outbox if now < one[1]]
                late = len(self._outbox) - len(fresh)
                self._outbox = []
                if late:
                    _log.warning(
                        "listeners of group %s consumed %d messages after their invisible time: these are delivered "
                        "again; set pop_invisible_time to more than a listener takes", self._group.name, late,
                    )  # fmt: skip
                if fresh:
                    await self._ack(fresh)
        finally:
            self._acking = None

    async def _ack(self, messages: Sequence[tuple[PoppedMessage, float]]) -> None:
        ends = {id(popped.message): visible_at for popped, visible_at in messages}
        for part, error in await self._calls.ack([popped for popped, _ in messages]):
            _log.warning("acking %d messages of group %s failed: %s", len(part), self._group.name, error)
            if error.retryable and not self._closing:
                self.begin(self._again([(popped, ends[id(popped.message)]) for popped in part]))

    async def _again(self, messages: Sequence[tuple[PoppedMessage, float]]) -> None:
        await asyncio.sleep(ACK_AGAIN)
        self.done(messages)

    async def close(self) -> None:
        """Wait for acks and other requests in progress; from now on failed acks are not repeated."""
        self._closing = True
        while self._acking is not None or self._work:
            waiting = [*self._work] if self._acking is None else [*self._work, self._acking]
            await asyncio.wait(waiting)


class ConcurrentPopDelivery:
    """Delivers popped messages concurrently, in no order."""

    def __init__(self, group: ConsumerGroup, dispatcher: Dispatcher, acks: PopAcks) -> None:
        self._group = group
        self._dispatcher = dispatcher
        self._acks = acks

    def take(self, queue: PopQueue, popped: Sequence[PoppedMessage], visible_at: float) -> None:
        queue.take(popped, visible_at)
        self._dispatcher.submit(queue, [message for message, _ in popped])

    def drop(self, queue: PopQueue) -> None:
        now = self._group.now()
        left = [queue.release(message, now) for message in self._dispatcher.drop(queue)]
        self._acks.give_back([popped for popped in left if popped is not None])

    def settled(self, queue: ProcessQueue) -> PopQueue:
        assert isinstance(queue, PopQueue)
        self._acks.done(queue.to_ack())
        return queue

    async def close(self) -> None:
        """Do nothing: brokers deliver again what is not acked."""


class PopStrategy:
    """Runs a pop loop for each assignment of this consumer.

    :param acks: acks messages, and sends those without retries left to the dead-letter topic.
    :param delivery: passes the messages to listeners.
    """

    def __init__(self, group: ConsumerGroup, calls: PopCalls, acks: PopAcks, delivery: PopDelivery) -> None:
        self._group = group
        self._calls = calls
        self._acks = acks
        self._delivery = delivery
        self._pop_loops: dict[PopQueue, PopLoop] = {}
        self._tasks: dict[PopQueue, asyncio.Task[None]] = {}

    def take(self, queue: PopQueue) -> None:
        """Start to pop an assignment, at once: members that pop the same queues get different messages."""
        loop = self._pop_loops[queue] = PopLoop(
            self._group, queue, self._calls, self._deliver, self._acks.give_back
        )  # fmt: skip
        self._tasks[queue] = asyncio.ensure_future(loop.run())

    def _deliver(self, queue: PopQueue, answer: PopAnswer, visible_at: float) -> None:
        most = self._group.options.most_reconsume_times
        self._acks.done([(popped, visible_at) for popped in answer.unwanted])
        worn = [popped for popped in answer.popped if popped.message.reconsume_times > most]
        for popped in worn:
            self._acks.begin(self._acks.dead_letter(popped, visible_at))
        alive = [popped for popped in answer.popped if popped not in worn] if worn else answer.popped
        if alive:
            self._delivery.take(queue, alive, visible_at)

    def drop(self, queue: PopQueue) -> None:
        """Stop popping an assignment, and return its unconsumed messages to the broker."""
        self._pop_loops.pop(queue, None)
        task = self._tasks.pop(queue, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        self._delivery.drop(queue)

    def wake(self, queue: ProcessQueue) -> None:
        """Ack newly consumed messages, and check flow control now, because messages were removed from memory."""
        loop = self._pop_loops.get(self._delivery.settled(queue))
        if loop is not None:
            loop.wake()

    def wake_all(self) -> None:
        """Check flow control of all assignments now, because the application has resumed the suspended consumer."""
        for loop in self._pop_loops.values():
            loop.wake()

    async def close(self) -> None:
        """Stop popping all assignments."""
        tasks = list(self._tasks.values())
        for queue in list(self._tasks):
            self.drop(queue)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def finish(self) -> None:
        """Ack consumed messages and return the others to the broker. Call it after the listeners have ended."""
        await self._delivery.close()
        await self._acks.close()
