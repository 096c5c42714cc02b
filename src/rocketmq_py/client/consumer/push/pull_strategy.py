"""Consumes by pull: runs one pull loop for each queue that the consumer owns."""

from __future__ import annotations

import asyncio

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.dispatch.concurrent import Dispatcher
from rocketmq_py.client.consumer.push.pull_loop import PullEvents, PullLoop
from rocketmq_py.core.consumer.process_queue import ProcessQueue


class PullStrategy:
    """Runs a pull loop for each queue that this consumer owns.

    :param dispatcher: gets the messages.
    :param events: gets lost connections, illegal offsets and deleted topics.
    """

    def __init__(self, group: ConsumerGroup, dispatcher: Dispatcher, events: PullEvents) -> None:
        self._group = group
        self._dispatcher = dispatcher
        self._events = events
        self._pull_loops: dict[ProcessQueue, PullLoop] = {}
        self._tasks: dict[ProcessQueue, asyncio.Task[None]] = {}

    def take(self, queue: ProcessQueue, delay: float) -> None:
        """Start to pull a queue after ``delay`` seconds, at the offset that is committed by that time."""
        loop = self._pull_loops[queue] = PullLoop(self._group, queue, self._dispatcher, self._events)
        self._tasks[queue] = asyncio.ensure_future(loop.run(delay))

    def drop(self, queue: ProcessQueue) -> None:
        """Stop pulling a queue; the answer to a pull in progress is ignored."""
        self._pull_loops.pop(queue, None)
        task = self._tasks.pop(queue, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def close(self) -> None:
        """Stop pulling all queues."""
        tasks = list(self._tasks.values())
        for queue in list(self._tasks):
            self.drop(queue)
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self, queue: ProcessQueue) -> None:
        """Check flow control of a queue now, because messages of it were removed from memory."""
        loop = self._pull_loops.get(queue)
        if loop is not None:
            loop.wake()

    def wake_all(self) -> None:
        """Check flow control of all queues now, because the application has resumed the suspended consumer."""
        for loop in self._pull_loops.values():
            loop.wake()
