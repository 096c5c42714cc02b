"""Checks the routes of topics periodically and calls a listener when the queues of a topic have changed."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

TopicQueuesChanged = Callable[[str, list[MessageQueue]], Awaitable[None] | None]
"""A listener for changes of a topic's queues: called with the topic and its current readable queues."""


class TopicWatch:
    """Checks topics in the background and calls their listeners when the queues differ from those of the last check.

    :param interval: seconds between two checks.
    """

    def __init__(self, instance: ClientInstance, interval: float) -> None:
        self._instance = instance
        self._interval = interval
        self._listeners: dict[str, TopicQueuesChanged] = {}
        self._seen: dict[str, list[MessageQueue]] = {}
        self._added = asyncio.Event()
        self._work = Background()

    def add(self, topic: str, listener: TopicQueuesChanged) -> None:
        """Watch a topic with this listener instead of an earlier one; the topic is checked at once."""
        self._listeners[topic] = listener
        self._added.set()

    def start(self) -> None:
        self._work.start(self._run())

    async def close(self) -> None:
        await self._work.stop()

    async def _run(self) -> None:
        while True:
            self._added.clear()
            for topic in list(self._listeners):
                await self._check(topic)
            try:
                async with asyncio.timeout(self._interval):
                    await self._added.wait()
            except TimeoutError:
                continue

    async def _check(self, topic: str) -> None:
        try:
            queues = (await self._instance.routes.refresh(topic)).read_queues
        except RocketMQError as e:
            _log.warning("the queues of topic %s cannot be checked: %s", topic, e)
            return
        before = self._seen.get(topic)
        self._seen[topic] = queues
        if before is None or before == queues:
            return  # the first check is no change
        try:
            result = self._listeners[topic](topic, list(queues))
            if inspect.isawaitable(result):
                await result
        except Exception:  # noqa: BLE001 - the application's fault; the listener is called again after the next change
            _log.exception("the listener for the queues of topic %s failed", topic)
