"""Retries of failed calls: exponential back-off with jitter, and a limit for the number of attempts.

Each pause is twice the one before, up to a limit. Every pause is shortened by a random part of up to half, so that
clients that failed together do not retry at the same moment. The functions that wait and return random numbers are
arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from rocketmq_py.errors import RocketMQError

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Backoff(NamedTuple):
    """Exponentially growing pauses between attempts.

    :param first_seconds: the first pause, before jitter.
    :param max_seconds: the longest pause, before jitter.
    """

    first_seconds: float = 0.05
    max_seconds: float = 5.0

    def seconds(self, failures: int, jitter: float) -> float:
        """Return the seconds to wait before the next attempt.

        :param failures: number of consecutive failures, at least 1.
        :param jitter: a random number from 0 to 1; 0 halves the pause, 1 leaves it in full.
        """
        doublings = min(failures - 1, 64)  # a float has room for them
        return min(self.first_seconds * 2.0**doublings, self.max_seconds) * (0.5 + jitter / 2)


class Retry:
    """Retries a call that fails with retryable errors, with pauses between the attempts.

    :param attempts: number of consecutive failures that are retried; the next failure is raised.
    :param what: description of the call for log lines and errors, for example "reading orders-0".
    :param pause: waits for the given number of seconds, for example ``time.sleep``.
    :param jitter: returns a random number from 0 to 1, for example ``random.random``.
    :param hint: advice added to the error after the last attempt, such as the option that allows more attempts.
    :param backoff: the pauses.
    :ivar failures: number of consecutive failures until now.
    """

    def __init__(
        self,
        attempts: int,
        what: str,
        pause: Callable[[float], None],
        jitter: Callable[[], float],
        *,
        hint: str = "",
        backoff: Backoff = Backoff(),  # noqa: B008 - immutable
    ) -> None:
        self._attempts = attempts
        self._what = what
        self._jitter = jitter
        self._hint = hint
        self._backoff = backoff
        self.pause = pause
        self.failures = 0

    def failed(self, error: RocketMQError) -> None:
        """Count a failure and wait before the next attempt.

        :raises RocketMQError: ``error`` itself, when it is not retryable or the attempts are used up.
        """
        self.pause(self.count(error))

    def count(self, error: RocketMQError) -> float:
        """Count a failure; return the seconds to wait before the next attempt.

        :raises RocketMQError: ``error`` itself, when it is not retryable or the attempts are used up.
        """
        self.failures += 1
        if not error.retryable:
            raise error
        if self.failures > self._attempts:
            hint = f"; {self._hint}" if self._hint else ""
            error.add_note(f"{self._what} failed {self.failures} times in a row{hint}")
            raise error
        _log.info("%s failed (%d of %d): %s", self._what, self.failures, self._attempts, error)
        return self._backoff.seconds(self.failures, self._jitter())

    def succeeded(self) -> None:
        """Reset the number of consecutive failures to 0."""
        self.failures = 0

    def call(self, attempt: Callable[[], T]) -> T:
        """Call ``attempt`` until it succeeds, with pauses between failures; return its result.

        :raises RocketMQError: the error of an attempt, when it is not retryable or the attempts are used up.
        """
        while True:
            try:
                return attempt()
            except RocketMQError as e:
                self.failed(e)
