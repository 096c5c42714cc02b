"""Which queues a read covers: those of topics, chosen by name or pattern, or single queues. No IO."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic


@dataclass(frozen=True, slots=True)
class Topics:
    """Option ``subscribe``: all queues of the named topics."""

    names: tuple[str, ...]

    def topics(self, existing: Callable[[], Iterable[str]]) -> list[str]:  # noqa: ARG002 - one interface of three
        """Return the topics to read, which may not exist: ``existing``, which looks up all topics, is not called."""
        return list(self.names)

    def wants(self, queue: MessageQueue) -> bool:
        """Return whether the selection includes ``queue``."""
        return queue.topic in self.names

    def __str__(self) -> str:
        return f"option subscribe names {', '.join(self.names)}"


@dataclass(frozen=True, slots=True)
class Matching:
    """Option ``subscribePattern``: all topics whose full name matches, except system topics.

    Retry and dead-letter topics (``%RETRY%…``, ``%DLQ%…``) match only if the pattern itself starts with ``%``.
    """

    pattern: re.Pattern[str]

    def topics(self, existing: Callable[[], Iterable[str]]) -> list[str]:
        """Return the topics whose names match, sorted; ``existing`` looks up the names of all topics."""
        return sorted(name for name in set(existing()) if self._matches(name))

    def wants(self, queue: MessageQueue) -> bool:
        """Return whether the selection includes ``queue``."""
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
    """Option ``assign``: exactly the named queues."""

    queues: frozenset[MessageQueue]

    def topics(self, existing: Callable[[], Iterable[str]]) -> list[str]:  # noqa: ARG002 - one interface of three
        """Return the topics to read, which may not exist: ``existing``, which looks up all topics, is not called."""
        return sorted({queue.topic for queue in self.queues})

    def wants(self, queue: MessageQueue) -> bool:
        """Return whether the selection includes ``queue``."""
        return queue in self.queues

    def __str__(self) -> str:
        return f"option assign names {', '.join(map(str, sorted(self.queues)))}"


Selection: TypeAlias = Topics | Matching | Assigned
