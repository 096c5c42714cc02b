"""The pop strategy: a pop loop for each assignment, and what listeners said of popped messages told to the brokers.

Done messages are acked, those that failed stay invisible for longer each time. Refuses to know how a pop is made
(``push_popper``, ``pop_calls``) and what listeners do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.dispatch.concurrent import Dispatcher
from rocketmq_py.client.consumer.pop_calls import PopAnswer, PopCalls
from rocketmq_py.client.consumer.push.pop_loop import PopLoop
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.pop.receipts import GIVE_BACK, PoppedMessage, PopQueue, are_retries_used_up, retry_delay
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageExt

_log = logging.getLogger(__name__)

ACK_AGAIN = 1.0
"""Seconds until messages are acked again whose broker did not take it."""

DeadLetter = Callable[[MessageExt], Coroutine[Any, Any, bool]]
"""Takes a message that has used up its deliveries out of the way; tells whether that is certain."""


class PopDelivery(Protocol):
    """The way of popped messages to listeners."""

    def take(self, queue: PopQueue, popped: Sequence[PoppedMessage], visible_at: float) -> None:
        """Has listeners consume messages, ours until ``visible_at``."""
        ...

    def drop(self, queue: PopQueue) -> None:
        """Begins no further message of an assignment that is no longer ours, and gives those back."""
        ...

    def settled(self, queue: ProcessQueue) -> PopQueue:
        """Listeners have results for messages; returns the assignment they were popped for."""
        ...

    async def close(self) -> None:
        """The listeners have ended: sees to what is left."""
        ...


class PopAcks:
    """Tells brokers what became of messages: acks those of all queues together, as fast as brokers take them.

    :param dead_letter: takes messages away that have used up their deliveries.
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
        """Has messages acked; beside each stands when it lapses."""
        self._outbox += popped
        if self._outbox and self._acking is None:
            self._acking = asyncio.ensure_future(self._ack_all())

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Does something whose end only :meth:`close` waits for."""
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def give_back(self, popped: Sequence[PoppedMessage]) -> None:
        """Has messages delivered again soon that were popped for nobody."""
        if popped:
            self.begin(self._calls.give_back(popped, GIVE_BACK))

    async def send_back(self, queue: PopQueue, message: MessageExt, level: int) -> bool:
        """Has a message delivered again later, by its count or by the level its listener asked for.

        What the broker does not hear of it finds out itself when the message lapses: either way it is certain.
        """
        visible_at = self._group.now() + self._group.options.pop_invisible_time
        popped = queue.release(message, self._group.now())
        if popped is None:
            _log.warning("%r failed after its time was over: it is being delivered again already", message)
        elif are_retries_used_up(message.reconsume_times, self._group.options.most_reconsume_times, level):
            await self.dead_letter(popped, visible_at)
        else:
            await self._hide(popped, retry_delay(message.reconsume_times, level))
        return True

    async def dead_letter(self, popped: PoppedMessage, visible_at: float) -> None:
        """Has a message kept as a dead letter, and not delivered again once that is certain."""
        if await self._dead_letter(popped.message):
            self.done([(popped, visible_at)])

    async def _hide(self, popped: PoppedMessage, seconds: float) -> None:
        try:
            await self._calls.extend(popped, seconds)
        except RocketMQError as e:
            _log.warning("%r is delivered again when its time is over, not in %d s: %s", popped.message, seconds, e)

    async def _ack_all(self) -> None:
        try:
            while self._outbox:
                now = self._group.now()
                fresh = [one for one in self._outbox if now < one[1]]
                late = len(self._outbox) - len(fresh)
                self._outbox = []
                if late:
                    _log.warning(
                        "listeners of group %s were done with %d messages after their time was over: these are "
                        "delivered again; set pop_invisible_time to more than a listener takes", self._group.name, late,
                    )  # fmt: skip
                if fresh:
                    await self._ack(fresh)
        finally:
            self._acking = None

    async def _ack(self, messages: Sequence[tuple[PoppedMessage, float]]) -> None:
        has_invisible_time = {id(popped.message): visible_at for popped, visible_at in messages}
        for part, error in await self._calls.ack([popped for popped, _ in messages]):
            _log.warning("acking %d messages of group %s failed: %s", len(part), self._group.name, error)
            if error.retryable and not self._closing:
                self.begin(self._again([(popped, has_invisible_time[id(popped.message)]) for popped in part]))

    async def _again(self, messages: Sequence[tuple[PoppedMessage, float]]) -> None:
        await asyncio.sleep(ACK_AGAIN)
        self.done(messages)

    async def close(self) -> None:
        """Waits until the brokers know what there is to tell; what they cannot be told once is not tried again."""
        self._closing = True
        while self._acking is not None or self._work:
            waiting = [*self._work] if self._acking is None else [*self._work, self._acking]
            await asyncio.wait(waiting)


class ConcurrentPopDelivery:
    """Popped messages are consumed several at a time, in no order."""

    def __init__(self, group: ConsumerGroup, dispatcher: Dispatcher, receipts: PopAcks) -> None:
        self._group = group
        self._dispatcher = dispatcher
        self._acks = receipts

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
        """There is nothing left: what lapses, brokers deliver again."""


class PopStrategy:
    """Pops for the assignments it is given until they are dropped.

    :param listeners: takes the messages.
    """

    def __init__(self, group: ConsumerGroup, calls: PopCalls, receipts: PopAcks, listeners: PopDelivery) -> None:
        self._group = group
        self._calls = calls
        self._acks = receipts
        self._listeners = listeners
        self._poppers: dict[PopQueue, PopLoop] = {}
        self._loops: dict[PopQueue, asyncio.Task[None]] = {}

    def take(self, queue: PopQueue) -> None:
        """Begins to pop at once: whoever else pops there gets other messages."""
        popper = self._poppers[queue] = PopLoop(
            self._group, queue, self._calls, self._deliver, self._acks.give_back
        )  # fmt: skip
        self._loops[queue] = asyncio.ensure_future(popper.run())

    def _deliver(self, queue: PopQueue, answer: PopAnswer, visible_at: float) -> None:
        most = self._group.options.most_reconsume_times
        self._acks.done([(popped, visible_at) for popped in answer.unwanted])
        worn = [popped for popped in answer.popped if popped.message.reconsume_times > most]
        for popped in worn:
            self._acks.begin(self._acks.dead_letter(popped, visible_at))
        alive = [popped for popped in answer.popped if popped not in worn] if worn else answer.popped
        if alive:
            self._listeners.take(queue, alive, visible_at)

    def drop(self, queue: PopQueue) -> None:
        """Ends the popping; what a pop under way brings is given back."""
        self._poppers.pop(queue, None)
        loop = self._loops.pop(queue, None)
        if loop is not None and loop is not asyncio.current_task():
            loop.cancel()
        self._listeners.drop(queue)

    def wake(self, queue: ProcessQueue) -> None:
        """The queue holds less than before: a pop that waits for that may look again, and results are told."""
        popper = self._poppers.get(self._listeners.settled(queue))
        if popper is not None:
            popper.wake()

    def wake_all(self) -> None:
        """The consumer pops again."""
        for popper in self._poppers.values():
            popper.wake()

    async def close(self) -> None:
        """Ends all popping."""
        loops = list(self._loops.values())
        for queue in list(self._loops):
            self.drop(queue)
        await asyncio.gather(*loops, return_exceptions=True)

    async def finish(self) -> None:
        """Tells the brokers of all results; the listeners have ended."""
        await self._listeners.close()
        await self._acks.close()
