"""The wait of a flush for the sends that have begun before it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class Flush:
    """Waits until certain sends have ended.

    :param sends: the sends to wait for; any objects that can be in a set.
    """

    def __init__(self, *sends: Iterable[object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting = {send for group in sends for send in group}
        self._done = asyncio.Event()
        if not self._waiting:
            self._done.set()

    def ended(self, send: object) -> None:
        """Record the end of a send, from any thread; others than those to wait for are ignored."""
        if send in self._waiting:
            self._waiting.remove(send)
            if not self._waiting:
                self._loop.call_soon_threadsafe(self._done.set)

    async def wait(self) -> None:
        """Wait until all of the sends have ended."""
        await self._done.wait()
