"""Hooks: what an application wants done before and after its messages are consumed or sent.

Knows what a hook is told and that its failures are nobody else's: they are logged. Costs nothing where there is none.
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
    """A call of a listener.

    :ivar group: the consumer group.
    :ivar queue: where the messages come from.
    :ivar messages: what the listener gets.
    :ivar result: what it returned; None before.
    :ivar error: what it raised, if it did.
    :ivar succeeded: whether it said that the messages are done; None before.
    :ivar seconds: how long it took.
    :ivar notes: for hooks to keep what they need until after the call.
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
    """A send, all of its attempts together.

    :ivar group: the producer group.
    :ivar messages: what is sent; a hook may add properties before.
    :ivar oneway: whether no answer is waited for.
    :ivar result: what the broker said; None before, after a failure, and when no answer is waited for.
    :ivar error: why it failed, if it did.
    :ivar seconds: how long it took.
    :ivar notes: for hooks to keep what they need until after the send.
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
    """Derive from it and override what is of interest. Called where the listener is: in its thread, or in the loop."""

    def before(self, consumption: Consumption) -> None:
        """The listener is about to be called."""

    def after(self, consumption: Consumption) -> None:
        """The listener has returned or raised."""


class Reception:
    """Messages that a simple consumer has received, or a lite pull consumer has polled.

    :ivar group: the consumer group.
    :ivar messages: all of them, at least one.
    :ivar began_ns: when they were asked for, nanoseconds since the epoch.
    """

    __slots__ = ("began_ns", "group", "messages")

    def __init__(self, group: str, messages: Sequence[MessageExt], began_ns: int) -> None:
        self.group = group
        self.messages = messages
        self.began_ns = began_ns


class ReceiveHook:
    """Derive from it and override :meth:`received`. Must be quick; called where the messages are handed out."""

    def received(self, reception: Reception) -> None:
        """Messages have come; the caller gets them next. Is not called when none came."""


def tell_received(hooks: Sequence[ReceiveHook], group: str, messages: Sequence[MessageExt], began_ns: int) -> None:
    """Call hooks about messages, if there are any of either."""
    if hooks and messages:
        _call(hooks, "received", Reception(group, messages, began_ns))


class SendHook:
    """Derive from it and override what is of interest. Must be quick; with asyncio it runs in the loop."""

    def before(self, sending: Sending) -> None:
        """The messages are about to be sent."""

    def after(self, sending: Sending) -> None:
        """The send has ended, well or not; in whatever thread hears of it."""


def hooked(listener: Callable[..., Any], hooks: Sequence[ConsumeHook], group: str) -> Callable[..., Any]:
    """A listener with hooks around it, of the same shape; the listener itself when there are none."""
    if not hooks:
        return listener

    def begin(given: Sequence[Any]) -> tuple[Consumption, float]:
        messages = [given[0]] if isinstance(given[0], MessageExt) else given[0]
        queue = given[1].queue if len(given) > 1 else messages[0].queue
        consumption = Consumption(group, queue, messages)
        _call(hooks, "before", consumption)
        return consumption, perf_counter()

    def end(consumption: Consumption, began: float) -> None:
        consumption.seconds = perf_counter() - began
        consumption.succeeded = consumption.error is None and consumption.result in _DONE
        _call(hooks, "after", consumption)

    @functools.wraps(listener)
    def plain(*given: Any) -> Any:
        consumption, began = begin(given)
        try:
            consumption.result = listener(*given)
        except BaseException as e:
            consumption.error = e
            raise
        finally:
            end(consumption, began)
        return consumption.result

    @functools.wraps(listener)
    async def awaited(*given: Any) -> Any:
        consumption, began = begin(given)
        try:
            consumption.result = await listener(*given)
        except BaseException as e:
            consumption.error = e
            raise
        finally:
            end(consumption, began)
        return consumption.result

    is_async = inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(getattr(listener, "__call__", None))  # noqa: B004
    return awaited if is_async else plain


class SendHooks:
    """The hooks of a producer that has some."""

    def __init__(self, group: str, hooks: Sequence[SendHook]) -> None:
        self._group = group
        self._hooks = tuple(hooks)

    @contextlib.contextmanager
    def during(self, messages: Sequence[Message], *, oneway: bool = True) -> Iterator[Callable[[SendResult], None]]:
        """Around a send; what it yields takes the result."""
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
        """Sends, and returns what ``send`` does."""
        with self.during(messages, oneway=False) as ended:
            result = send()
            ended(result)
            return result

    def follow(self, messages: Sequence[Message], send: Callable[[], T]) -> T:
        """Begins a send and returns its future, asyncio's or a thread's."""
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
        return TimeoutError("nobody waits for the end of this send any more")
    return future.exception() or future.result()


def _call(hooks: Sequence[Any], what: str, about: Consumption | Sending | Reception) -> None:
    for hook in hooks:
        try:
            getattr(hook, what)(about)
        except Exception:  # noqa: BLE001 - whatever a hook does wrong, the message goes its way
            _log.exception("hook %r failed %s a message of group %s", hook, what, about.group)
