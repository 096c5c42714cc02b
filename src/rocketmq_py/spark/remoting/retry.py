"""Trying again: how often, how long to wait in between, and what is worth it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from rocketmq_py.errors import RocketMQError

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Retry:
    """Counts failures in a row.

    :param attempts: failures that are forgiven before the next one is raised.
    :param what: what is being tried, for the log.
    :param pause: how to wait; given the seconds.
    """

    def __init__(self, attempts: int, what: str, pause: Callable[[float], None] = time.sleep) -> None:
        self._attempts = attempts
        self._what = what
        self.pause = pause
        self.failures = 0

    def failed(self, error: RocketMQError) -> None:
        """Count a failure and wait before the next attempt.

        :raises RocketMQError: ``error`` itself, when it is not retryable or the attempts are used up.
        """
        self.pause(self.count(error))

    def count(self, error: RocketMQError) -> float:
        """Count a failure; how many seconds to wait: twice as long each time, from 50 ms up to 5 s.

        :raises RocketMQError: as :meth:`failed`.
        """
        self.failures += 1
        if not error.retryable:
            raise error
        if self.failures > self._attempts:
            error.add_note(f"{self._what} failed {self.failures} times in a row; option numRetries allows for more")
            raise error
        _log.info("%s failed (%d of %d): %s", self._what, self.failures, self._attempts, error)
        return float(min(_FIRST_PAUSE * 2 ** (self.failures - 1), _LONGEST_PAUSE))

    def succeeded(self) -> None:
        """Forget earlier failures."""
        self.failures = 0

    def call(self, attempt: Callable[[], _T]) -> _T:
        """The result of ``attempt``, called until it succeeds."""
        while True:
            try:
                return attempt()
            except RocketMQError as e:
                self.failed(e)
