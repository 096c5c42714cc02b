"""Checks and encodes messages for the batches that a producer makes itself.

With natural batches, a message for any queue is sent directly, as without batches, if no send is in progress and the
last request of its topic had one message: so a sender that waits for each result pays nothing for batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rocketmq_py.client.routes import Routes
from rocketmq_py.client.send.batcher import BatchedSend, Batcher
from rocketmq_py.client.send.namespacing import in_namespace
from rocketmq_py.client.send.options import Options
from rocketmq_py.core.producer.accumulator import Lane
from rocketmq_py.core.producer.batched_message import goes_alone
from rocketmq_py.core.producer.outgoing_message import Packer
from rocketmq_py.core.producer.send_attempts import QueueChooser, SendAttempts
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import Message, MessageQueue

Admitted = SendAttempts | BatchedSend
"""What counts for the limits of sends in progress: a request, or a message that may leave in a batch."""


class Prepare(Protocol):
    """Checks and encodes a message for sending. Parameters and errors as of ``Sender.delivery``."""

    def __call__(
        self, message: Message, queue: MessageQueue | None, timeout: float | None, choose: QueueChooser | None = None, /
    ) -> Admitted: ...


PrepareBatch = Callable[[list[Message], MessageQueue | None, float | None], Admitted]
"""Checks and encodes messages for sending as one batch."""


class Prepares(Protocol):
    """What the preparation for batches needs of the sender."""

    def delivery(
        self,
        message: Message | list[Message],
        queue: MessageQueue | None,
        timeout: float | None,
        choose: QueueChooser | None = None,
    ) -> SendAttempts:
        """Check and encode a message, or several as a batch, for a request of its own."""
        ...

    def check_open(self) -> None:
        """Raise an error if the producer is closed."""
        ...

    @property
    def is_idle(self) -> bool:
        """True if no send is in progress."""
        ...

    def has(self, delivery: SendAttempts) -> bool:
        """Return True if this send is in progress."""
        ...


class BatchPreparation:
    """Prepares the messages of a producer that makes batches. Thread-safe."""

    def __init__(self, sender: Prepares, packer: Packer, options: Options, routes: Routes, batcher: Batcher) -> None:
        self._sender = sender
        self._packer = packer
        self._namespace = options.namespace
        self._timeout = options.send_timeout
        self._max_bytes = options.batch.max_bytes
        self._routes = routes
        self._batcher = batcher
        self.lanes: dict[str, Lane] = {}
        """The lane of each topic that messages for any queue were sent to."""
        self._direct: SendAttempts | None = None  # the last one for which nothing was under way

    def message(
        self, message: Message, queue: MessageQueue | None, timeout: float | None, choose: QueueChooser | None = None
    ) -> Admitted:
        """Check and encode a message for a batch, or for a request of its own if nothing is under way."""
        sent, there, choice = message, queue, choose
        if self._namespace is not None:
            renamed, there, choice = in_namespace(self._namespace, message, queue, choose)
            assert isinstance(renamed, Message)
            sent = renamed
        if choice is not None:
            route = self._routes.known(sent.topic)
            if route is None or not route.write_queues:
                return self._sender.delivery(message, None, timeout, choose)  # waits for the route, and chooses then
            there = choice(route.write_queues)
        if there is None:
            lane = self.lanes.get(sent.topic) or self.lanes.setdefault(sent.topic, Lane(sent.topic))
            if self._sender.is_idle and self._batcher.is_quiet(lane):
                self._direct = delivery = self._sender.delivery(message, None, timeout)
                return delivery
        else:
            check_topic(sent.topic, there)
            lane = Lane(sent.topic, there)
        return self._batched(sent, lane, timeout)

    def _follows(self, topic: str) -> bool:
        """Return True if a direct send to the topic is under way."""
        direct = self._direct
        if direct is None:
            return False
        if self._sender.has(direct):
            return direct.outgoing.topic == topic
        self._direct = None
        return False

    def _batched(self, message: Message, lane: Lane, timeout: float | None) -> BatchedSend:
        self._sender.check_open()
        now = time.time_ns() // 1_000_000
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        if len(message.body) >= self._max_bytes or goes_alone(message):
            outgoing = self._packer.pack(message, now)
            return BatchedSend(lane, None, outgoing, len(outgoing.body), deadline, outgoing.msg_id)
        record = self._packer.record(message, now, timeout)
        follows = self._direct is not None and self._follows(lane.topic)
        return BatchedSend(lane, record, None, len(record.record), deadline, record.msg_id, follows)

    def batch(self, batch: list[Message], queue: MessageQueue | None, timeout: float | None) -> BatchedSend:
        """Check and encode messages that the application sends as one batch."""
        delivery = self._sender.delivery(batch, queue, timeout)
        lane = Lane(delivery.outgoing.topic, delivery.queue)
        return BatchedSend(lane, None, delivery.outgoing, delivery.size, delivery.deadline, delivery.outgoing.msg_id)


def check_topic(topic: str, queue: MessageQueue) -> None:
    """Check that a queue belongs to a topic.

    :raises ConfigError: it does not.
    """
    if queue.topic != topic:
        raise ConfigError(f"a message of topic {topic!r} cannot be sent to queue {queue}")
