"""The pull strategy: a pull loop for each queue the consumer holds.

Refuses to know how queues were allocated, how one is pulled (``push_puller``) and what listeners do.
"""

from __future__ import annotations

import asyncio

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.dispatch.concurrent import Dispatcher
from rocketmq_py.client.consumer.push.pull_loop import IllegalOffset, PullLoop
from rocketmq_py.core.consumer.process_queue import ProcessQueue


class PullStrategy:
    """Pulls the queues it is given until they are dropped.

    :param dispatcher: takes the messages.
    :param on_illegal_offset: puts right an offset that a broker refuses.
    """

    def __init__(self, group: ConsumerGroup, dispatcher: Dispatcher, on_illegal_offset: IllegalOffset) -> None:
        self._group = group
        self._dispatcher = dispatcher
        self._on_illegal_offset = on_illegal_offset
        self._pullers: dict[ProcessQueue, PullLoop] = {}
        self._loops: dict[ProcessQueue, asyncio.Task[None]] = {}

    def take(self, queue: ProcessQueue, delay: float) -> None:
        """Begins to pull a queue after ``delay`` seconds, from where the group is by then."""
        puller = self._pullers[queue] = PullLoop(self._group, queue, self._dispatcher, self._on_illegal_offset)
        self._loops[queue] = asyncio.ensure_future(puller.run(delay))

    def drop(self, queue: ProcessQueue) -> None:
        """Ends the pulling of a queue; a pull that is under way no longer matters."""
        self._pullers.pop(queue, None)
        loop = self._loops.pop(queue, None)
        if loop is not None and loop is not asyncio.current_task():
            loop.cancel()

    async def close(self) -> None:
        """Ends all pulling."""
        loops = list(self._loops.values())
        for queue in list(self._loops):
            self.drop(queue)
        await asyncio.gather(*loops, return_exceptions=True)

    def wake(self, queue: ProcessQueue) -> None:
        """The queue holds less than before: a pull that waits for that may look again."""
        puller = self._pullers.get(queue)
        if puller is not None:
            puller.wake()

    def wake_all(self) -> None:
        """The consumer pulls again."""
        for puller in self._pullers.values():
            puller.wake()
