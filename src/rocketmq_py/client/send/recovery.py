"""Waits until a broker of a topic can be reached again, for all failed sends that have no other broker to try.

However many sends wait, there is one route look-up per topic and one connect per broker at a time.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from rocketmq_py.core.producer.send_attempts import BACKOFF, is_retried
from rocketmq_py.errors import RocketMQError
from rocketmq_py.remoting.connection import Connection

_log = logging.getLogger(__name__)

_SECONDS = 3.0
"""Seconds to wait for an answer of a name server."""


class Recovery:
    """Tries to connect to the brokers of topics until one can be reached.

    :param look_up: refreshes the route of a topic within some seconds and returns the addresses of its masters; raises
        if there are none.
    :param connect: opens a connection to an address.
    :param is_awaited: returns True if a send waits for a topic.
    """

    def __init__(
        self,
        look_up: Callable[[str, float], Coroutine[Any, Any, Iterable[str]]],
        connect: Callable[[str], Coroutine[Any, Any, Connection]],
        is_awaited: Callable[[str], bool],
    ) -> None:
        self._look_up = look_up
        self._connect = connect
        self._is_awaited = is_awaited
        self._failures: dict[str, tuple[RocketMQError, int]] = {}

    async def wait(self, topic: str, _: float) -> None:
        """Wait until one of a topic's brokers can be reached, or no send waits for the topic.

        :raises RocketMQError: an error that a retry cannot fix, for example that the topic does not exist.
        """
        failures = 0
        try:
            while True:
                failures += 1
                await asyncio.sleep(BACKOFF.seconds(failures, random.random()))
                if not self._is_awaited(topic):
                    return
                try:
                    await self._reach(topic)
                except RocketMQError as e:
                    if not is_retried(e):
                        raise
                    _log.debug("topic %s cannot be sent to yet: %s", topic, e)
                    self._failures[topic] = e, failures
                else:
                    return
        finally:
            self._failures.pop(topic, None)

    def last_failure(self, topic: str) -> tuple[RocketMQError | None, int]:
        """The last error of the running :meth:`wait` for a topic, and the number of its attempts; else None and 0."""
        return self._failures.get(topic, (None, 0))

    async def _reach(self, topic: str) -> None:
        """Connect to the brokers of a topic at the same time; return when one is reached, or raise an error of one."""
        attempts = [asyncio.ensure_future(self._connect(address)) for address in await self._look_up(topic, _SECONDS)]
        failure: RocketMQError | None = None
        try:
            for attempt in asyncio.as_completed(attempts):
                try:
                    await attempt
                except RocketMQError as e:
                    failure = e
                else:
                    return
        finally:
            for attempt in attempts:
                attempt.cancel()
            await asyncio.gather(*attempts, return_exceptions=True)
        if failure is not None:
            raise failure
