"""The message cache of a lite pull consumer, and its positions.

Messages count as consumed when they are returned to the application; the queue's position, which a commit stores, moves
then. Used by the consumer's event loop alone, so it needs no lock. Rules: DefaultLitePullConsumerImpl of Apache
RocketMQ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rocketmq_py.core.consumer.flow_control import COUNT_EXCEEDED, FlowLimits, PullDecision, PullStep, decide_pull
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.sys_flag import PULL_LITE, PULL_SUBSCRIPTION, PULL_SUSPEND

PULL_FLAGS = PULL_SUSPEND | PULL_SUBSCRIPTION | PULL_LITE
"""The sysFlag of a lite pull: it may wait and carries its subscription, but no offset to commit."""


class PulledBatch:
    """Messages of one pull; those before ``at`` have been returned to the application."""

    __slots__ = ("at", "messages", "process")

    def __init__(self, process: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        self.process = process
        self.messages = messages
        self.at = 0


class MessageCache:
    """Pulled messages of all queues in order of arrival, with the queues' positions and the paused queues.

    :param limits: limits of one queue.
    :param limit_for_all: limit of messages of all queues, counting every batch as a full one.
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
        """Decide about the next pull of a queue.

        :param coming: the most messages that pulls in flight may still return.
        :param coming_bytes: the most bytes they may return.
        """
        admission = decide_pull(
            process, self._limits, running=running, suspended=process.queue in self.paused, subscribed=True,
            coming=coming, coming_bytes=coming_bytes,
        )  # fmt: skip
        full = len(self._batches) * self._batch_size > self._limit_for_all
        return COUNT_EXCEEDED if full and admission.step is PullStep.PULL else admission

    @property
    def empty(self) -> bool:
        """True if there is no message."""
        return self._oldest() is None

    # -- coming in

    def put(self, process: ProcessQueue, messages: Sequence[MessageExt], queue_end: int) -> None:
        """Add the messages of a pull.

        :param messages: at least one, in order of offset.
        :param queue_end: max offset of the queue in the pull response.
        """
        if not process.dropped:
            process.put(messages, queue_end)
            self._batches.append(PulledBatch(process, messages))

    def skip(self, process: ProcessQueue, offset: int) -> None:
        """Move the position of a queue to ``offset`` after a pull without matches, unless messages of the queue are
        cached.
        """
        if not process.dropped and not process.count:
            self.positions[process.queue] = offset

    # -- going out

    def take(self) -> list[MessageExt]:
        """Return the rest of the oldest batch; empty if there is none."""
        batch = self._oldest()
        if batch is None:
            return []
        self._batches.popleft()
        messages = list(batch.messages[batch.at :])
        self._consumed(batch.process, messages)
        return messages

    def take_one(self) -> MessageExt | None:
        """Return the oldest message."""
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
        """Remove the oldest batch for a caller that takes single messages from it, counting them in ``at``."""
        batch = self._oldest()
        if batch is not None:
            self._batches.popleft()
        return batch

    def settle(self, batch: PulledBatch) -> None:
        """Put a borrowed batch back: messages before ``at`` are consumed, the rest comes next."""
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
        """Remove a dropped queue: its messages, its position and its paused state."""
        self.positions.pop(process.queue, None)
        self.paused.discard(process.queue)
        self._batches = deque(batch for batch in self._batches if batch.process is not process)

    def move(self, old: ProcessQueue, new: ProcessQueue, position: int | None) -> None:
        """Replace ``old`` with ``new`` at another position; the cached messages of ``old`` are discarded."""
        old.dropped = True
        paused = old.queue in self.paused
        self.forget(old)
        if paused:
            self.paused.add(new.queue)
        if position is not None:
            self.positions[new.queue] = position
