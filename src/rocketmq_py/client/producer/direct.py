"""The fast path of blocking sends: the calling thread itself talks to the broker.

If the topic's route is not cached or the attempt fails, the asyncio producer continues the send in the portal's loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from time import monotonic
from typing import Any

from rocketmq_py.client.facade import BlockingFacade
from rocketmq_py.client.producer import producer as aio
from rocketmq_py.client.producer.producer import QueueSelector, chooser
from rocketmq_py.client.send.batcher import BatchedSend
from rocketmq_py.client.send.futures import ThreadFuture
from rocketmq_py.client.send.preparing import Admitted
from rocketmq_py.client.send.targets import Target, outcome_of
from rocketmq_py.core.peer import Reply
from rocketmq_py.core.producer.send_attempts import SendAttempts
from rocketmq_py.errors import NetworkError, RocketMQError
from rocketmq_py.model import Message, MessageQueue, SendResult
from rocketmq_py.remoting.blocking import DirectConnections


class DirectProducer(BlockingFacade[aio.Producer]):
    """A blocking producer whose calling threads send over their own sockets, not through the event loop's thread.

    A send uses the event loop while the topic's route is not cached or no broker address is known, and for retries.
    """

    def _wrap(self, made: aio.Producer) -> None:
        super()._wrap(made)
        self._direct: DirectConnections | None = None

    @property
    def group(self) -> str:
        """The producer group, with the namespace prefix."""
        return self._aio.group

    def _blocking_start(self) -> None:
        self._run(self._aio.start())
        if self._direct is None:
            self._direct = DirectConnections(self._aio.sender.connections)

    def _blocking_close(self) -> None:
        self._run(self._aio.close())
        if self._direct is not None:
            self._direct.close()

    def _blocking_send(self, message: Message, queue: MessageQueue | None, timeout: float | None) -> SendResult:
        hooks = self._aio.hooks
        if hooks is not None:
            return hooks.around([message], lambda: self._send(self._aio.sender.prepare(message, queue, timeout)))
        return self._send(self._aio.sender.prepare(message, queue, timeout))

    def _blocking_send_async(
        self, message: Message, queue: MessageQueue | None, timeout: float | None
    ) -> Future[SendResult]:
        if self._aio.hooks is not None:
            return self._aio.hooks.follow([message], lambda: self._send_async(message, queue, timeout))
        return self._send_async(message, queue, timeout)

    def _send_async(self, message: Message, queue: MessageQueue | None, timeout: float | None) -> Future[SendResult]:
        return self._post(self._aio.sender.prepare(message, queue, timeout))

    def _post(self, delivery: Admitted) -> Future[SendResult]:
        """Have the event loop send a message once the limits of sends in progress admit it; return its future."""
        future: Future[SendResult] = Future()
        future.set_running_or_notify_cancel()
        self._begin(delivery, future)
        return future

    def _begin(self, delivery: Admitted, future: Future[SendResult] | ThreadFuture) -> None:
        sender = self._aio.sender
        sender.admit_when_possible(delivery, self._portal.check)
        self._portal.post(lambda: sender.begin(delivery, future))

    def _blocking_send_oneway(self, message: Message, queue: MessageQueue | None) -> None:
        if self._aio.hooks is not None:
            with self._aio.hooks.during([message]):
                self._send_oneway(message, queue)
        else:
            self._send_oneway(message, queue)

    def _send_oneway(self, message: Message, queue: MessageQueue | None) -> None:
        sender = self._aio.sender
        self._let_batches_leave(message.topic)
        delivery = sender.delivery(message, queue)
        target = sender.target(delivery)
        if target is None or self._direct is None:
            self._run(sender.deliver_oneway(delivery))
            return
        head, frame = target.head, delivery.outgoing.frame
        self._direct.oneway(target.address, lambda opaque: frame(head, opaque, oneway=True), delivery.deadline)

    def _blocking_send_batch(
        self, messages: Iterable[Message], queue: MessageQueue | None, timeout: float | None
    ) -> SendResult:
        batch = list(messages)
        hooks = self._aio.hooks
        if hooks is not None:
            return hooks.around(batch, lambda: self._send(self._aio.sender.prepare_batch(batch, queue, timeout)))
        return self._send(self._aio.sender.prepare_batch(batch, queue, timeout))

    def _blocking_send_ordered(
        self, message: Message, key: Any, selector: QueueSelector | None, timeout: float | None
    ) -> SendResult:
        choose = chooser(message, key, selector)
        hooks = self._aio.hooks
        if hooks is not None:
            return hooks.around([message], lambda: self._send(self._aio.sender.prepare(message, None, timeout, choose)))
        return self._send(self._aio.sender.prepare(message, None, timeout, choose))

    def _let_batches_leave(self, topic: str) -> None:
        """Have the event loop send the messages of a topic that wait for a batch, before this thread sends."""
        sender = self._aio.sender
        if sender.batcher is not None:
            self._call(lambda: sender.let_batches_leave(topic))

    def _send(self, delivery: Admitted) -> SendResult:
        self._portal.check()
        if isinstance(delivery, BatchedSend):
            future = ThreadFuture()
            self._begin(delivery, future)
            return future.result()
        sender = self._aio.sender
        sender.occupy_thread(delivery)
        try:
            target = sender.target(delivery)
            outcome = None
            if target is not None and self._direct is not None:
                began = monotonic()
                outcome = _attempt(self._direct, delivery, target)
                sender.ended(target, began, outcome)
            if isinstance(outcome, SendResult):
                return outcome
            return self._run(sender.deliver(delivery, outcome))
        finally:
            sender.free_thread(delivery)


def _attempt(connections: DirectConnections, delivery: SendAttempts, target: Target) -> SendResult | RocketMQError:
    head, frame = target.head, delivery.outgoing.frame
    answer: Reply | NetworkError
    try:
        answer = connections.exchange(target.address, lambda opaque: frame(head, opaque), delivery.until)
    except NetworkError as e:
        answer = e
    return outcome_of(delivery, target, answer)
