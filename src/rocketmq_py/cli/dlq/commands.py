"""``rocketmq dlq``: list, show, export and resend the dead letters of consumer groups."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_group, with_admin
from rocketmq_py.cli.connect.listing import listing
from rocketmq_py.cli.dlq.resend import resend
from rocketmq_py.cli.dlq.source import dead_letters
from rocketmq_py.cli.message.rows import body_option, in_short, message_row
from rocketmq_py.cli.output.files import output_to
from rocketmq_py.cli.output.prompts import progress
from rocketmq_py.cli.output.tables import TABLE, Row, echo_rows, output_option
from rocketmq_py.cli.output.times import Time, show_time
from rocketmq_py.client.dead_letters import origin_of, resent_to
from rocketmq_py.protocol.names import DLQ_PREFIX, dlq_topic

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageExt, MessageQueue

MAX_CONCURRENT_TOPICS = 16
"""Maximum number of dead-letter topics that one command queries at the same time."""
COLUMNS = ("stored", "broker", "queue", "offset", "msgId", "origin", "tags", "keys", "reconsumeTimes", "body")


@click.group(name="dlq")
def command() -> None:
    """Dead letters: ls, show, export, resend.

    When all retries of a message fail, the broker moves it to the dead-letter topic %DLQ%GROUP of the consumer group.
    """


command.add_command(resend)


@command.command("ls")
@cluster_options
@output_option
def list_(target: Target, output: str) -> None:
    """List consumer groups that have dead letters. Exit status 4 when a broker does not answer."""

    async def work(admin: Admin) -> list[Row]:
        names = [name for name in await admin.topic_configs() if name.startswith(DLQ_PREFIX)]
        limit = asyncio.Semaphore(MAX_CONCURRENT_TOPICS)
        return list(await asyncio.gather(*(_row(admin, name, limit) for name in names)))

    with listing(target) as query:
        rows = [row for row in query.run(work) if row["messages"]]
        shown = [{**row, "lastStored": show_time(row["lastStored"])} for row in rows] if output == TABLE else rows
        echo_rows(shown, output, ("group", "messages", "resent", "lastStored"))


async def _row(admin: Admin, topic: str, limit: asyncio.Semaphore) -> Row:
    async with limit:
        stats = await admin.topic_stats(topic)
        marks = await asyncio.gather(*(resent_to(admin, queue) for queue in stats))
    done = [
        min(max(0, (mark or 0) - extent.min_offset), extent.max_offset - extent.min_offset)
        for mark, extent in zip(marks, stats.values(), strict=True)
    ]
    return {
        "group": topic.removeprefix(DLQ_PREFIX),
        "messages": sum(extent.max_offset - extent.min_offset for extent in stats.values()),
        "resent": sum(done),
        "lastStored": max((extent.last_update_timestamp for extent in stats.values()), default=0),
    }


@command.command("show")
@click.argument("group", shell_complete=complete_group)
@click.option("-n", "--last", type=click.IntRange(min=1), default=10, show_default=True, metavar="K",
              help="How many dead letters.")  # fmt: skip
@body_option
@cluster_options
@output_option
def show(group: str, last: int, encoding: str, target: Target, output: str) -> None:
    """Show the newest dead letters of a consumer group."""

    async def work(admin: Admin) -> list[MessageExt]:
        await dead_letters(admin, group)
        return (await admin.newest(dlq_topic(group), last))[0]

    rows = [dead_row(message, encoding) for message in with_admin(target, work)]
    echo_rows(map(in_short, rows) if output == TABLE else rows, output, COLUMNS)


def dead_row(message: MessageExt, encoding: str) -> Row:
    """Return the output row of a dead letter, with its original topic as ``origin``.

    :param encoding: encoding of the body, as for :func:`message_row`.
    """
    return {**message_row(message, encoding), "origin": origin_of(message)}


@command.command("export")
@click.argument("group", shell_complete=complete_group)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default="-")
@click.option(
    "--since", type=Time(), default=None, metavar="TIME", help="Stored in the dead-letter topic at TIME or later."
)
@click.option("--until", type=Time(), default=None, metavar="TIME", help="Stored in the dead-letter topic before TIME.")
@body_option
@cluster_options
def export(group: str, file: Path, since: int | None, until: int | None, encoding: str, target: Target) -> None:
    """Write the dead letters of a consumer group to FILE, one JSON line each; - is stdout.

    The dead letters stay in their topic. FILE is written completely or not at all; 'rocketmq message send TOPIC
    --jsonl FILE' sends its messages to a topic.
    """

    async def write_rows(admin: Admin, out: IO[bytes]) -> int:
        queues = await _between(admin, await dead_letters(admin, group), since, until)
        count = 0
        with progress(f"exporting {dlq_topic(group)}", sum(stop - start for start, stop in queues.values())) as advance:
            async for message in _read(admin, queues):
                out.write(json.dumps(dead_row(message, encoding), ensure_ascii=False).encode() + b"\n")
                count += 1
                advance(1)
        return count

    with output_to(file) as out:
        count = with_admin(target, lambda admin: write_rows(admin, out))
    click.echo(f"exported {count} dead letters of group {group}", err=True)


async def _between(
    admin: Admin, extents: dict[MessageQueue, tuple[int, int]], since: int | None, until: int | None
) -> dict[MessageQueue, tuple[int, int]]:
    """Return for each queue the range of offsets (start, exclusive stop) of messages stored between two times.

    :param extents: first offset and exclusive end of each queue.
    :param since: milliseconds since the epoch, inclusive; None for no bound.
    :param until: milliseconds since the epoch, exclusive; None for no bound.
    """
    found = {}
    for queue, (first, end) in extents.items():
        start = first if since is None else await admin.offset_at(queue, since)
        stop = end if until is None else await admin.offset_at(queue, until)
        found[queue] = (max(first, start), min(end, max(start, stop)))
    return found


async def _read(admin: Admin, queues: dict[MessageQueue, tuple[int, int]]) -> AsyncIterator[MessageExt]:
    for queue, (start, stop) in queues.items():
        async for message in admin.read(queue, start, stop):
            yield message
