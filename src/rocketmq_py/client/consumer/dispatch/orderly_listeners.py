"""Calls the listener functions of orderly consumers with the messages of a run, and reads their return values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from rocketmq_py.client.consumer.dispatch.listeners import (
    RAISED,
    AnyListener,
    IllegalResults,
    result_of_exception,
    shape_of,
)
from rocketmq_py.core.consumer.orderly import OrderlyRun, read_orderly_result
from rocketmq_py.model import MessageExt, MessageQueue, OrderlyResult


class OrderlyContext:
    """The second argument of an orderly ``listener(messages, context)``, which may set commits and pauses.

    :ivar queue: the queue of the messages.
    :ivar auto_commit: True (default): ``SUCCESS`` commits. False: only ``OrderlyResult.COMMIT`` commits, and after
        ``ROLLBACK`` all messages since the last commit are consumed again.
    :ivar suspend_seconds: how long the queue pauses after the batch fails or is rolled back, 0.01 to 30 seconds; None:
        the consumer's ``suspend_seconds``.
    """

    __slots__ = ("auto_commit", "queue", "suspend_seconds")

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.auto_commit = True
        self.suspend_seconds: float | None = None


class OrderlyListener:
    """A user's listener function, wrapped to consume runs: messages of one queue, in order.

    :param function: takes one message, or a list of messages and an :class:`OrderlyContext`.
    :param batch_size: maximum number of messages per call.
    :raises ConfigError: ``function`` takes other arguments, or one message although ``batch_size`` is greater than 1.
    """

    def __init__(self, function: AnyListener, batch_size: int) -> None:
        self.is_async, self._takes_batch = shape_of(function, batch_size)
        self.batch_size = batch_size
        self._call: Callable[..., Any] = function
        self._illegal_results = IllegalResults(function)

    def consume(self, run: OrderlyRun) -> None:
        """Call a plain function with the batches of a run until the run ends."""
        while (batch := run.next(monotonic())) is not None:
            context = OrderlyContext(run.queue.queue) if self._takes_batch else None
            try:
                returned = self._call(list(batch), context) if self._takes_batch else self._call(batch[0])
            except RAISED as e:
                returned = result_of_exception(e, batch)
            self._report(run, batch, returned, context)

    async def aconsume(self, run: OrderlyRun) -> None:
        """Await an ``async def`` function with the batches of a run until the run ends."""
        while (batch := run.next(monotonic())) is not None:
            context = OrderlyContext(run.queue.queue) if self._takes_batch else None
            try:
                returned = await (self._call(list(batch), context) if self._takes_batch else self._call(batch[0]))
            except RAISED as e:
                returned = result_of_exception(e, batch)
            self._report(run, batch, returned, context)

    def _report(
        self, run: OrderlyRun, batch: Sequence[MessageExt], returned: object, context: OrderlyContext | None
    ) -> None:
        result = read_orderly_result(returned)
        if result is None:
            self._illegal_results.add(returned)
            result = OrderlyResult.SUSPEND
        if context is None:
            run.report(batch, result)
        else:
            run.report(batch, result, auto_commit=context.auto_commit, pause=context.suspend_seconds)


RUNS_ASYNC = frozenset({OrderlyListener.aconsume.__code__})
"""Code object of the function that awaits listeners: in a stack, the frames it has called belong to a listener."""
