"""Queue selectors for sends: functions of the writable queues, the message and the caller's key.

Java has SelectMessageQueueByHash and SelectMessageQueueByRandom; its SelectMessageQueueByMachineRoom is an empty shell.
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
"""Separates the machine room from the rest of a broker name, as the allocation strategy MACHINE_ROOM expects it."""


@dataclass(frozen=True, slots=True)
class SelectByHash:
    """The same queue for the same key, as long as the topic's queues do not change. Java selects the same queue."""

    def __call__(self, queues: Sequence[MessageQueue], message: Message, key: str | int) -> MessageQueue:
        """Select a queue."""
        del message
        return select_by_hash(queues, key)


@dataclass(frozen=True, slots=True)
class SelectRandomly:
    """Any queue, all with the same probability; the key is not used.

    :param below: returns a random number from 0 up to, but not including, its argument.
    """

    below: Callable[[int], int] = random.randrange

    def __call__(self, queues: Sequence[MessageQueue], message: Message, key: Any = None) -> MessageQueue:
        """Select a queue."""
        del message, key
        return queues[self.below(len(queues))]


@dataclass(frozen=True, slots=True)
class SelectByMachineRoom:
    """A queue on a broker named ``room@name`` with a room of ``rooms``; any queue while none of them has one.

    :param rooms: names of machine rooms.
    :param inner: chooses among the queues in these rooms.
    """

    rooms: Collection[str]
    inner: Callable[[Sequence[MessageQueue], Message, Any], MessageQueue] = SelectRandomly()

    def __call__(self, queues: Sequence[MessageQueue], message: Message, key: Any = None) -> MessageQueue:
        """Select a queue."""
        near = [queue for queue in queues if self._is_near(queue.broker_name)]
        return self.inner(near or queues, message, key)

    def _is_near(self, broker_name: str) -> bool:
        room, separator, _ = broker_name.partition(ROOM_SEPARATOR)
        return bool(separator) and room in self.rooms


@dataclass(frozen=True, slots=True)
class SelectByQueueId:
    """The queue with the number of the key.

    :param broker_name: of that broker; by default of the first broker that has the number.
    """

    broker_name: str | None = None

    def __call__(self, queues: Sequence[MessageQueue], message: Message, key: int) -> MessageQueue:
        """Select a queue.

        :raises ConfigError: there is no such queue.
        """
        for queue in queues:
            if queue.queue_id == key and self.broker_name in (None, queue.broker_name):
                return queue
        where = "" if self.broker_name is None else f" of broker {self.broker_name!r}"
        raise ConfigError(f"topic {message.topic!r} has no queue {key!r}{where} that can be written")
