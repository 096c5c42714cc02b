"""What a lite pull consumer has pulled and the application has not yet asked for, and how far it has come.

Whatever is handed out counts as consumed: a queue's position, which a commit stores, moves then. Has one owner (the
consumer's event loop), so it needs no lock. Rules: DefaultLitePullConsumerImpl of Apache RocketMQ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rocketmq_py.core.consumer.flow_control import COUNT_EXCEEDED, FlowLimits, PullDecision, PullStep, decide_pull
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.sys_flag import PULL_LITE, PULL_SUBSCRIPTION, PULL_SUSPEND

PULL_FLAGS = PULL_SUSPEND | PULL_SUBSCRIPTION | PULL_LITE
"""The sysFlag of a lite pull: it may wait and carries its subscription, but never an offset to commit."""


class PulledBatch:
    """Messages of one pull; those before ``at`` are handed out."""

    __slots__ = ("at", "messages", "process")

    def __init__(self, process: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        self.process = process
        self.messages = messages
        self.at = 0


class MessageCache:
    """Pulled messages of all queues in order of arrival, the queues' positions, and which queues are paused.

    :param limits: how much of one queue may be held.
    :param limit_for_all: how many messages of all queues may be held, counting every batch as a full one.
    :param batch_size: the most messages of a batch.
    """

    __slots__ = ("_batch_size", "_batches", "_limit_for_all", "_limits", "paused", "positions")

    def __init__(self, limits: FlowLimits, limit_for_all: int, batch_size: int) -> None:
        self._limits = limits
        self._limit_for_all = limit_for_all
        self._batch_size = batch_size
        self._batches: deque[PulledBatch] = deque()
        self.positions: dict[MessageQueue, int] = {}
        self.paused: set[MessageQueue] = set()

    def decide_pull(
        self, process: ProcessQueue, *, running: bool, coming: int = 0, coming_bytes: int = 0
    ) -> PullDecision:
        """What to do about the next pull of a queue.

        :param coming: messages that are on their way into the queue, at most.
        :param coming_bytes: their size, at most.
        """
        admission = decide_pull(
            process, self._limits, running=running, suspended=process.queue in self.paused, subscribed=True,
            coming=coming, coming_bytes=coming_bytes,
        )  # fmt: skip
        full = len(self._batches) * self._batch_size > self._limit_for_all
        return COUNT_EXCEEDED if full and admission.step is PullStep.PULL else admission

    @property
    def empty(self) -> bool:
        """Whether there is nothing to hand out."""
        return self._oldest() is None

    # -- coming in

    def put(self, process: ProcessQueue, messages: Sequence[MessageExt], queue_end: int) -> None:
        """Takes in what a pull found.

        :param messages: at least one, in order of offset.
        :param queue_end: the queue's max offset as the pull response told it.
        """
        if not process.dropped:
            process.put(messages, queue_end)
            self._batches.append(PulledBatch(process, messages))

    def skip(self, process: ProcessQueue, offset: int) -> None:
        """Nothing is wanted of the queue before ``offset``: its position, unless messages of it are still held."""
        if not process.dropped and not process.count:
            self.positions[process.queue] = offset

    # -- going out

    def take(self) -> list[MessageExt]:
        """Hands out what is left of the oldest batch; empty when there is nothing."""
        batch = self._oldest()
        if batch is None:
            return []
        self._batches.popleft()
        messages = list(batch.messages[batch.at :])
        self._consumed(batch.process, messages)
        return messages

    def take_one(self) -> MessageExt | None:
        """Hands out the oldest message."""
        batch = self._oldest()
        if batch is None:
            return None
        message = batch.messages[batch.at]
        batch.at += 1
        if batch.at == len(batch.messages):
            self._batches.popleft()
        self._consumed(batch.process, [message])
        return message

    def borrow_batch(self) -> PulledBatch | None:
        """The oldest batch, to be handed out message by message, ``at`` counting them, and then settled."""
        batch = self._oldest()
        if batch is not None:
            self._batches.popleft()
        return batch

    def settle(self, batch: PulledBatch) -> None:
        """Takes a lent batch back: what was handed out is consumed, the rest comes next."""
        if batch.process.dropped:
            return
        self._consumed(batch.process, batch.messages[: batch.at])
        if batch.at < len(batch.messages):
            self._batches.appendleft(batch)

    def _oldest(self) -> PulledBatch | None:
        while self._batches:
            if not self._batches[0].process.dropped:
                return self._batches[0]
            self._batches.popleft()
        return None

    def _consumed(self, process: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        position = process.ack(messages)
        if position is not None:
            self.positions[process.queue] = position

    # -- queues that come and go

    def forget(self, process: ProcessQueue) -> None:
        """Lets go of a queue that is dropped: its messages, its position, and that it was paused."""
        self.positions.pop(process.queue, None)
        self.paused.discard(process.queue)
        self._batches = deque(batch for batch in self._batches if batch.process is not process)

    def move(self, old: ProcessQueue, new: ProcessQueue, position: int | None) -> None:
        """Goes on with ``new`` in the place of ``old`` and at another position; what is held of ``old`` is void."""
        old.dropped = True
        paused = old.queue in self.paused
        self.forget(old)
        if paused:
            self.paused.add(new.queue)
        if position is not None:
            self.positions[new.queue] = position
