"""``rocketmq group reset``: set the committed offsets of a consumer group.

The command computes and shows the new offset of each queue before it sets any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_group, complete_topic, with_admin
from rocketmq_py.cli.group.lookup import existing_group
from rocketmq_py.cli.output.prompts import confirm, yes_option
from rocketmq_py.cli.output.tables import TABLE, Row, echo_rows, output_option
from rocketmq_py.cli.output.times import Time
from rocketmq_py.cli.queues import parse_queues

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageQueue

OffsetChoice = Callable[["Admin", "MessageQueue", int, int, int], Awaitable[int]]
"""A function that returns the new offset of a queue.

It gets the administration client, the queue, the committed offset (minimum if none), the minimum and maximum offset.
"""


@click.command("reset")
@click.argument("group", shell_complete=complete_group)
@click.argument("topic", shell_complete=complete_topic)
@click.option("--earliest", is_flag=True, help="Reset to the oldest message.")
@click.option("--latest", is_flag=True, help="Reset to the end; skip the messages that are not consumed yet.")
@click.option(
    "--to-time",
    type=Time(),
    metavar="TIME",
    help="Reset to the first message stored at or after TIME: 2026-01-31T12:30, or 2h for two hours ago.",
)
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="Reset to this offset in every queue.")
@click.option("--shift-by", type=int, metavar="N", help="Move by N messages in each queue; negative moves back.")
@click.option("--queue", "only", metavar="BROKER:N", multiple=True, help="Only this queue.")
@click.option("--dry-run", is_flag=True, help="Show the new offsets without setting them.")
@yes_option
@cluster_options
@output_option
def reset(  # noqa: PLR0913 - one for each option
    group: str, topic: str, only: tuple[str, ...], dry_run: bool, yes: bool, target: Target, output: str, *,
    earliest: bool, latest: bool, to_time: int | None, to_offset: int | None, shift_by: int | None,
) -> None:  # fmt: skip
    """Set the offsets from which a consumer group continues in TOPIC, also while members run.

    An offset outside a queue's range becomes the nearest end of that range. Messages from the new offset on are
    consumed, even if they were consumed before; messages before it are not.
    """
    choose = offset_choice(earliest, latest, to_time, to_offset, shift_by)

    async def make_plan(admin: Admin) -> list[Row]:
        await existing_group(admin, group)
        return await plan(admin, group, topic, parse_queues(only), choose)

    rows = with_admin(target, make_plan)
    echo_rows(rows, output)
    if dry_run:
        return
    moved = [row for row in rows if row["to"] != row["from"]]
    if output == TABLE and not moved:
        click.echo("nothing to do")
        return
    confirm(f"Set {len(moved)} queues of {topic} to these offsets for group {group}?", yes=yes)
    with_admin(target, lambda admin: _apply(admin, group, topic, moved))
    click.echo(f"set {len(moved)} queues of {topic} for group {group}", err=output != TABLE)


def offset_choice(
    earliest: bool, latest: bool, to_time: int | None, to_offset: int | None, shift_by: int | None
) -> OffsetChoice:
    """Return the function that chooses new offsets as the options of ``group reset`` say.

    :raises click.UsageError: not exactly one option is given.
    """
    choices: list[tuple[bool, OffsetChoice]] = [
        (earliest, _first), (latest, _end), (to_time is not None, _at_time(to_time or 0)),
        (to_offset is not None, _constant(to_offset or 0)), (shift_by is not None, _shifted(shift_by or 0)),
    ]  # fmt: skip
    chosen = [choice for given, choice in choices if given]
    if len(chosen) != 1:
        raise click.UsageError("give one of --earliest, --latest, --to-time, --to-offset, --shift-by")
    return chosen[0]


async def _first(_: Admin, __: MessageQueue, ___: int, first: int, end: int) -> int:
    del end
    return first


async def _end(_: Admin, __: MessageQueue, ___: int, first: int, end: int) -> int:
    del first
    return end


def _at_time(when: int) -> OffsetChoice:
    async def choice(admin: Admin, queue: MessageQueue, *_: int) -> int:
        return await admin.offset_at(queue, when)

    return choice


def _constant(offset: int) -> OffsetChoice:
    async def choice(*_: object) -> int:
        return offset

    return choice


def _shifted(by: int) -> OffsetChoice:
    async def choice(_: Admin, __: MessageQueue, now: int, *___: int) -> int:
        return now + by

    return choice


async def plan(admin: Admin, group: str, topic: str, only: set[tuple[str, int]], choose: OffsetChoice) -> list[Row]:
    """Return an output row for each queue with its committed offset (``from``, may be None) and new offset (``to``).

    :param only: broker name and id of the queues; empty for all queues of the topic.
    :param choose: returns the new offset of a queue; see :func:`offset_choice`.
    :raises click.UsageError: ``only`` names a queue that the topic does not have.
    """
    queues = await admin.queues(topic)
    unknown = only - {(queue.broker_name, queue.queue_id) for queue in queues}
    if unknown:
        names = ", ".join(f"{broker}:{number}" for broker, number in sorted(unknown))
        raise click.UsageError(f"topic {topic} has no queue {names}")
    chosen = [queue for queue in queues if not only or (queue.broker_name, queue.queue_id) in only]
    return list(await asyncio.gather(*(_planned(admin, group, queue, choose) for queue in chosen)))


async def _planned(admin: Admin, group: str, queue: MessageQueue, choose: OffsetChoice) -> Row:
    committed, first, end = await asyncio.gather(
        admin.group_offset(group, queue), admin.min_offset(queue), admin.max_offset(queue)
    )
    to = await choose(admin, queue, first if committed is None else committed, first, end)
    return {
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "minOffset": first,
        "maxOffset": end,
        "from": committed,
        "to": min(max(to, first), end),
    }


async def _apply(admin: Admin, group: str, topic: str, rows: list[Row]) -> None:
    """Reset all queues at once; after failures, raise the first when every queue was tried."""
    from rocketmq_py.model import MessageQueue

    queues = [(MessageQueue(topic, row["broker"], row["queue"]), row["to"]) for row in rows]
    resets = (admin.reset_group_offset(group, queue, to) for queue, to in queues)
    for outcome in await asyncio.gather(*resets, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
