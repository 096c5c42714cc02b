"""Calls the listener functions of concurrent consumers, and reads their return values and exceptions.

A consume request holds the messages to pass to a listener and their results, which the dispatcher handles.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from operator import length_hint
from time import monotonic
from typing import Any, Literal, NamedTuple, Protocol

from rocketmq_py.core.consumer.consume_result import ACK_ALL, read_result, split_batch
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeResult, MessageExt, MessageQueue, OrderlyResult

_log = logging.getLogger(__name__)

_SUCCESS = ConsumeResult.SUCCESS
_LATER = ConsumeResult.RECONSUME_LATER
RAISED = (Exception, SystemExit, asyncio.CancelledError)
"""Exceptions of listeners that count as a failed message; any other one ends the worker, too."""
LOG_INTERVAL = 60.0
"""Seconds between log lines about illegal results of one listener."""

Result = ConsumeResult | OrderlyResult | Literal[True] | None
Returned = Result | Awaitable[Result]
OneMessage = Callable[[MessageExt], Returned]
Batch = Callable[[list[MessageExt], Any], Returned]
AnyListener = OneMessage | Batch
"""``listener(message)`` or ``listener(messages, context)``, a plain function or ``async def``.

None, True, ``ConsumeResult.SUCCESS``, ``OrderlyResult.SUCCESS`` and ``OrderlyResult.COMMIT`` are a success. After
``ConsumeResult.RECONSUME_LATER``, ``OrderlyResult.SUSPEND`` or an exception the messages are delivered again. Any other
value is logged as an error, at most once a minute, and the messages are delivered again. The context is a
:class:`ConsumeContext`, or an :class:`~rocketmq_py.OrderlyContext` in an orderly consumer.
"""


class ConsumeContext:
    """The second argument of ``listener(messages, context)``: tells which messages failed, and how long to delay them.

    :ivar queue: the queue of the messages.
    :ivar ack_index: for a listener that returns success: the index of the last successful message. Later ones failed;
        -1 means that all failed. By default all succeeded.
    :ivar delay_level: the delay of failed messages. 0: the broker chooses it, longer each time; 1 to 18: one of the
        broker's delay levels; -1: to the dead-letter topic at once.
    """

    __slots__ = ("ack_index", "delay_level", "queue")

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.ack_index = ACK_ALL
        self.delay_level = 0


class ListenerFailure(NamedTuple):
    """A failed message, and the delay level that its listener set."""

    message: MessageExt
    delay_level: int = 0


class ConsumeRequest:
    """Messages of one queue that were submitted together, and the results of their listener (Java: ConsumeRequest).

    Several workers may run a request: each takes the next call from ``pending``, so that a slow message delays only its
    own worker. Workers append to ``done``, ``failed`` and ``expired`` (messages whose invisible time ended before their
    call); the dispatcher reads new entries in the event loop.

    :ivar calls: the number of listener calls that the messages need.
    :ivar exhausted: True if no call is left to start.
    :ivar seconds: the run time of all workers together.
    """

    __slots__ = ("_arguments", "_seen_done", "_seen_failed", "_source", "calls", "done", "exhausted", "expired",
                 "failed", "listener", "pending", "queue", "seconds", "size", "topic")  # fmt: skip

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
        self.expired: list[MessageExt] = []
        self.exhausted = False
        self.seconds = 0.0  # of all workers; statistics only, so an update lost in a race does no harm
        self.done: list[MessageExt] = []
        self.failed: list[ListenerFailure] = []
        self._seen_done = self._seen_failed = 0

    @property
    def finished(self) -> int:
        """The number of messages that have a result."""
        return len(self.done) + len(self.failed) + len(self.expired)

    @property
    def is_complete(self) -> bool:
        return self.finished == self.size

    def new_results(self) -> tuple[list[MessageExt], list[ListenerFailure]]:
        """Return the successful and the failed messages since the last call. For the dispatcher only."""
        done, failed = self.done[self._seen_done :], self.failed[self._seen_failed :]
        self._seen_done += len(done)
        self._seen_failed += len(failed)
        return done, failed

    def running_calls(self) -> list[Sequence[MessageExt]]:
        """Return the messages of each running call. For the dispatcher only."""
        begun = self._arguments[: self.calls - length_hint(self._source)]
        results = {*self.done, *self.expired, *(failure.message for failure in self.failed)}
        return [call for call in map(_messages_of, begun) if call[0] not in results]

    def cancel_pending(self) -> list[MessageExt]:
        """Start no further call; removes and returns the messages of the calls that were not started."""
        left = list(self._source)
        if left:
            self.calls -= len(left)
            self._arguments = self._arguments[: self.calls]
        messages = [message for argument in left for message in _messages_of(argument)]
        self.size -= len(messages)
        self.exhausted = True
        return messages

    def _may_begin(self, argument: Any) -> bool:
        """True if a call may start; False, and the messages become ``expired``, if their invisible time is over."""
        messages = _messages_of(argument)
        if self.queue.is_fresh(messages[0], monotonic()):
            return True
        self.expired.extend(messages)
        return False


def _messages_of(argument: Any) -> Sequence[MessageExt]:
    """The messages of one call, from the listener's argument: one message or a list."""
    return (argument,) if isinstance(argument, MessageExt) else argument


class Listener(Protocol):
    """A user's listener function, wrapped to run consume requests."""

    is_async: bool

    def arguments(self, messages: Sequence[MessageExt]) -> Sequence[Any]:
        """Split messages into the first arguments of the function's calls: single messages or batches."""
        ...

    def run(self, request: ConsumeRequest) -> int:
        """Call a plain function until a request has no pending call; returns the number of calls made."""
        ...

    async def arun(self, request: ConsumeRequest) -> int:
        """Await an ``async def`` function until a request has no pending call; returns the number of calls made."""
        ...


class _Single:
    """A listener that is called as ``listener(message)``, once for each message."""

    def __init__(self, function: OneMessage, *, is_async: bool) -> None:
        self.is_async = is_async
        self._call: Callable[[MessageExt], Any] = function
        self._illegal_results = IllegalResults(function)

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
                self._settle(request, message, returned)
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
                self._settle(request, message, returned)
        request.exhausted = True
        return calls

    def _settle(self, request: ConsumeRequest, message: MessageExt, returned: object) -> None:
        if _checked_result(returned, self._illegal_results) is _SUCCESS:
            request.done.append(message)
        else:
            request.failed.append(ListenerFailure(message))


class _Batched:
    """A listener that is called as ``listener(messages, context)``, with up to ``size`` messages per call."""

    def __init__(self, function: Batch, size: int, *, is_async: bool) -> None:
        self.is_async = is_async
        self._size = size
        self._call: Callable[[list[MessageExt], ConsumeContext], Any] = function
        self._illegal_results = IllegalResults(function)

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
        done, failed = split_batch(_checked_result(returned, self._illegal_results), messages, context.ack_index)
        request.done.extend(done)
        request.failed.extend([ListenerFailure(message, context.delay_level) for message in failed])


RUNS_ASYNC = frozenset({_Single.arun.__code__, _Batched.arun.__code__})
"""Code objects of the functions that await listeners: in a stack, the frames they have called belong to a listener."""


def result_of_exception(error: BaseException, what: object) -> ConsumeResult:
    """Log the exception of a listener and return RECONSUME_LATER; a cancellation of the worker's task is raised again.

    :param what: the message or messages, for the log.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
    _log.error("the listener failed on %r; delivered again later", what, exc_info=error)
    return _LATER


class IllegalResults:
    """Logs illegal return values of one listener: the first one at once, later ones at most once a minute."""

    __slots__ = ("_log_at", "_name")

    def __init__(self, function: object) -> None:
        self._name = name_of(function)
        self._log_at = 0.0

    def add(self, returned: object) -> None:
        """Log an illegal return value, unless one was logged less than a minute ago."""
        hint = ""
        if inspect.iscoroutine(returned):
            returned.close()
            hint = " A listener that returns a coroutine must be declared with async def."
        if monotonic() < self._log_at:
            return
        self._log_at = monotonic() + LOG_INTERVAL
        _log.error(
            "the listener %s returned %r of type %s, which is no result: the messages are delivered again. Return None,"
            " True or ConsumeResult.SUCCESS for a success; return ConsumeResult.RECONSUME_LATER or raise otherwise.%s",
            self._name, returned, type(returned).__name__, hint,
        )  # fmt: skip


def _checked_result(returned: object, illegal: IllegalResults) -> ConsumeResult:
    result = read_result(returned)
    if result is None:
        illegal.add(returned)
        return _LATER
    return result


def make_listener(function: AnyListener, batch_size: int) -> Listener:
    """Wrap a user's listener function.

    :param function: takes one message, or a list of messages and a :class:`ConsumeContext`.
    :param batch_size: maximum number of messages per call.
    :raises ConfigError: ``function`` takes other arguments, or one message although ``batch_size`` is greater than 1.
    """
    shape = shape_of(function, batch_size)
    if shape.takes_batch:
        return _Batched(function, batch_size, is_async=shape.is_async)  # type: ignore[arg-type]
    return _Single(function, is_async=shape.is_async)  # type: ignore[arg-type]


class Shape(NamedTuple):
    """How to call a listener: with ``await`` or without, with one message or with a batch and a context."""

    is_async: bool
    takes_batch: bool


def shape_of(function: AnyListener, batch_size: int) -> Shape:
    """Read from its signature how to call a user's listener function.

    :raises ConfigError: it takes neither one nor two arguments, or one although ``batch_size`` is greater than 1.
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
    """The number of positional arguments a listener requires; 1 if it requires none but accepts some.

    :raises ConfigError: ``function`` is not callable.
    """
    if not callable(function):
        raise ConfigError(f"a listener must be callable, {function!r} is not")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # some callables written in C have no signature
        return 1
    required = sum(p.kind in _POSITIONAL and p.default is inspect.Parameter.empty for p in parameters)
    takes_any = any(p.kind in (*_POSITIONAL, inspect.Parameter.VAR_POSITIONAL) for p in parameters)
    return required or int(takes_any)


def name_of(function: object) -> str:
    """The qualified name of a listener, for log lines and errors."""
    return getattr(function, "__qualname__", None) or repr(function)
