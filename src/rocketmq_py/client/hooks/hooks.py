"""Hooks: application code that runs before and after messages are sent or consumed.

An exception in a hook is logged and has no effect on the message.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, TypeVar

from rocketmq_py.model import ConsumeResult, Message, MessageExt, MessageQueue, OrderlyResult, SendResult

_log = logging.getLogger(__name__)

T = TypeVar("T")

_DONE = (None, True, ConsumeResult.SUCCESS, OrderlyResult.SUCCESS, OrderlyResult.COMMIT)


class Consumption:
    """A call of a listener, as consume hooks see it.

    :ivar group: the consumer group.
    :ivar queue: the queue of the messages.
    :ivar messages: the messages passed to the listener.
    :ivar result: what the listener returned; None in ``before``.
    :ivar error: what the listener raised; None if it did not raise.
    :ivar succeeded: True if the listener reported success; None in ``before``.
    :ivar seconds: the duration of the call in seconds; 0 in ``before``.
    :ivar notes: any values that a hook's ``before`` stores for its ``after``.
    """

    __slots__ = ("error", "group", "messages", "notes", "queue", "result", "seconds", "succeeded")

    def __init__(self, group: str, queue: MessageQueue, messages: Sequence[MessageExt]) -> None:
        self.group = group
        self.queue = queue
        self.messages = messages
        self.result: Any = None
        self.error: BaseException | None = None
        self.succeeded: bool | None = None
        self.seconds = 0.0
        self.notes: dict[Any, Any] = {}


class Sending:
    """A send with all its attempts, as send hooks see it.

    :ivar group: the producer group.
    :ivar messages: the messages; ``before`` may add properties.
    :ivar oneway: True if the broker does not answer.
    :ivar result: the result of the send; None in ``before``, after a failure, and for a one-way send.
    :ivar error: the exception of the send; None if it did not raise.
    :ivar seconds: the duration of the send in seconds; 0 in ``before``.
    :ivar notes: any values that a hook's ``before`` stores for its ``after``.
    """

    __slots__ = ("error", "group", "messages", "notes", "oneway", "result", "seconds")

    def __init__(self, group: str, messages: Sequence[Message], *, oneway: bool) -> None:
        self.group = group
        self.messages = messages
        self.oneway = oneway
        self.result: SendResult | None = None
        self.error: BaseException | None = None
        self.seconds = 0.0
        self.notes: dict[Any, Any] = {}


class ConsumeHook:
    """Base class of hooks of push consumers.

    They are called in the thread that calls the listener: in the event loop for an ``async def`` listener.

    :cvar needs_arrival: True: the consumer sets ``arrived`` of messages.
    """

    needs_arrival = False

    def before(self, consumption: Consumption) -> None:
        """Called before the listener."""

    def after(self, consumption: Consumption) -> None:
        """Called after the listener has returned or raised."""


class Reception:
    """Messages that a simple consumer has received, or a lite pull consumer has polled.

    :ivar group: the consumer group.
    :ivar messages: the messages, at least one.
    :ivar began_ns: when ``receive`` or ``poll`` was called, in nanoseconds since the epoch.
    """

    __slots__ = ("began_ns", "group", "messages")

    def __init__(self, group: str, messages: Sequence[MessageExt], began_ns: int) -> None:
        self.group = group
        self.messages = messages
        self.began_ns = began_ns


class ReceiveHook:
    """Base class of hooks of simple and lite pull consumers.

    They are called in the thread that calls ``receive`` or ``poll``, or in the event loop, and must not block.
    """

    def received(self, reception: Reception) -> None:
        """Called before ``receive`` or ``poll`` returns messages; not called if it returns none."""


def report_received(hooks: Sequence[ReceiveHook], group: str, messages: Sequence[MessageExt], began_ns: int) -> None:
    """Call the hooks with the messages; do nothing if there are no hooks or no messages.

    :param began_ns: when ``receive`` or ``poll`` was called, in nanoseconds since the epoch.
    """
    if hooks and messages:
        _call(hooks, "received", Reception(group, messages, began_ns))


class SendHook:
    """Base class of hooks of producers. They must not block, because those of an asyncio producer run in its loop."""

    def before(self, sending: Sending) -> None:
        """Called before the messages are sent."""

    def after(self, sending: Sending) -> None:
        """Called after the send has succeeded or failed, in the thread that gets the result."""


def hooked(listener: Callable[..., Any], hooks: Sequence[ConsumeHook], group: str) -> Callable[..., Any]:
    """Wrap a listener so that hooks are called before and after it; returns ``listener`` itself if there are none."""
    if not hooks:
        return listener

    @contextlib.contextmanager
    def observed(given: Sequence[Any]) -> Iterator[Consumption]:
        messages = [given[0]] if isinstance(given[0], MessageExt) else given[0]
        queue = given[1].queue if len(given) > 1 else messages[0].queue
        consumption = Consumption(group, queue, messages)
        _call(hooks, "before", consumption)
        began = perf_counter()
        try:
            yield consumption
        except BaseException as e:
            consumption.error = e
            raise
        finally:
            consumption.seconds = perf_counter() - began
            consumption.succeeded = consumption.error is None and consumption.result in _DONE
            _call(hooks, "after", consumption)

    @functools.wraps(listener)
    def plain(*given: Any) -> Any:
        with observed(given) as consumption:
            consumption.result = listener(*given)
        return consumption.result

    @functools.wraps(listener)
    async def awaited(*given: Any) -> Any:
        with observed(given) as consumption:
            consumption.result = await listener(*given)
        return consumption.result

    is_async = inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(getattr(listener, "__call__", None))  # noqa: B004
    return awaited if is_async else plain


class SendHooks:
    """Calls the send hooks of a producer."""

    def __init__(self, group: str, hooks: Sequence[SendHook]) -> None:
        self._group = group
        self._hooks = tuple(hooks)

    @contextlib.contextmanager
    def during(self, messages: Sequence[Message], *, oneway: bool = True) -> Iterator[Callable[[SendResult], None]]:
        """Call the hooks before and after the ``with`` block, which passes its SendResult to the yielded function."""
        sending, began = self._begin(messages, oneway=oneway)
        outcome: BaseException | SendResult | None = None

        def ended(result: SendResult) -> None:
            nonlocal outcome
            outcome = result

        try:
            yield ended
        except BaseException as e:
            outcome = e
            raise
        finally:
            self._end(sending, began, outcome)

    def around(self, messages: Sequence[Message], send: Callable[[], SendResult]) -> SendResult:
        """Call the hooks before and after ``send()``; returns its result."""
        with self.during(messages, oneway=False) as ended:
            result = send()
            ended(result)
            return result

    def follow(self, messages: Sequence[Message], send: Callable[[], T]) -> T:
        """Call the hooks before ``send()`` and when the future that it returns is done; returns this future.

        :param send: starts the send and returns an asyncio or concurrent future of its result.
        """
        sending, began = self._begin(messages, oneway=False)
        try:
            future: Any = send()
        except BaseException as e:
            self._end(sending, began, e)
            raise
        future.add_done_callback(lambda future: self._end(sending, began, _outcome(future)))
        return future  # type: ignore[no-any-return]

    def _begin(self, messages: Sequence[Message], *, oneway: bool) -> tuple[Sending, float]:
        sending = Sending(self._group, messages, oneway=oneway)
        _call(self._hooks, "before", sending)
        return sending, perf_counter()

    def _end(self, sending: Sending, began: float, outcome: object) -> None:
        sending.seconds = perf_counter() - began
        if isinstance(outcome, BaseException):
            sending.error = outcome
        elif isinstance(outcome, SendResult):
            sending.result = outcome
        _call(self._hooks, "after", sending)


def _outcome(future: Any) -> object:
    if future.cancelled():
        return TimeoutError("the send was cancelled by its caller")
    return future.exception() or future.result()


def _call(hooks: Sequence[Any], what: str, about: Consumption | Sending | Reception) -> None:
    for hook in hooks:
        try:
            getattr(hook, what)(about)
        except Exception:  # noqa: BLE001 - a hook's failure must not affect the message
            _log.exception("hook %r failed %s a message of group %s", hook, what, about.group)
