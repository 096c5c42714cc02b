"""The queues of a lite pull consumer while it has them: a pull loop for each, and one cache for all.

Knows how a queue begins, jumps to another offset and ends. Refuses to know how the consumer came by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.lite_pull.options import LitePullOptions
from rocketmq_py.client.consumer.lite_pull.pull_loop import LitePullLoop
from rocketmq_py.core.consumer.lite_pull import MessageCache
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import SubscriptionData


class AssignedQueues:
    """What is pulled, and what of it waits for a poll.

    :param subscription: what is wanted of a topic.
    """

    def __init__(
        self, group: ConsumerGroup, options: LitePullOptions, subscription: Callable[[str], SubscriptionData]
    ) -> None:
        self._group = group
        self._options = options
        self._subscription = subscription
        self._loops: dict[ProcessQueue, tuple[LitePullLoop, asyncio.Task[None]]] = {}
        self.cache = MessageCache(group.options.limits, options.pull_threshold_for_all, options.pull_batch_size)
        self.arrived = asyncio.Event()

    def take(self, process: ProcessQueue, delay: float = 0.0, offset: int | None = None) -> None:
        """Begins to pull a queue after ``delay`` seconds, at ``offset`` or where the group is by then."""
        loop = LitePullLoop(
            self._group, self._options, process, self.cache, self._subscription, self.arrived.set, self.jump
        )  # fmt: skip
        self._loops[process] = loop, asyncio.ensure_future(loop.run(delay, offset))

    def release(self, process: ProcessQueue) -> None:
        """Ends the pulling of a queue; what is held of it is not delivered."""
        process.dropped = True
        self.cache.forget(process)
        self._end(process)

    def jump(self, old: ProcessQueue, offset: int | None) -> None:
        """Goes on at another offset of a queue; None: where the group is."""
        queue = old.queue
        new = self._group.queues[queue] = ProcessQueue(queue, self._group.now())
        self.cache.move(old, new, offset)
        self._end(old)
        self.take(new, offset=offset)

    def consumed(self, queue: MessageQueue) -> None:
        """Messages of a queue were handed out: a pull that waits for that may look again."""
        process = self._group.queues.get(queue)
        if process is not None:
            process.consumed_at = self._group.now()
            self._wake(process)

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Pulls nothing more of those of ``queues`` that are ours."""
        self.cache.paused.update(queue for queue in queues if queue in self._group.queues)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Pulls them again."""
        self.cache.paused.difference_update(queues)
        for queue in queues:
            process = self._group.queues.get(queue)
            if process is not None:
                self._wake(process)

    async def close(self) -> None:
        """Ends all pulling."""
        self.arrived.set()
        tasks = [task for _, task in self._loops.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loops.clear()

    def _wake(self, process: ProcessQueue) -> None:
        found = self._loops.get(process)
        if found is not None:
            found[0].wake()

    def _end(self, process: ProcessQueue) -> None:
        found = self._loops.pop(process, None)
        if found is not None:
            found[1].cancel()

    # -- offsets

    def commit_positions(self) -> None:
        """Remembers as committed whatever was handed out."""
        self.commit(self.cache.positions)

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Remembers offsets as committed, smaller ones than before, too."""
        for queue, offset in offsets.items():
            self._group.offsets.update(queue, offset, increase_only=False)
