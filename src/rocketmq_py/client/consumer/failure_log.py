"""Log levels for failures that repeat: they are logged when they begin, once a minute, and when they end.

A broker that cannot be reached is logged once for all queues of a client. Each failure is also a problem of the
consumer's health until it ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from time import monotonic

from rocketmq_py.errors import NetworkError, NoRouteError, RocketMQError

LOG_INTERVAL = 60.0
"""Seconds between log lines about a failure that goes on."""

Problems = dict[Hashable, RocketMQError | str]
"""What is wrong with a consumer now, by what it concerns."""


class FailureLog:
    """The failures of one thing that is tried again and again, for instance the pulls of a queue.

    :param key: what it concerns; the key of its problem.
    :param broker_name: the broker whose loss is logged once for all things that share ``outages``.
    :param outages: when a broker was last logged as lost, by name; shared by all consumers of a client.
    :param problems: those of the consumer.
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
        """Note a failure; returns the level to log it at."""
        now, known = self._clock(), self._error
        if known is None:
            self._since = now
        self._error = self._problems[self._key] = error
        is_loss = isinstance(error, NetworkError | NoRouteError)
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
        """How long the failure has lasted, as a part of a log line; empty for the first failure."""
        seconds = self._clock() - self._since
        return f" for {seconds:.0f} s" if seconds >= 1 else ""

    def recovered(self) -> int | None:
        """Note a success; returns the level to log the recovery at, None if nothing had failed before."""
        error = self._error
        if error is None:
            return None
        is_logged = not isinstance(error, NetworkError | NoRouteError) or self._broker_name in self._outages
        self._outages.pop(self._broker_name, None)
        self.close()
        return logging.WARNING if is_logged else logging.DEBUG

    def close(self) -> None:
        """Remove the failure: there are no further tries."""
        if self._error is not None and self._problems.get(self._key) is self._error:
            del self._problems[self._key]
        self._error = None
