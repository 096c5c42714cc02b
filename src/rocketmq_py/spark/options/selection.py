"""The selection of a read: topics by name or pattern, or single queues. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic


@dataclass(frozen=True, slots=True)
class Topics:
    """Option ``subscribe``."""

    names: tuple[str, ...]

    def topics(self, existing: Callable[[], Iterable[str]]) -> list[str]:  # noqa: ARG002 - one interface of three
        """The topics to read, asked for or not whether they exist."""
        return list(self.names)

    def wants(self, queue: MessageQueue) -> bool:
        """Whether a queue belongs to it."""
        return queue.topic in self.names

    def __str__(self) -> str:
        return f"option subscribe names {', '.join(self.names)}"


@dataclass(frozen=True, slots=True)
class Matching:
    """Option ``subscribePattern``: every topic whose whole name matches, but not the brokers' own.

    Dead letters and retries are meant only by a pattern that begins as they do, with ``%``.
    """

    pattern: re.Pattern[str]

    def topics(self, existing: Callable[[], Iterable[str]]) -> list[str]:
        """The topics to read, of those that exist."""
        return sorted(name for name in set(existing()) if self._matches(name))

    def wants(self, queue: MessageQueue) -> bool:
        """Whether a queue belongs to it."""
        return self._matches(queue.topic)

    def _matches(self, topic: str) -> bool:
        if is_system_topic(topic):
            return False
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) and not self.pattern.pattern.startswith("%"):
            return False
        return self.pattern.fullmatch(topic) is not None

    def __str__(self) -> str:
        return f"option subscribePattern is {self.pattern.pattern}"


@dataclass(frozen=True, slots=True)
class Assigned:
    """Option ``assign``."""

    queues: frozenset[MessageQueue]

    def topics(self, existing: Callable[[], Iterable[str]]) -> list[str]:  # noqa: ARG002 - one interface of three
        """The topics to read, asked for or not whether they exist."""
        return sorted({queue.topic for queue in self.queues})

    def wants(self, queue: MessageQueue) -> bool:
        """Whether a queue belongs to it."""
        return queue in self.queues

    def __str__(self) -> str:
        return f"option assign names {', '.join(map(str, sorted(self.queues)))}"


Selection: TypeAlias = Topics | Matching | Assigned
