"""Listeners that get values instead of messages: bodies are decoded first; what does not fit is a dead letter."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from rocketmq_py.client.consumer.dispatch.listeners import OneMessage
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeResult, MessageExt
from rocketmq_py.serde import BodyMismatch, Serde

Reject = Callable[[MessageExt, str], Awaitable[bool]]
"""Sends a message with the reason to the dead letters; returns True if a broker confirmed it."""


def typed(listener: Callable[..., Any], serde: Serde, reject: Reject, loop: Callable[[], Any]) -> OneMessage:
    """Return a listener of messages that calls ``listener(value)`` or ``listener(value, message)``.

    :param reject: called in the event loop with a message whose body does not fit. If no broker confirms that it is a
        dead letter now, the message is delivered again.
    :param loop: returns the consumer's event loop, for a listener that runs in threads.
    :raises ConfigError: the listener takes neither one argument nor two.
    """
    count = _arguments(listener)

    def call(value: Any, message: MessageExt) -> Any:
        return listener(value) if count == 1 else listener(value, message)

    async def in_loop(message: MessageExt) -> Any:
        try:
            value = serde.decode(message.body)
        except BodyMismatch as e:
            return _result(await reject(message, str(e)))
        return await call(value, message)

    def in_thread(message: MessageExt) -> Any:
        try:
            value = serde.decode(message.body)
        except BodyMismatch as e:
            sending = asyncio.run_coroutine_threadsafe(_awaited(reject(message, str(e))), loop())
            return _result(sending.result())
        return call(value, message)

    made = in_loop if inspect.iscoroutinefunction(listener) else in_thread
    made.__name__, made.__qualname__ = (getattr(listener, name, "listener") for name in ("__name__", "__qualname__"))
    return made


async def _awaited(coming: Awaitable[bool]) -> bool:
    return await coming


def _result(is_rejected: bool) -> ConsumeResult:
    return ConsumeResult.SUCCESS if is_rejected else ConsumeResult.RECONSUME_LATER


def _arguments(listener: Callable[..., Any]) -> int:
    wrong = ConfigError(f"a listener of values is listener(value) or listener(value, message), not {listener!r}")
    try:
        parameters = inspect.signature(listener).parameters.values()
    except (TypeError, ValueError) as e:
        raise wrong from e
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(one.kind in positional and one.default is inspect.Parameter.empty for one in parameters)
    if count not in (1, 2):
        raise wrong
    return count
