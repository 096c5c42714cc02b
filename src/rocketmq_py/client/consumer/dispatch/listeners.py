"""Listeners: the functions users write, and how the messages of a slice get to them.

Knows call shapes, return values and exceptions. Refuses to know which thread it runs in and what becomes of a result.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from operator import length_hint
from time import monotonic
from typing import Any, NamedTuple, Protocol

from rocketmq_py.core.consumer.consume_result import ACK_ALL, read_result, split_batch
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeResult, MessageExt, MessageQueue, OrderlyResult

_log = logging.getLogger(__name__)

_SUCCESS = ConsumeResult.SUCCESS
_LATER = ConsumeResult.RECONSUME_LATER
RAISED = (Exception, SystemExit, asyncio.CancelledError)
"""What a listener may raise without ending its worker."""

Result = ConsumeResult | OrderlyResult | None
Returned = Result | Awaitable[Result]
OneMessage = Callable[[MessageExt], Returned]
Batch = Callable[[list[MessageExt], Any], Returned]
AnyListener = OneMessage | Batch
"""``listener(message)`` or ``listener(messages, context)``, a plain function or ``async def``.

Returning None or ``ConsumeResult.SUCCESS`` means the messages are done. ``ConsumeResult.RECONSUME_LATER``, an
exception, or any other value (which is logged) means: deliver them again later. The context is a
:class:`ConsumeContext`, or an :class:`~rocketmq_py.OrderlyContext` in an orderly consumer.
"""


class ConsumeContext:
    """What a listener of a batch may say beside its result.

    :ivar queue: where the messages come from.
    :ivar ack_index: index of the last message that is done although the listener returns success for all of them;
        those behind it are delivered again. -1: none is done. Left alone: all are.
    :ivar delay_level: when failed messages are delivered again: 0 lets the broker choose, longer each time; 1-18 is one
        of its fixed delays; -1 sends them straight to the dead letters.
    """

    __slots__ = ("ack_index", "delay_level", "queue")

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.ack_index = ACK_ALL
        self.delay_level = 0


class ListenerFailure(NamedTuple):
    """A message to be delivered again, and the delay level its listener asked for."""

    message: MessageExt
    delay_level: int = 0


class ConsumeRequest:
    """Messages of one queue on their way through a listener.

    Workers share ``pending``, whose every step belongs to one of them alone, so a slow message holds up nobody but its
    own worker. ``done``, ``failed`` and ``lapsed`` (those whose time was over before they began) only ever grow; the
    owner, in another thread, reads what is new of them.
    """

    __slots__ = ("_arguments", "_seen_done", "_seen_failed", "_source", "calls", "done", "exhausted", "failed",
                 "lapsed", "listener", "pending", "queue", "seconds", "size", "topic")  # fmt: skip

    def __init__(self, queue: ProcessQueue, topic: str, messages: Sequence[MessageExt], listener: Listener) -> None:
        arguments = listener.arguments(messages)
        self.queue = queue
        self.topic = topic
        self.listener = listener
        self.size = len(messages)
        self.calls = len(arguments)
        self._arguments = arguments
        self._source: Iterator[Any] = iter(arguments)
        self.pending: Iterator[Any] = (
            filter(self._may_begin, self._source) if queue.has_invisible_time else self._source
        )
        self.lapsed: list[MessageExt] = []
        self.exhausted = False
        self.seconds = 0.0  # of all workers; for statistics, so that two may add at once
        self.done: list[MessageExt] = []
        self.failed: list[ListenerFailure] = []
        self._seen_done = self._seen_failed = 0

    @property
    def finished(self) -> int:
        """Messages that have a result."""
        return len(self.done) + len(self.failed) + len(self.lapsed)

    @property
    def is_complete(self) -> bool:
        return self.finished == self.size

    def new_results(self) -> tuple[list[MessageExt], list[ListenerFailure]]:
        """Done and failed messages since the last time it was asked. For the owner only."""
        done, failed = self.done[self._seen_done :], self.failed[self._seen_failed :]
        self._seen_done += len(done)
        self._seen_failed += len(failed)
        return done, failed

    def running_calls(self) -> list[Sequence[MessageExt]]:
        """The messages of each call that has begun and not ended. For the owner only, and not once abandoned."""
        begun = self._arguments[: self.calls - length_hint(self._source)]
        results = {*self.done, *self.lapsed, *(failure.message for failure in self.failed)}
        return [call for call in map(_messages_of, begun) if call[0] not in results]

    def cancel_pending(self) -> list[MessageExt]:
        """Lets no worker begin another message; those begun go on. Returns the others, no longer part of it."""
        left = [message for argument in self._source for message in _messages_of(argument)]
        self.size -= len(left)
        self.exhausted = True
        return left

    def _may_begin(self, argument: Any) -> bool:
        """Whether a call may begin, or its messages are being delivered to others. Workers ask one after the other."""
        messages = _messages_of(argument)
        if self.queue.is_fresh(messages[0], monotonic()):
            return True
        self.lapsed.extend(messages)
        return False


def _messages_of(argument: Any) -> Sequence[MessageExt]:
    """What one call of a listener gets."""
    return (argument,) if isinstance(argument, MessageExt) else argument


class Listener(Protocol):
    """A user's function, made fit for slices."""

    is_async: bool

    def arguments(self, messages: Sequence[MessageExt]) -> Sequence[Any]:
        """What each call gets, so that together they consume ``messages``."""
        ...

    def run(self, request: ConsumeRequest) -> int:
        """Consumes what is left of a slice with a plain function; returns the number of calls it made."""
        ...

    async def arun(self, request: ConsumeRequest) -> int:
        """As :meth:`run`, with an ``async def``."""
        ...


class _Single:
    """``listener(message)``."""

    def __init__(self, function: OneMessage, *, is_async: bool) -> None:
        self.is_async = is_async
        self._call: Callable[[MessageExt], Any] = function

    def arguments(self, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        return messages

    def run(self, request: ConsumeRequest) -> int:
        call, done, calls = self._call, request.done.append, 0
        for message in request.pending:
            calls += 1
            try:
                returned = call(message)
            except RAISED as e:
                returned = result_of_exception(e, message)
            if returned is None or returned is _SUCCESS:
                done(message)
            else:
                self._failed(request, message, returned)
        request.exhausted = True
        return calls

    async def arun(self, request: ConsumeRequest) -> int:
        calls = 0
        for message in request.pending:
            calls += 1
            try:
                returned = await self._call(message)
            except RAISED as e:
                returned = result_of_exception(e, message)
            if returned is None or returned is _SUCCESS:
                request.done.append(message)
            else:
                self._failed(request, message, returned)
        request.exhausted = True
        return calls

    def _failed(self, request: ConsumeRequest, message: MessageExt, returned: object) -> None:
        _checked_result(returned, self._call)
        request.failed.append(ListenerFailure(message))


class _Batched:
    """``listener(messages, context)`` with up to ``size`` messages a call."""

    def __init__(self, function: Batch, size: int, *, is_async: bool) -> None:
        self.is_async = is_async
        self._size = size
        self._call: Callable[[list[MessageExt], ConsumeContext], Any] = function

    def arguments(self, messages: Sequence[MessageExt]) -> Sequence[list[MessageExt]]:
        return [list(messages[at : at + self._size]) for at in range(0, len(messages), self._size)]

    def run(self, request: ConsumeRequest) -> int:
        calls = 0
        for messages in request.pending:
            calls += 1
            context = ConsumeContext(request.queue.queue)
            try:
                returned = self._call(messages.copy(), context)
            except RAISED as e:
                returned = result_of_exception(e, messages)
            self._settle(request, messages, returned, context)
        request.exhausted = True
        return calls

    async def arun(self, request: ConsumeRequest) -> int:
        calls = 0
        for messages in request.pending:
            calls += 1
            context = ConsumeContext(request.queue.queue)
            try:
                returned = await self._call(messages.copy(), context)
            except RAISED as e:
                returned = result_of_exception(e, messages)
            self._settle(request, messages, returned, context)
        request.exhausted = True
        return calls

    def _settle(
        self, request: ConsumeRequest, messages: list[MessageExt], returned: object, context: ConsumeContext
    ) -> None:
        done, failed = split_batch(_checked_result(returned, self._call), messages, context.ack_index)
        request.done.extend(done)
        request.failed.extend([ListenerFailure(message, context.delay_level) for message in failed])


RUNS_ASYNC = frozenset({_Single.arun.__code__, _Batched.arun.__code__})
"""The functions that await listeners: whatever blocks above them in a stack is a listener."""


def result_of_exception(error: BaseException, what: object) -> ConsumeResult:
    """What an exception of a listener means: again later. Only the end of the listener's own task goes on."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
    _log.error("the listener failed on %r; delivered again later", what, exc_info=error)
    return _LATER


def _checked_result(returned: object, function: Callable[..., Any]) -> ConsumeResult:
    result = read_result(returned)
    if result is None:
        _log.error(
            "the listener %s returned %r: a ConsumeResult or None is expected; the messages are delivered again",
            name_of(function), returned,
        )  # fmt: skip
        return _LATER
    return result


def make_listener(function: AnyListener, batch_size: int) -> Listener:
    """A listener for slices.

    :param function: takes one message, or a list of messages and a :class:`ConsumeContext`.
    :param batch_size: most messages a call may get.
    :raises ConfigError: it takes neither, or takes one message while ``batch_size`` asks for more.
    """
    shape = shape_of(function, batch_size)
    if shape.takes_batch:
        return _Batched(function, batch_size, is_async=shape.is_async)  # type: ignore[arg-type]
    return _Single(function, is_async=shape.is_async)  # type: ignore[arg-type]


class Shape(NamedTuple):
    """How a listener is to be called."""

    is_async: bool
    takes_batch: bool


def shape_of(function: AnyListener, batch_size: int) -> Shape:
    """The shape of a user's function.

    :raises ConfigError: it is no listener, or takes one message while ``batch_size`` asks for more.
    """
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
    parameters = _parameters(function)
    if parameters == 2:
        return Shape(is_async, takes_batch=True)
    if parameters != 1:
        raise ConfigError(
            f"the listener {name_of(function)} takes {parameters} arguments; write listener(message) or "
            "listener(messages, context)"
        )
    if batch_size > 1:
        raise ConfigError(
            f"the listener {name_of(function)} takes one message, but consume_batch_size is {batch_size}; write "
            "listener(messages, context)"
        )
    return Shape(is_async, takes_batch=False)


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _parameters(function: object) -> int:
    """How many arguments a listener is to be called with: its required ones; one when it takes any number."""
    if not callable(function):
        raise ConfigError(f"a listener must be callable, {function!r} is not")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # some callables written in C do not tell
        return 1
    required = sum(p.kind in _POSITIONAL and p.default is inspect.Parameter.empty for p in parameters)
    takes_any = any(p.kind in (*_POSITIONAL, inspect.Parameter.VAR_POSITIONAL) for p in parameters)
    return required or int(takes_any)


def name_of(function: object) -> str:
    """What to call a listener in a message."""
    return getattr(function, "__qualname__", None) or repr(function)
