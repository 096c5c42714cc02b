"""``rocketmq dlq resend``: dead letters go back to the topics they came from.

One after the other, and after each the cluster notes how far this has come: whatever ends a run, the next one goes on
behind what was sent. Only of the one message under way at that moment it may be unknown whether it was stored, which is
said, and which a message id that stays the same lets consumers notice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_group, with_admin
from rocketmq_py.cli.dlq.resend_lock import ResendLock
from rocketmq_py.cli.dlq.source import dead_letters, mark_resent, origin_of, resent_to
from rocketmq_py.cli.group.lookup import existing_group
from rocketmq_py.cli.message.rows import own_properties
from rocketmq_py.cli.output.failures import CommandFailure, missing, status_of
from rocketmq_py.cli.output.prompts import confirm, progress, yes_option
from rocketmq_py.cli.output.tables import Row, echo_rows, output_option
from rocketmq_py.properties import Property
from rocketmq_py.protocol.names import dlq_topic, retry_topic

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.client.producer.producer import Producer
    from rocketmq_py.errors import RocketMQError
    from rocketmq_py.model import Message, MessageExt, MessageQueue

TOPIC, GROUP = "topic", "group"

Part = dict["MessageQueue", tuple[int, int]]
"""The dead letters that are meant: from which offset to which, of each queue."""


class ResendPlan(NamedTuple):
    """What a run would do. ``origins`` counts messages by the topic they go to; None stands for "it does not say"."""

    part: Part
    origins: Counter[str | None]
    from_start: bool

    @property
    def total(self) -> int:
        return sum(self.origins.values())


@click.command("resend")
@click.argument("group", shell_complete=complete_group)
@click.option("--to", "receiver", type=click.Choice((TOPIC, GROUP)), default=TOPIC, show_default=True,
              help="To the original topic, for all its groups, or to the retry topic, for this one.")  # fmt: skip
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="At most N messages.")
@click.option("--from-start", is_flag=True, help="Those that were sent again before, too.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@yes_option
@cluster_options
@output_option
def resend(
    group: str, receiver: str, limit: int | None, from_start: bool, dry_run: bool, yes: bool, target: Target,
    output: str,
) -> None:  # fmt: skip
    """Send the dead letters of a consumer group once more, to the topics they came from.

    Goes on where the last run ended; what was sent stays a dead letter until it expires, but is not sent again. Message
    ids, tags, keys and properties stay the same, retries begin anew. The first message that fails ends the run. One run
    at a time: the brokers' locks see to that.
    """
    plan = with_admin(target, lambda admin: make_plan(admin, group, limit, from_start=from_start))
    echo_rows(plan_rows(plan, group, receiver), output)
    if dry_run or not plan.total:
        return
    if None in plan.origins:
        raise CommandFailure(
            f"{plan.origins[None]} dead letters of group {group} do not say where they came from; export them, and "
            "send them with 'rocketmq message send TOPIC --jsonl FILE'"
        )
    with_admin(target, lambda admin: _check_receivers(admin, plan, group, receiver))
    who = "every group of those topics" if receiver == TOPIC else f"group {group} alone"
    confirm(f"Send {plan.total} messages again, to {who}?", yes=yes)
    with_admin(target, lambda admin: _carry_out(target, admin, plan, group, receiver))


async def make_plan(admin: Admin, group: str, limit: int | None, *, from_start: bool) -> ResendPlan:
    """What there is to send; every dead letter is looked at for where it came from."""
    part: Part = {}
    origins: Counter[str | None] = Counter()
    left = limit
    for queue, (first, end) in (await dead_letters(admin, group)).items():
        mark = None if from_start else await resent_to(admin, queue)
        start = max(first, mark or 0)
        stop = end if left is None else min(end, start + left)
        if start >= stop:
            continue
        part[queue] = (start, stop)
        left = None if left is None else left - (stop - start)
        async for message in admin.read(queue, start, stop):
            origins[origin_of(message)] += 1
    return ResendPlan(part, origins, from_start)


def plan_rows(plan: ResendPlan, group: str, receiver: str) -> list[Row]:
    """How many messages go where."""
    return [
        {"origin": origin, "to": retry_topic(group) if receiver == GROUP else origin, "messages": count}
        for origin, count in sorted(plan.origins.items(), key=lambda item: item[0] or "")
    ]


def revived(message: MessageExt, group: str, receiver: str) -> Message:
    """The message to send for a dead letter; it keeps its unique id, so that consumers can tell a second copy."""
    from rocketmq_py.model import Message

    origin = origin_of(message) or ""
    properties = own_properties(message.properties)
    unique = message.properties.get(Property.UNIQUE_KEY)
    if unique:
        properties[Property.UNIQUE_KEY] = unique
    if receiver == GROUP:
        properties[Property.RETRY_TOPIC] = origin
    topic = retry_topic(group) if receiver == GROUP else origin
    return Message(
        topic, message.body, message.tags, message.keys, sharding_key=message.sharding_key, flag=message.flag,
        properties=properties,
    )  # fmt: skip


async def _check_receivers(admin: Admin, plan: ResendPlan, group: str, receiver: str) -> None:
    """Topics and groups that are gone must not come into being again by a message nobody would consume."""
    from rocketmq_py.errors import NoRouteError

    if receiver == GROUP:
        await existing_group(admin, group)
        return
    for origin in plan.origins:
        try:
            await admin.route(origin or "")
        except NoRouteError as e:
            raise missing(f"topic {origin}, where dead letters of group {group} came from, is gone", str(e)) from e


async def _carry_out(target: Target, admin: Admin, plan: ResendPlan, group: str, receiver: str) -> None:
    done: list[MessageExt] = []
    async with target.producer(send_timeout=target.timeout, retries=0) as producer:
        turn = ResendLock(admin, plan.part)
        with progress(f"resending {dlq_topic(group)}", plan.total) as tell:
            try:
                await turn.keep()
                for queue, (start, stop) in plan.part.items():
                    async for message in admin.read(queue, await _still(admin, plan, queue, start), stop):
                        await turn.keep()
                        again = revived(message, group, receiver)
                        await _whole(_send_and_mark(admin, producer, message, again, done))
                        tell(1)
            finally:
                await turn.end()
                click.echo(f"sent {len(done)} of {plan.total} dead letters of group {group} again", err=True)


async def _still(admin: Admin, plan: ResendPlan, queue: MessageQueue, start: int) -> int:
    """Where to begin with a queue, now that the turn is ours: another run may have come further meanwhile."""
    return start if plan.from_start else max(start, await resent_to(admin, queue) or 0)


async def _whole(step: Coroutine[Any, Any, None]) -> None:
    """Carries out a step to its end, also when it is interrupted: what is sent is noted."""
    task = asyncio.ensure_future(step)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


async def _send_and_mark(
    admin: Admin, producer: Producer, dead: MessageExt, message: Message, done: list[MessageExt]
) -> None:
    from rocketmq_py.errors import RocketMQError

    try:
        if message.sharding_key is not None:
            await producer.send_ordered(message)
        else:
            await producer.send(message)
    except RocketMQError as e:
        raise _not_sent(dead, message, e) from e
    done.append(dead)
    try:
        await mark_resent(admin, dead.queue, dead.queue_offset + 1)
    except RocketMQError as e:
        raise CommandFailure(
            f"{dead.msg_id} ({dead.queue} at {dead.queue_offset}) was sent to {message.topic}, but that could not be "
            f"noted: {e}. The next run would send it a second time, unless this is set first: "
            f"TOOLS_CONSUMER to {dead.queue_offset + 1}"
        ) from e


def _not_sent(dead: MessageExt, message: Message, error: RocketMQError) -> CommandFailure:
    from rocketmq_py.errors import ConnectError, NetworkError

    which = f"{dead.msg_id} ({dead.queue} at {dead.queue_offset}) to {message.topic}"
    if isinstance(error, NetworkError) and not isinstance(error, ConnectError):
        text = (
            f"{which} was sent but not answered, and may have been stored: {error}. Look for it with 'rocketmq message "
            f"query {message.topic} {dead.msg_id}'; the next run begins with it"
        )
        return CommandFailure(text)
    return CommandFailure(f"{which} was not sent: {error}. The next run begins with it", status_of(error))
