"""The queues that a lite pull consumer owns: runs a pull loop for each; all loops fill one message cache."""

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
    """Runs the pull loops of the owned queues, and caches their messages for polls.

    :param subscription: returns the subscription of a topic.
    :ivar arrived: set when the cache gets messages, and by :meth:`close`.
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
        """Start to pull a queue after ``delay`` seconds, at ``offset``; None starts at the committed offset."""
        loop = LitePullLoop(
            self._group, self._options, process, self.cache, self._subscription, self.arrived.set, self.move
        )  # fmt: skip
        self._loops[process] = loop, asyncio.ensure_future(loop.run(delay, offset))

    def release(self, process: ProcessQueue) -> None:
        """Stop pulling a queue and discard its cached messages."""
        process.dropped = True
        self.cache.forget(process)
        self._stop(process)

    def move(self, old: ProcessQueue, offset: int | None) -> None:
        """Discard a queue's cached messages and pull from ``offset`` on; None means the committed offset."""
        queue = old.queue
        new = self._group.queues[queue] = ProcessQueue(queue, self._group.now())
        self.cache.move(old, new, offset)
        self._stop(old)
        self.take(new, offset=offset)

    def consumed(self, queue: MessageQueue) -> None:
        """Make the queue's pull loop check flow control again, after a poll has returned messages of the queue."""
        process = self._group.queues.get(queue)
        if process is not None:
            process.consumed_at = self._group.now()
            self._wake(process)

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Stop pulling these queues until :meth:`resume`; queues that this consumer does not own are ignored."""
        self.cache.paused.update(queue for queue in queues if queue in self._group.queues)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Pull paused queues again."""
        self.cache.paused.difference_update(queues)
        for queue in queues:
            process = self._group.queues.get(queue)
            if process is not None:
                self._wake(process)

    async def close(self) -> None:
        """Stop pulling all queues."""
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

    def _stop(self, process: ProcessQueue) -> None:
        found = self._loops.pop(process, None)
        if found is not None:
            found[1].cancel()

    # -- offsets

    def commit_positions(self) -> None:
        """Set the offsets to commit, in memory, to those after the messages that polls have returned."""
        self.commit(self.cache.positions)

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Set the offsets to commit, in memory, without storing them; they may be smaller than the previous ones."""
        for queue, offset in offsets.items():
            self._group.offsets.update(queue, offset, increase_only=False)
