"""How loudly what goes wrong with a queue is told: once, and a broker that is lost once for all of its queues.

Refuses to know what was asked of the queue.
"""

from __future__ import annotations

import logging

from rocketmq_py.errors import NetworkError, NoRouteError, RocketMQError


class FailureLog:
    """The trouble with one queue.

    :param broker_name: of the queue.
    :param lost: brokers of which it was told that they are lost; shared by all queues of a client.
    """

    __slots__ = ("_broker_name", "_kind", "_lost")

    def __init__(self, broker_name: str, lost: set[str]) -> None:
        self._broker_name = broker_name
        self._lost = lost
        self._kind: type[RocketMQError] | None = None

    def failed(self, error: RocketMQError) -> int:
        """A request has failed; the level to log it at."""
        known, self._kind = self._kind, type(error)
        if self._kind is known:
            return logging.DEBUG
        if isinstance(error, NetworkError | NoRouteError):
            if self._broker_name in self._lost:
                return logging.DEBUG
            self._lost.add(self._broker_name)
        return logging.WARNING

    def recovered(self) -> int | None:
        """A request has succeeded; the level to log that at when the one before had failed."""
        if self._kind is None:
            return None
        is_told = not issubclass(self._kind, NetworkError | NoRouteError) or self._broker_name in self._lost
        self._kind = None
        self._lost.discard(self._broker_name)
        return logging.WARNING if is_told else logging.DEBUG
