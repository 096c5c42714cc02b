"""Adds the namespace of a producer to what it sends."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from rocketmq_py.core.producer.send_attempts import QueueChooser
from rocketmq_py.model import Message, MessageQueue
from rocketmq_py.protocol.namespaces import queue_without_namespace, with_namespace


def in_namespace(
    namespace: str,
    message: Message | Iterable[Message],
    queue: MessageQueue | None,
    choose: QueueChooser | None,
) -> tuple[Message | Iterable[Message], MessageQueue | None, QueueChooser | None]:
    """Add the namespace to the topics of messages (shallow copies), queue and chooser; returns these three."""
    if isinstance(message, Message):
        message = _renamed(namespace, message)
    else:
        message = [_renamed(namespace, each) for each in message]
    if queue is not None:
        queue = queue._replace(topic=with_namespace(namespace, queue.topic))
    return message, queue, None if choose is None else _chooser(namespace, choose)


def _renamed(namespace: str, message: Message) -> Message:
    renamed = copy.copy(message)
    renamed.topic = with_namespace(namespace, message.topic)
    return renamed


def _chooser(namespace: str, choose: QueueChooser) -> QueueChooser:
    def chosen(queues: Sequence[MessageQueue]) -> MessageQueue:
        queue = choose([queue_without_namespace(namespace, each) for each in queues])
        return queue._replace(topic=with_namespace(namespace, queue.topic))

    return chosen
