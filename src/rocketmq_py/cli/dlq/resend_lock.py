"""The lock that allows one run of ``rocketmq dlq resend`` at a time for a consumer group."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.output.failures import CommandFailure

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageQueue


class ResendLock:
    """The brokers' locks of dead-letter queues, with the errors of a command.

    :param clock: monotonic clock, in seconds.
    """

    def __init__(
        self, admin: Admin, queues: Collection[MessageQueue], clock: Callable[[], float] = time.monotonic
    ) -> None:
        from rocketmq_py.client.dead_letters import DeadLetterLock

        self._lock = DeadLetterLock(admin, queues, clock)

    async def acquire(self) -> None:
        """Take the locks, or renew them.

        :raises CommandFailure: another run holds a lock.
        """
        busy = await self._lock.acquire()
        if busy is not None:
            raise CommandFailure(
                f"another run is sending the dead letters of {busy.topic}. Wait for it; if it was killed, its "
                "lock expires within a minute"
            )

    async def release(self) -> None:
        """Release the locks; a broker that cannot be reached is reported on standard error."""
        for queue, error in (await self._lock.release()).items():
            click.echo(f"{queue} stays locked for a minute: {error}", err=True)
