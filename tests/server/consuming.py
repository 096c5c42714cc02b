"""Helpers for tests of consumers: a recording listener, and waiting for conditions."""

import asyncio
from collections import defaultdict

from rocketmq_py.model import ConsumeFromWhere

FIRST = ConsumeFromWhere.FIRST_OFFSET
PATIENCE = 240.0
"""Seconds a test waits for what must come; far above what it takes."""


class Seen:
    """Collects what listeners get, in order and from whatever thread, and lets the test wait for it."""

    def __init__(self):
        self.messages = []
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def __call__(self, message):
        self.messages.append(message)
        self._loop.call_soon_threadsafe(self._changed.set)

    @property
    def bodies(self):
        return [message.body.decode() for message in self.messages]

    @property
    def by_queue(self):
        found = defaultdict(list)
        for message in self.messages:
            found[message.queue_id].append(message.queue_offset)
        return dict(found)

    async def until(self, true):
        async with asyncio.timeout(PATIENCE):
            while not true(self):
                await self._changed.wait()
                self._changed.clear()

    async def count(self, number):
        await self.until(lambda seen: len(seen.messages) >= number)


async def eventually(true):
    """Waits for a state nobody announces; returns what was true."""
    async with asyncio.timeout(PATIENCE):
        while not (found := true()):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.02)
    return found
