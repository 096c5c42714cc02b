"""Queue selectors for ``send_ordered``: callables that pick one of the writable queues, by message and key.

Java has SelectMessageQueueByHash and SelectMessageQueueByRandom; its SelectMessageQueueByMachineRoom does nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from rocketmq_py.core.producer.send_attempts import select_by_hash
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import Message, MessageQueue

ROOM_SEPARATOR = "@"
"""Separates the machine room from the rest of a broker name, as for the allocation strategy MACHINE_ROOM."""


@dataclass(frozen=True, slots=True)
class SelectByHash:
    """Selects a queue by the hash of the key: the same one as Java, as long as the topic's queues do not change."""

    def __call__(self, queues: Sequence[MessageQueue], message: Message, key: str | int) -> MessageQueue:
        """Return the queue for ``key``."""
        del message
        return select_by_hash(queues, key)


@dataclass(frozen=True, slots=True)
class SelectRandomly:
    """Selects a queue at random, all with the same probability; the key is not used.

    :param below: returns a random integer from 0 (inclusive) to its argument (exclusive).
    """

    below: Callable[[int], int] = random.randrange

    def __call__(self, queues: Sequence[MessageQueue], message: Message, key: Any = None) -> MessageQueue:
        """Return a random queue."""
        del message, key
        return queues[self.below(len(queues))]


@dataclass(frozen=True, slots=True)
class SelectByMachineRoom:
    """Selects among the queues of brokers named ``room@name`` with a room in ``rooms``; without any, among all queues.

    :param rooms: names of machine rooms.
    :param inner: the selector that picks one of these queues.
    """

    rooms: Collection[str]
    inner: Callable[[Sequence[MessageQueue], Message, Any], MessageQueue] = SelectRandomly()

    def __call__(self, queues: Sequence[MessageQueue], message: Message, key: Any = None) -> MessageQueue:
        """Return the queue that ``inner`` picks in these rooms."""
        near = [queue for queue in queues if self._is_near(queue.broker_name)]
        return self.inner(near or queues, message, key)

    def _is_near(self, broker_name: str) -> bool:
        room, separator, _ = broker_name.partition(ROOM_SEPARATOR)
        return bool(separator) and room in self.rooms


@dataclass(frozen=True, slots=True)
class SelectByQueueId:
    """Selects the queue whose queue id is the key.

    :param broker_name: the broker of the queue; None: the first broker that has a queue with this id.
    """

    broker_name: str | None = None

    def __call__(self, queues: Sequence[MessageQueue], message: Message, key: int) -> MessageQueue:
        """Return the queue with the queue id ``key``.

        :raises ConfigError: there is no such queue.
        """
        for queue in queues:
            if queue.queue_id == key and self.broker_name in (None, queue.broker_name):
                return queue
        where = "" if self.broker_name is None else f" of broker {self.broker_name!r}"
        raise ConfigError(f"topic {message.topic!r} has no queue {key!r}{where} that can be written")
