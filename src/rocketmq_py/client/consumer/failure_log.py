"""Log levels for repeated failures: the first one is a warning, and a lost broker is reported once for all queues."""

from __future__ import annotations

import logging

from rocketmq_py.errors import NetworkError, NoRouteError, RocketMQError


class FailureLog:
    """Decides how loudly the failures of one queue are logged.

    :param broker_name: the queue's broker.
    :param lost: names of brokers that are reported as lost already; shared by all queues of a client.
    """

    __slots__ = ("_broker_name", "_kind", "_lost")

    def __init__(self, broker_name: str, lost: set[str]) -> None:
        self._broker_name = broker_name
        self._lost = lost
        self._kind: type[RocketMQError] | None = None

    def failed(self, error: RocketMQError) -> int:
        """Note a failure; returns the level to log it at."""
        known, self._kind = self._kind, type(error)
        if self._kind is known:
            return logging.DEBUG
        if isinstance(error, NetworkError | NoRouteError):
            if self._broker_name in self._lost:
                return logging.DEBUG
            self._lost.add(self._broker_name)
        return logging.WARNING

    def recovered(self) -> int | None:
        """Note a success; returns the level to log the recovery at, None if nothing had failed before."""
        if self._kind is None:
            return None
        is_reported = not issubclass(self._kind, NetworkError | NoRouteError) or self._broker_name in self._lost
        self._kind = None
        self._lost.discard(self._broker_name)
        return logging.WARNING if is_reported else logging.DEBUG
