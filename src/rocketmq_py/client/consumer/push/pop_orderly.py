"""Orderly delivery of popped messages: the messages of a queue go to a listener one after the other.

A broker returns the next messages of a queue when all messages of the last pop are acked or visible again. A run is
the popped messages of one queue: each message is acked when its listener has succeeded, and until then the invisible
time of the rest is extended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from rocketmq_py.client.consumer.calls.pop_calls import PopCalls
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.dispatch.orderly import OrderlyDispatcher
from rocketmq_py.client.consumer.push.pop_strategy import PopAcks
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.pop.receipts import RENEW_AT, PoppedMessage, PopQueue, PopRun, split_by_queue
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageExt, MessageQueue

_log = logging.getLogger(__name__)

CLOSE_TIMEOUT = 1.0
"""Seconds that :meth:`OrderlyPopDelivery.close` waits for runs before it cancels them."""


class OrderlyPopDelivery:
    """Delivers popped messages in order within each queue; different queues are consumed concurrently."""

    def __init__(self, group: ConsumerGroup, dispatcher: OrderlyDispatcher, calls: PopCalls, acks: PopAcks) -> None:
        self._group = group
        self._dispatcher = dispatcher
        self._calls = calls
        self._acks = acks
        self._over: dict[PopRun, asyncio.Event] = {}
        self._latest: dict[MessageQueue, PopRun] = {}
        self._running: set[asyncio.Task[None]] = set()

    def take(self, queue: PopQueue, popped: Sequence[PoppedMessage], visible_at: float) -> None:
        queue.take(popped, visible_at)
        for run in split_by_queue(queue, popped, self._group.now(), visible_at):
            self._over[run] = asyncio.Event()
            before, self._latest[run.queue] = self._latest.get(run.queue), run
            task = asyncio.ensure_future(self._consume(run, before))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def drop(self, queue: PopQueue) -> None:
        for run in [run for run in self._over if run.owner is queue]:
            run.dropped = True
            self._over[run].set()

    def settled(self, queue: ProcessQueue) -> PopQueue:
        assert isinstance(queue, PopRun)
        owner = queue.owner
        owner.ack(queue.take_done())
        self._acks.done(owner.to_ack())
        over = self._over.get(queue)
        if over is not None and not queue.count:
            over.set()
        return owner

    async def close(self) -> None:
        for over in self._over.values():
            over.set()
        if self._running:
            _, stuck = await asyncio.wait(self._running, timeout=CLOSE_TIMEOUT)
            for task in stuck:  # its listener still runs after the close timeout
                task.cancel()

    # -- one run

    async def _consume(self, run: PopRun, before: PopRun | None) -> None:
        """Pass the messages of a run to their listener, then return the unconsumed ones to the broker.

        :param before: the last run of the same queue, whose listener must end first.
        """
        try:
            if before is not None:  # its listener may still run although its invisible time has ended
                await self._dispatcher.wait_idle(before)
            if not run.dropped:
                self._dispatcher.submit(run, run.waiting())
            await self._keep_invisible(run)
            run.dropped = True
            self._dispatcher.drop(run)
            await self._dispatcher.wait_idle(run)
        finally:
            del self._over[run]
            if self._latest.get(run.queue) is run:
                del self._latest[run.queue]
        self._give_back(run)

    async def _keep_invisible(self, run: PopRun) -> None:
        """Extend the invisible time of the messages in ``run`` again and again, until no more is needed or possible.

        That is, until they are consumed, the run is dropped, or their invisible time is over.
        """
        invisible = self._group.options.pop_invisible_time
        while not self._over[run].is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(invisible * RENEW_AT):
                    await self._over[run].wait()
            if self._over[run].is_set():
                return
            asked_at = self._group.now()
            if await self._extend(run, run.waiting(), asked_at + invisible):
                run.visible_at = asked_at + invisible
            elif not run.is_usable(self._group.now()):
                _log.warning(
                    "%d messages of %s are delivered again: their invisible time is over", run.count, run.queue
                )
                return

    async def _extend(self, run: PopRun, messages: Sequence[MessageExt], visible_at: float) -> bool:
        try:
            for one in run.owner.receipts(messages):
                receipt = await self._calls.extend(one, self._group.options.pop_invisible_time)
                run.owner.renew(one.message, receipt, visible_at)
        except RocketMQError as e:
            _log.warning("the invisible time of messages of %s cannot be extended: %s", run.queue, e)
            return False
        return True

    def _give_back(self, run: PopRun) -> None:
        self.settled(run)
        now = self._group.now()
        left = [run.owner.release(message, now) for message in run.waiting()]
        self._acks.give_back([popped for popped in left if popped is not None])
