"""The base class of the blocking lite pull consumer: polls return messages of the handoff without a call into the
event loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator
from time import monotonic, time_ns
from types import TracebackType

from rocketmq_py.client.consumer.blocking_member import BlockingMember
from rocketmq_py.client.consumer.lite_pull.consumer import LitePullConsumer
from rocketmq_py.client.consumer.lite_pull.topic_watch import TopicQueuesChanged
from rocketmq_py.client.hooks.hooks import report_received
from rocketmq_py.model import MessageExt, MessageQueue


class LitePullMember(BlockingMember[LitePullConsumer]):
    """Base of the blocking lite pull consumer: poll and iteration in the calling thread."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._aio.close(commit=error is None))

    def _blocking_assign(self, queues: Iterable[MessageQueue], tags: str, *, sql: str | None) -> None:
        wanted = list(queues)  # a generator runs in the calling thread
        self._call(lambda: self._aio.assign(wanted, tags, sql=sql))

    def _blocking_on_queues_changed(self, topic: str, listener: TopicQueuesChanged) -> None:
        async def changed(topic: str, queues: list[MessageQueue]) -> None:
            answer = await asyncio.to_thread(listener, topic, queues)
            if inspect.isawaitable(answer):
                await answer

        self._call(lambda: self._aio.on_queues_changed(topic, changed))

    def _blocking_poll(self, timeout: float | None) -> list[MessageExt]:
        handoff, began_ns = self._aio.handoff, time_ns()
        batch = handoff.take()
        if batch is None:
            left = _time_left(timeout)
            self._run(self._aio.fill_handoff(timeout))
            while (batch := handoff.take()) is None:  # another thread may have been quicker
                if left() == 0:
                    return []
                self._run(self._aio.fill_handoff(left()))
        messages = list(batch.messages[batch.at :])
        batch.at = len(batch.messages)
        handoff.taken(batch)
        report_received(self._aio.hooks, self._aio.group, messages, began_ns)
        return messages

    def __iter__(self) -> Iterator[MessageExt]:
        handoff, hooks = self._aio.handoff, self._aio.hooks
        while (batch := handoff.take()) is not None or self._run(self._aio.fill_handoff_or_end()):
            if batch is None:
                continue
            try:
                while batch.at < len(batch.messages) and not batch.process.dropped:
                    batch.at += 1
                    message = batch.messages[batch.at - 1]
                    if hooks:
                        report_received(hooks, self._aio.group, [message], time_ns())
                    yield message
            finally:  # an iterator may be ended by the garbage collector, in any thread
                handoff.taken(batch)


def _time_left(timeout: float | None) -> Callable[[], float | None]:
    """Return a function that returns the seconds left of ``timeout``, which starts now; None if there is no limit."""
    if timeout is None:
        return lambda: None
    end = monotonic() + timeout
    return lambda: max(0.0, end - monotonic())
