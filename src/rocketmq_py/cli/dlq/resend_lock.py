"""One run at a time sends the dead letters of a group: the run that has the brokers' locks of their queues.

The locks are those orderly consumers take; a broker forgets one that is not renewed for a minute.
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


class ResendLock:
    """The right to send what lies in some queues.

    :param clock: seconds that only go forward.
    """

    def __init__(
        self, admin: Admin, queues: Collection[MessageQueue], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._admin = admin
        self._queues = sorted(queues)
        self._clock = clock
        self._held: list[MessageQueue] = []
        self._since = 0.0

    async def keep(self) -> None:
        """Takes the locks, or renews them when it is time to.

        :raises Failure: another run has one.
        """
        from rocketmq_py.protocol.names import TOOLS_GROUP

        if self._held and self._clock() - self._since < RENEW_SECONDS:
            return
        self._since = self._clock()
        for queue in self._queues:
            if not await self._admin.lock_queue(TOOLS_GROUP, queue):
                raise CommandFailure(
                    f"another run is sending the dead letters of {queue.topic}. Wait for it; if it was killed, its "
                    "turn ends within a minute"
                )
            if queue not in self._held:
                self._held.append(queue)

    async def end(self) -> None:
        """Gives the locks back."""
        from rocketmq_py.errors import RocketMQError
        from rocketmq_py.protocol.names import TOOLS_GROUP

        for queue in self._held:
            try:
                await self._admin.unlock_queue(TOOLS_GROUP, queue)
            except RocketMQError as e:
                click.echo(f"{queue} stays locked for a minute: {e}", err=True)
        self._held.clear()
