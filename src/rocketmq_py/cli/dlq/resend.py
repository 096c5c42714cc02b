"""``rocketmq dlq resend``: send dead letters to the topics they came from.

Messages are sent one at a time, and the progress is committed to the cluster after each, so the next run continues
after the last message sent. When a run is interrupted, one message may be stored without being recorded as sent; the
command reports it. Each message keeps its unique id, by which consumers can detect a duplicate.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_group, with_admin
from rocketmq_py.cli.dlq.resend_lock import ResendLock
from rocketmq_py.cli.dlq.source import dead_letters
from rocketmq_py.cli.group.lookup import existing_group
from rocketmq_py.cli.output.failures import CommandFailure, missing, status_of
from rocketmq_py.cli.output.prompts import confirm, progress, yes_option
from rocketmq_py.cli.output.tables import Row, echo_rows, output_option
from rocketmq_py.client.dead_letters import (
    GROUP,
    TOPIC,
    mark_resent,
    message_to_resend,
    origin_of,
    receiving_topic,
    resent_to,
)
from rocketmq_py.protocol.names import dlq_topic

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.client.producer.producer import Producer
    from rocketmq_py.errors import RocketMQError
    from rocketmq_py.model import Message, MessageExt, MessageQueue

OffsetRanges = dict["MessageQueue", tuple[int, int]]
"""First offset and exclusive end of the dead letters to send, by queue."""


class ResendPlan(NamedTuple):
    """The dead letters that one run of ``dlq resend`` sends.

    :ivar ranges: first offset and exclusive end, by queue.
    :ivar origins: number of messages by original topic; key None counts messages whose topic is unknown.
    :ivar from_start: messages that were resent before are included.
    """

    ranges: OffsetRanges
    origins: Counter[str | None]
    from_start: bool

    @property
    def total(self) -> int:
        return sum(self.origins.values())


@click.command("resend")
@click.argument("group", shell_complete=complete_group)
@click.option("--to", "receiver", type=click.Choice((TOPIC, GROUP)), default=TOPIC, show_default=True,
              help="Send to the original topic (all its groups) or to the retry topic (this group only).")  # fmt: skip
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="Send at most N messages.")
@click.option("--from-start", is_flag=True, help="Also resend messages that were resent before.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent without sending it.")
@yes_option
@cluster_options
@output_option
def resend(
    group: str, receiver: str, limit: int | None, from_start: bool, dry_run: bool, yes: bool, target: Target,
    output: str,
) -> None:  # fmt: skip
    """Send the dead letters of a consumer group to the topics they came from.

    Continues where the last run ended. Messages stay in the dead-letter topic until they expire, but later runs skip
    those that were resent. Message ids, tags, keys and properties stay the same; retries start from zero. The first
    failure ends the run. Queue locks on the brokers prevent two runs at the same time.
    """
    plan = with_admin(target, lambda admin: make_plan(admin, group, limit, from_start=from_start))
    echo_rows(plan_rows(plan, group, receiver), output)
    if dry_run or not plan.total:
        return
    if None in plan.origins:
        raise CommandFailure(
            f"{plan.origins[None]} dead letters of group {group} do not contain their original topic; export them, and "
            "send them with 'rocketmq message send TOPIC --jsonl FILE'"
        )
    with_admin(target, lambda admin: _check_receivers(admin, plan, group, receiver))
    consumers = "every group of those topics" if receiver == TOPIC else f"group {group} alone"
    confirm(f"Send {plan.total} messages again, to {consumers}?", yes=yes)
    with_admin(target, lambda admin: _resend(target, admin, plan, group, receiver))


async def make_plan(admin: Admin, group: str, limit: int | None, *, from_start: bool) -> ResendPlan:
    """Return the dead letters to send; reads each of them to find its original topic.

    :param limit: maximum number of messages over all queues; None for no limit.
    :param from_start: include messages that were resent before.
    """
    ranges: OffsetRanges = {}
    origins: Counter[str | None] = Counter()
    remaining = limit
    for queue, (first, end) in (await dead_letters(admin, group)).items():
        mark = None if from_start else await resent_to(admin, queue)
        start = max(first, mark or 0)
        stop = end if remaining is None else min(end, start + remaining)
        if start >= stop:
            continue
        ranges[queue] = (start, stop)
        remaining = None if remaining is None else remaining - (stop - start)
        async for message in admin.read(queue, start, stop):
            origins[origin_of(message)] += 1
    return ResendPlan(ranges, origins, from_start)


def plan_rows(plan: ResendPlan, group: str, receiver: str) -> list[Row]:
    """Return an output row for each original topic: its name, the topic to send to, and the number of messages.

    :param receiver: ``topic`` to send to the original topic, ``group`` to send to the retry topic of ``group``.
    """
    return [
        {"origin": origin, "to": receiving_topic(origin, group, receiver), "messages": count}
        for origin, count in sorted(plan.origins.items(), key=lambda item: item[0] or "")
    ]


async def _check_receivers(admin: Admin, plan: ResendPlan, group: str, receiver: str) -> None:
    """Fail if a topic to send to, or the group, no longer exists, so that a send does not create it again.

    :param receiver: as for :func:`plan_rows`.
    :raises CommandFailure: a topic or the group is missing; exit status 3.
    """
    from rocketmq_py.errors import NoRouteError

    if receiver == GROUP:
        await existing_group(admin, group)
        return
    for origin in plan.origins:
        try:
            await admin.route(origin or "")
        except NoRouteError as e:
            raise missing(
                f"topic {origin}, where dead letters of group {group} came from, no longer exists", str(e)
            ) from e


async def _resend(target: Target, admin: Admin, plan: ResendPlan, group: str, receiver: str) -> None:
    sent: list[MessageExt] = []
    async with target.producer(send_timeout=target.timeout, retries=0) as producer:
        lock = ResendLock(admin, plan.ranges)
        with progress(f"resending {dlq_topic(group)}", plan.total) as advance:
            try:
                await lock.acquire()
                for queue, (start, stop) in plan.ranges.items():
                    async for message in admin.read(queue, await _start_offset(admin, plan, queue, start), stop):
                        await lock.acquire()
                        again = message_to_resend(message, group, receiver)
                        await _uninterrupted(_send_and_mark(admin, producer, message, again, sent))
                        advance(1)
            finally:
                await lock.release()
                click.echo(f"sent {len(sent)} of {plan.total} dead letters of group {group} again", err=True)


async def _start_offset(admin: Admin, plan: ResendPlan, queue: MessageQueue, start: int) -> int:
    """Return the first offset to send of a queue: ``start``, or a later one if another run has resent messages since.

    Call it while the lock is held, so that no other run changes it any more.
    """
    return start if plan.from_start else max(start, await resent_to(admin, queue) or 0)


async def _uninterrupted(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end even when cancelled, so that every sent message is recorded."""
    task = asyncio.ensure_future(coroutine)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


async def _send_and_mark(
    admin: Admin, producer: Producer, dead: MessageExt, message: Message, sent: list[MessageExt]
) -> None:
    from rocketmq_py.errors import RocketMQError

    try:
        if message.sharding_key is not None:
            await producer.send_ordered(message)
        else:
            await producer.send(message)
    except RocketMQError as e:
        raise _not_sent(dead, message, e) from e
    sent.append(dead)
    try:
        await mark_resent(admin, dead.queue, dead.queue_offset + 1)
    except RocketMQError as e:
        raise CommandFailure(
            f"{dead.msg_id} ({dead.queue} at {dead.queue_offset}) was sent to {message.topic}, but recording "
            f"this failed: {e}. The next run sends it again, unless you first set the offset of "
            f"group TOOLS_CONSUMER to {dead.queue_offset + 1}"
        ) from e


def _not_sent(dead: MessageExt, message: Message, error: RocketMQError) -> CommandFailure:
    from rocketmq_py.errors import ConnectError, NetworkError

    which = f"{dead.msg_id} ({dead.queue} at {dead.queue_offset}) to {message.topic}"
    if isinstance(error, NetworkError) and not isinstance(error, ConnectError):
        text = (
            f"{which} was sent but not answered, and may have been stored: {error}. Find it with 'rocketmq message "
            f"query {message.topic} {dead.msg_id}'; the next run starts with it"
        )
        return CommandFailure(text)
    return CommandFailure(f"{which} was not sent: {error}. The next run starts with it", status_of(error))
