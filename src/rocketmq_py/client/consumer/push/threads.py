"""What the blocking push consumer does in the calling thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self, TypeVar

from rocketmq_py.client.consumer.blocking_member import BlockingMember
from rocketmq_py.client.consumer.dispatch.listeners import AnyListener
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.model import MessageQueue

F = TypeVar("F", bound=Callable[..., Any])


class PushMember(BlockingMember[PushConsumer]):
    """A push consumer for threads."""

    def _blocking_subscribe(self, topic: str, tags: str, listener: AnyListener | None, *, sql: str | None) -> None:
        self._call(lambda: self._aio.subscribe(topic, tags, listener, sql=sql))

    def _blocking_on(self, topic: str, tags: str, *, sql: str | None) -> Callable[[F], F]:
        def subscribed(function: F) -> F:
            self._blocking_subscribe(topic, tags, function, sql=sql)
            return function

        return subscribed

    def _blocking_close(self, timeout: float | None) -> None:
        """Close; in a listener, return immediately: it would wait for itself."""
        closing = self._portal.submit(self._aio.close(timeout))
        if not self._aio.is_listener_thread(threading.current_thread()):
            closing.result()

    def _blocking_queues(self) -> list[MessageQueue]:
        """Read without the loop: listeners that run in it may ask."""
        return self._aio.queues

    def __enter__(self) -> Self:
        if self._aio.topics():
            self.start()
        return self
