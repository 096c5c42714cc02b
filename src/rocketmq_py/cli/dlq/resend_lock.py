"""The lock that allows one run of ``rocketmq dlq resend`` at a time for a consumer group.

It consists of the brokers' queue locks, which orderly consumers use too. A lock expires a minute after its last
renewal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.output.failures import CommandFailure

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageQueue

RENEW_SECONDS = 20.0
"""Interval at which the locks are renewed."""


class ResendLock:
    """The brokers' locks of dead-letter queues. One run of ``dlq resend`` holds them, so that no other can start.

    :param clock: monotonic clock, in seconds.
    """

    def __init__(
        self, admin: Admin, queues: Collection[MessageQueue], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._admin = admin
        self._queues = sorted(queues)
        self._clock = clock
        self._held: list[MessageQueue] = []
        self._since = 0.0

    async def acquire(self) -> None:
        """Take the locks; locks that this run holds are renewed if they are older than ``RENEW_SECONDS``.

        :raises CommandFailure: another run holds a lock.
        """
        from rocketmq_py.protocol.names import TOOLS_GROUP

        if self._held and self._clock() - self._since < RENEW_SECONDS:
            return
        self._since = self._clock()
        for queue in self._queues:
            if not await self._admin.lock_queue(TOOLS_GROUP, queue):
                raise CommandFailure(
                    f"another run is sending the dead letters of {queue.topic}. Wait for it; if it was killed, its "
                    "lock expires within a minute"
                )
            if queue not in self._held:
                self._held.append(queue)

    async def release(self) -> None:
        """Release the locks; a broker that cannot be reached is reported on standard error."""
        from rocketmq_py.errors import RocketMQError
        from rocketmq_py.protocol.names import TOOLS_GROUP

        for queue in self._held:
            try:
                await self._admin.unlock_queue(TOOLS_GROUP, queue)
            except RocketMQError as e:
                click.echo(f"{queue} stays locked for a minute: {e}", err=True)
        self._held.clear()
