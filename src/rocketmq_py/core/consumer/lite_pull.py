"""The message cache of a lite pull consumer, and its positions in the queues.

Messages count as consumed when they are returned to the application; then the queue's position moves, which a commit
stores. Only the consumer's event loop uses the cache, so it needs no lock. Rules: DefaultLitePullConsumerImpl of Apache
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
"""The sysFlag of a lite pull: the broker may hold it, and it contains the subscription, but no offset to commit."""


class PulledBatch:
    """The messages of one pull, and the index (``at``) of the first one not yet returned to the application."""

    __slots__ = ("at", "messages", "process")

    def __init__(self, process: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        self.process = process
        self.messages = messages
        self.at = 0


class MessageCache:
    """The pulled messages of all queues in order of arrival, the queues' positions and the paused queues.

    :param limits: limits of the messages of one queue.
    :param limit_for_all: limit of the messages of all queues; each batch counts as ``batch_size`` messages.
    :param batch_size: maximum number of messages of a pull.
    :ivar positions: offset of the next message to return to the application, by queue.
    :ivar paused: queues that are not pulled.
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
        """Decide whether to pull a queue now.

        :param running: True if the consumer is started and not closed.
        :param coming: maximum number of messages that pulls in flight may still return.
        :param coming_bytes: maximum number of bytes that pulls in flight may still return.
        """
        admission = decide_pull(
            process, self._limits, running=running, suspended=process.queue in self.paused, subscribed=True,
            coming=coming, coming_bytes=coming_bytes,
        )  # fmt: skip
        full = len(self._batches) * self._batch_size > self._limit_for_all
        return COUNT_EXCEEDED if full and admission.step is PullStep.PULL else admission

    @property
    def empty(self) -> bool:
        """True if no message is cached."""
        return self._oldest() is None

    # -- coming in

    def put(self, process: ProcessQueue, messages: Sequence[MessageExt], queue_end: int) -> None:
        """Add the messages of a pull; ignored if the queue was dropped.

        :param messages: at least one message, in order of offset.
        :param queue_end: max offset of the queue in the pull response.
        """
        if not process.dropped:
            process.put(messages, queue_end)
            self._batches.append(PulledBatch(process, messages))

    def skip(self, process: ProcessQueue, offset: int) -> None:
        """Set the position of a queue after a pull that returned no matching message.

        Ignored if messages of the queue are cached, or the queue was dropped.
        """
        if not process.dropped and not process.count:
            self.positions[process.queue] = offset

    # -- going out

    def take(self) -> list[MessageExt]:
        """Remove the oldest batch and return its remaining messages, which then count as consumed.

        Empty if no message is cached.
        """
        batch = self._oldest()
        if batch is None:
            return []
        self._batches.popleft()
        messages = list(batch.messages[batch.at :])
        self._consumed(batch.process, messages)
        return messages

    def take_one(self) -> MessageExt | None:
        """Remove and return the oldest message, which then counts as consumed; None without one."""
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
        """Remove and return the oldest batch, so that the caller can take single messages from it; None without one.

        The caller increases ``at`` by one for each message that it takes, and then passes the batch to :meth:`settle`.
        """
        batch = self._oldest()
        if batch is not None:
            self._batches.popleft()
        return batch

    def settle(self, batch: PulledBatch) -> None:
        """Return a borrowed batch: messages before ``at`` count as consumed, the others are returned next."""
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
        """Remove the messages, the position and the paused state of a queue."""
        self.positions.pop(process.queue, None)
        self.paused.discard(process.queue)
        self._batches = deque(batch for batch in self._batches if batch.process is not process)

    def move(self, old: ProcessQueue, new: ProcessQueue, position: int | None) -> None:
        """Replace a queue's process queue after a seek, and set its position; the cached messages are discarded.

        :param old: the present process queue, which is marked as dropped.
        :param new: the new process queue; it stays paused if the queue is.
        :param position: the new position; None leaves the queue without one.
        """
        old.dropped = True
        paused = old.queue in self.paused
        self.forget(old)
        if paused:
            self.paused.add(new.queue)
        if position is not None:
            self.positions[new.queue] = position
