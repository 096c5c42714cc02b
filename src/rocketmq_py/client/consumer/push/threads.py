"""The base class of the blocking push consumer: methods that differ from a plain call in the event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self, TypeVar

from rocketmq_py.client.consumer.blocking_member import BlockingMember
from rocketmq_py.client.consumer.dispatch.listeners import AnyListener
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.model import MessageQueue
from rocketmq_py.serde import Serde

F = TypeVar("F", bound=Callable[..., Any])


class PushMember(BlockingMember[PushConsumer]):
    """Base of the blocking push consumer: subscribe, close and queues for calls from any thread."""

    def _blocking_subscribe(self, topic: str, tags: str, listener: AnyListener | None, *, sql: str | None) -> None:
        self._call(lambda: self._aio.subscribe(topic, tags, listener, sql=sql))

    def _blocking_on(
        self, topic: str, tags: str, *, sql: str | None, type: type[Any] | Serde | None
    ) -> Callable[[F], F]:  # fmt: skip
        def subscribed(function: F) -> F:
            self._call(lambda: self._aio.on(topic, tags, sql=sql, type=type)(function))
            return function

        return subscribed

    def _blocking_close(self, timeout: float | None) -> None:
        """Close the consumer and wait for its end; in a listener's thread only start to close it, and return.

        A listener that waited would wait for its own end.
        """
        closing = self._portal.submit(self._aio.close(timeout))
        if not self._aio.is_listener_thread(threading.current_thread()):
            closing.result()

    def _blocking_queues(self) -> list[MessageQueue]:
        """Return the queues without a call into the event loop: a listener that runs in the loop may call this."""
        return self._aio.queues

    def __enter__(self) -> Self:
        if self._aio.topics():
            self.start()
        return self
