"""``rocketmq topic tail``: print the newest messages of a topic and follow it.

The command joins no consumer group and commits no offset. It retries brokers that cannot be reached, and follows queues
that are added later.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Coroutine
from typing import TYPE_CHECKING, Any

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_topic, with_admin
from rocketmq_py.cli.message.rows import body_option, message_row, tail_line
from rocketmq_py.cli.output.tables import TABLE, echo_record, output_option

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageExt, MessageQueue

POLL_TIMEOUT_SECONDS = 15.0
"""How long a broker may hold a pull request before it answers that there is no message."""
RETRY_SECONDS = 1.0
"""Delay before a failed poll is retried."""
ROUTE_SECONDS = 10.0
"""Interval at which the topic is checked for new queues."""


@click.command("tail")
@click.argument("topic", shell_complete=complete_topic)
@click.option("-n", "--last", type=click.IntRange(min=0), default=10, show_default=True, metavar="K",
              help="Start with the last K messages; 0 for new ones only.")  # fmt: skip
@click.option("--tags", default="*", show_default=True, metavar="'A || B'", help="Only messages with these tags.")
@click.option(
    "--sql", metavar="EXPR", help="Only messages whose properties match; needs enablePropertyFilter on the brokers."
)
@click.option("-c", "--count", type=click.IntRange(min=1), metavar="N", help="End after N messages.")
@click.option("--no-follow", is_flag=True, help="End after the existing messages.")
@body_option
@cluster_options
@output_option
def tail(
    topic: str, last: int, tags: str, sql: str | None, count: int | None, no_follow: bool, encoding: str,
    target: Target, output: str,
) -> None:  # fmt: skip
    """Print the newest messages of a topic and follow it until Ctrl-C.

    Joins no consumer group and commits no offset. With -o json every message is a separate document.
    """

    async def work(admin: Admin) -> None:
        left = itertools.repeat(None) if count is None else itertools.repeat(None, count)
        messages = follow(admin, topic, last, tags, sql, forever=not no_follow)
        # The count is checked before the next message is awaited, so that the command ends after the last one.
        for _ in left:
            message = await anext(messages, None)
            if message is None:
                break
            row = message_row(message, encoding)
            if output == TABLE:
                click.echo(tail_line(row))
            else:
                echo_record(row, output)
        await messages.aclose()

    with_admin(target, work)


async def follow(
    admin: Admin, topic: str, last: int, tags: str = "*", sql: str | None = None, *, forever: bool = True
) -> AsyncGenerator[MessageExt, None]:
    """Yield the newest ``last`` messages of all queues of a topic; then, if ``forever``, new ones as they arrive."""
    found, ends = await admin.newest(topic, last, tags=tags, sql=sql)
    for message in found:
        yield message
    if not forever:
        return
    follower = _Follower(admin, topic, tags, sql)
    try:
        follower.add(ends)
        while True:
            yield await follower.next()
    finally:
        await follower.close()


class _Follower:
    """Polls all queues of a topic, and merges their messages into one stream."""

    def __init__(self, admin: Admin, topic: str, tags: str, sql: str | None) -> None:
        self._admin = admin
        self._topic = topic
        self._tags = tags
        self._sql = sql
        self._arrived: asyncio.Queue[MessageExt | BaseException] = asyncio.Queue(maxsize=1000)
        self._tasks: dict[object, asyncio.Task[None]] = {}

    def add(self, queues: dict[MessageQueue, int]) -> None:
        """Start polling queues from the given offsets, and watching the topic for new queues; call it once."""
        self._start(None, self._watch())
        for queue, offset in queues.items():
            self._start(queue, self._poll(queue, offset))

    async def next(self) -> MessageExt:
        """Wait for the next message of any queue.

        :raises Exception: a poll failed with an error that is not retried.
        """
        arrived = await self._arrived.get()
        if isinstance(arrived, BaseException):
            raise arrived
        return arrived

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _start(self, key: object, coroutine: Coroutine[Any, Any, None]) -> None:
        self._tasks[key] = asyncio.ensure_future(self._report(coroutine))

    async def _report(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine; an exception of it is raised by :meth:`next`."""
        try:
            await coroutine
        except Exception as e:  # noqa: BLE001 - next() raises it
            await self._arrived.put(e)

    async def _poll(self, queue: MessageQueue, offset: int) -> None:
        from rocketmq_py.errors import NetworkError, NoRouteError

        failing = False
        while True:
            try:
                pulled = await self._admin.pull(
                    queue, offset, tags=self._tags, sql=self._sql, wait=POLL_TIMEOUT_SECONDS
                )
            except (NetworkError, NoRouteError) as e:
                if not failing:
                    click.echo(f"{queue}: {e}; retrying until it answers", err=True)
                failing = True
                await asyncio.sleep(RETRY_SECONDS)
                continue
            failing = False
            for message in pulled.messages:
                await self._arrived.put(message)
            offset = pulled.next_offset

    async def _watch(self) -> None:
        """Look for new queues of the topic every ten seconds, and start polling them from offset 0."""
        from rocketmq_py.errors import NetworkError, NoRouteError

        while True:
            await asyncio.sleep(ROUTE_SECONDS)
            try:
                queues = await self._admin.queues(self._topic)
            except (NetworkError, NoRouteError):
                continue  # the polls of the queues report the error
            for queue in queues:
                if queue not in self._tasks:
                    self._start(queue, self._poll(queue, 0))
