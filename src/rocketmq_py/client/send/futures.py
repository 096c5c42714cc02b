"""Futures of sends: those of asyncio, and those of ``concurrent.futures`` for threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable

from rocketmq_py.model import SendResult


class SharedFuture:
    """The future of a batch: passes its outcome to a function, at once.

    :param ended: called with the result or the error.
    """

    __slots__ = ("_ended", "_is_done")

    def __init__(self, ended: Callable[[SendResult | Exception], None]) -> None:
        self._ended = ended
        self._is_done = False

    def done(self) -> bool:
        """True if there is a result or an error."""
        return self._is_done

    def set_result(self, result: SendResult) -> None:
        """Pass the result on."""
        self._is_done = True
        self._ended(result)

    def set_exception(self, error: Exception) -> None:
        """Pass the error on."""
        self._is_done = True
        self._ended(error)


class ThreadFuture:
    """The future of a send that one thread waits for; a ``concurrent.futures.Future`` costs several times as much."""

    __slots__ = ("_is_open", "_outcome")

    def __init__(self) -> None:
        self._outcome: SendResult | Exception | None = None
        self._is_open = threading.Lock()
        self._is_open.acquire()

    def result(self) -> SendResult:
        """Wait for the result and return it, or raise the error. Call it once."""
        self._is_open.acquire()
        outcome = self._outcome
        if isinstance(outcome, SendResult):
            return outcome
        assert outcome is not None
        raise outcome

    def done(self) -> bool:
        """True if there is a result or an error."""
        return self._outcome is not None

    def set_result(self, result: SendResult) -> None:
        """Wake the thread with a result."""
        self._outcome = result
        self._is_open.release()

    def set_exception(self, error: Exception) -> None:
        """Wake the thread with an error."""
        self._outcome = error
        self._is_open.release()


SendFuture = asyncio.Future[SendResult] | concurrent.futures.Future[SendResult] | ThreadFuture | SharedFuture
"""The future of a send: its result, or its error, which is a RocketMQError or what a queue selector raised."""


def resolve(future: SendFuture, outcome: SendResult | Exception) -> None:
    """Set the result or the error of a future, unless it is done or cancelled."""
    if future.done():
        return
    if isinstance(outcome, SendResult):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)
