"""How long to wait before a failed call is tried again, and how often it is tried.

Exponential back-off with jitter: each pause is twice the one before, up to a limit, and every pause is shortened by a
random part of up to half, so that clients that failed together do not all come back at the same moment. Waiting and
randomness are the caller's: ``pause`` and ``jitter`` are passed in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from rocketmq_py.errors import RocketMQError

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Backoff(NamedTuple):
    """Pauses between attempts.

    :param first_seconds: the first pause, before jitter.
    :param max_seconds: the longest pause, before jitter.
    """

    first_seconds: float = 0.05
    max_seconds: float = 5.0

    def seconds(self, failures: int, jitter: float) -> float:
        """Seconds to wait after ``failures`` failures in a row.

        :param failures: 1 after the first failure.
        :param jitter: a random number from 0 up to 1: the pause is between half (0) and all (1) of the full one.
        """
        doublings = min(failures - 1, 64)  # a float has room for them
        return min(self.first_seconds * 2.0**doublings, self.max_seconds) * (0.5 + jitter / 2)


class Retry:
    """Counts the failures of a call in a row and says how long to wait before the next attempt.

    :param attempts: failures in a row that are retried; the next one is raised.
    :param what: the call, for the log: "reading orders-0".
    :param pause: waits the given number of seconds: ``time.sleep``.
    :param jitter: returns a random number from 0 up to 1: ``random.random``.
    :param hint: what to change so that more failures are survived; part of the error after the last attempt.
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
        """Count a failure; returns the seconds to wait before the next attempt.

        :raises RocketMQError: as :meth:`failed`.
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
        """Count from zero again."""
        self.failures = 0

    def call(self, attempt: Callable[[], T]) -> T:
        """Call ``attempt`` until it succeeds and return its result.

        :raises RocketMQError: as :meth:`failed`.
        """
        while True:
            try:
                return attempt()
            except RocketMQError as e:
                self.failed(e)
