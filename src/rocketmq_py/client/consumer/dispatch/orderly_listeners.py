"""Listeners of an orderly consumer, and how the batches of a run get to them.

Knows call shapes, return values and exceptions. Refuses to know which thread it runs in and what becomes of a verdict.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from rocketmq_py.client.consumer.dispatch.listeners import RAISED, AnyListener, name_of, result_of_exception, shape_of
from rocketmq_py.core.consumer.orderly import OrderlyRun, read_orderly_result
from rocketmq_py.model import MessageExt, MessageQueue, OrderlyResult

_log = logging.getLogger(__name__)


class OrderlyContext:
    """What a listener of an orderly consumer may say beside its result.

    :ivar queue: where the messages come from.
    :ivar auto_commit: True: ``SUCCESS`` commits. Set to False, only ``OrderlyResult.COMMIT`` does, and ``ROLLBACK`` has
        everything since the last commit consumed again.
    :ivar suspend_seconds: how long the queue rests when the batch fails or is rolled back, 0.01 to 30; None: as the
        consumer is configured.
    """

    __slots__ = ("auto_commit", "queue", "suspend_seconds")

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.auto_commit = True
        self.suspend_seconds: float | None = None


class OrderlyListener:
    """A user's function, made fit for runs.

    :param function: takes one message, or a list of messages and an :class:`OrderlyContext`.
    :param batch_size: most messages a call may get.
    :raises ConfigError: it takes neither, or takes one message while ``batch_size`` asks for more.
    """

    def __init__(self, function: AnyListener, batch_size: int) -> None:
        self.is_async, self._takes_batch = shape_of(function, batch_size)
        self.batch_size = batch_size
        self._call: Callable[..., Any] = function

    def consume(self, run: OrderlyRun) -> None:
        """Takes a run to its end with a plain function."""
        while (batch := run.next(monotonic())) is not None:
            context = OrderlyContext(run.queue.queue)
            try:
                returned = self._call(list(batch), context) if self._takes_batch else self._call(batch[0])
            except RAISED as e:
                returned = result_of_exception(e, batch)
            self._report(run, batch, returned, context)

    async def aconsume(self, run: OrderlyRun) -> None:
        """As :meth:`consume`, with an ``async def``."""
        while (batch := run.next(monotonic())) is not None:
            context = OrderlyContext(run.queue.queue)
            try:
                returned = await (self._call(list(batch), context) if self._takes_batch else self._call(batch[0]))
            except RAISED as e:
                returned = result_of_exception(e, batch)
            self._report(run, batch, returned, context)

    def _report(self, run: OrderlyRun, batch: Sequence[MessageExt], returned: object, context: OrderlyContext) -> None:
        result = read_orderly_result(returned)
        if result is None:
            _log.error(
                "the listener %s returned %r: an OrderlyResult or None is expected; the queue is suspended",
                name_of(self._call), returned,
            )  # fmt: skip
            result = OrderlyResult.SUSPEND
        run.report(batch, result, auto_commit=context.auto_commit, pause=context.suspend_seconds)


RUNS_ASYNC = frozenset({OrderlyListener.aconsume.__code__})
"""The function that awaits listeners: whatever blocks above it in a stack is a listener."""
