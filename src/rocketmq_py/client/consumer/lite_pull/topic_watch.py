"""Looks from time to time which queues topics have, and tells who wants to know of changes."""

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
"""Told a topic and the queues it has now."""


class TopicWatch:
    """The topics that are watched and what was seen last.

    :param interval: seconds between two looks.
    """

    def __init__(self, instance: ClientInstance, interval: float) -> None:
        self._instance = instance
        self._interval = interval
        self._listeners: dict[str, TopicQueuesChanged] = {}
        self._seen: dict[str, list[MessageQueue]] = {}
        self._added = asyncio.Event()
        self._work = Background()

    def add(self, topic: str, listener: TopicQueuesChanged) -> None:
        """Watches a topic; a former listener of it is told nothing more."""
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
                await self._look(topic)
            try:
                async with asyncio.timeout(self._interval):
                    await self._added.wait()
            except TimeoutError:
                continue

    async def _look(self, topic: str) -> None:
        try:
            queues = (await self._instance.routes.refresh(topic)).read_queues
        except RocketMQError as e:
            _log.warning("the queues of topic %s cannot be looked at: %s", topic, e)
            return
        before = self._seen.get(topic)
        self._seen[topic] = queues
        if before is None or before == queues:
            return  # what there is at first is no change
        try:
            told = self._listeners[topic](topic, list(queues))
            if inspect.isawaitable(told):
                await told
        except Exception:  # noqa: BLE001 - the application's fault; it hears of the next change
            _log.exception("the listener for the queues of topic %s failed", topic)
