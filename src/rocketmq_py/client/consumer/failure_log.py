"""Log levels for repeated failures: a warning at the first one, once a minute while they last, and at the recovery.

An unreachable broker is logged once for all queues of a client. A failure appears in the consumer's health until the
recovery.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from time import monotonic

from rocketmq_py.errors import NetworkError, NoRouteError, RocketMQError

LOG_INTERVAL = 60.0
"""Seconds between warnings about the same lasting failure."""

Problems = dict[Hashable, RocketMQError | str]
"""The current errors of a consumer; the keys say what fails, for example ``("queue", queue)``."""


class FailureLog:
    """The failures of one repeated operation, for example the pulls of a queue.

    :param key: the key of its errors in ``problems``.
    :param broker_name: the broker of the operation; that it is unreachable is logged once for all users of ``outages``.
        Empty: the operation asks name servers, or any broker.
    :param outages: when an unreachable broker was last logged, by broker name; shared by all consumers of a client.
    :param problems: the current errors of the consumer; gets the failure until the recovery.
    """

    __slots__ = ("_broker_name", "_clock", "_error", "_key", "_logged_at", "_outages", "_problems", "_since")

    def __init__(
        self,
        key: Hashable,
        broker_name: str,
        outages: dict[str, float],
        problems: Problems,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._key = key
        self._broker_name = broker_name
        self._outages = outages
        self._problems = problems
        self._clock = clock
        self._error: RocketMQError | None = None
        self._since = 0.0
        self._logged_at = 0.0

    def failed(self, error: RocketMQError) -> int:
        """Record a failure; returns the level to log it at: WARNING, or DEBUG for a repeated one."""
        now, known = self._clock(), self._error
        if known is None:
            self._since = now
        self._error = self._problems[self._key] = error
        is_loss = self._is_loss(error)
        if is_loss and self._broker_name in self._outages:
            is_due = now - self._outages[self._broker_name] >= LOG_INTERVAL
        else:
            is_due = type(known) is not type(error) or now - self._logged_at >= LOG_INTERVAL
        if not is_due:
            return logging.DEBUG
        self._logged_at = now
        if is_loss:
            self._outages[self._broker_name] = now
        return logging.WARNING

    @property
    def duration(self) -> str:
        """How long the failure has lasted, for log lines: ``" for 12 s"``; empty if less than a second."""
        seconds = self._clock() - self._since
        return f" for {seconds:.0f} s" if seconds >= 1 else ""

    def recovered(self) -> int | None:
        """Record a success; returns the level to log the recovery at, None if there was no failure before."""
        error = self._error
        if error is None:
            return None
        is_logged = not self._is_loss(error) or self._broker_name in self._outages
        self._outages.pop(self._broker_name, None)
        self.close()
        return logging.WARNING if is_logged else logging.DEBUG

    def _is_loss(self, error: RocketMQError) -> bool:
        """True if the broker or all name servers are unreachable; False for a topic without a route."""
        return isinstance(error, NetworkError) or (isinstance(error, NoRouteError) and self._broker_name != "")

    def close(self) -> None:
        """Remove the failure from the consumer's problems: the operation is not tried again."""
        if self._error is not None and self._problems.get(self._key) is self._error:
            del self._problems[self._key]
        self._error = None
