"""How far consumer groups are with one message, and what its clients traced."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_py.protocol.names import dlq_topic, retry_topic

if TYPE_CHECKING:  # the command imports this module for every verb below message, also to print its help
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.errors import CorruptRecord
    from rocketmq_py.model import MessageExt, MessageQueue
    from rocketmq_py.protocol.bodies.admin import OffsetWrapper
    from rocketmq_py.protocol.bodies.client import ConsumerConnection
    from rocketmq_py.wire.trace import TraceEntry

CONSUMED, WAITING, FILTERED, RETRYING, DEAD, BROADCAST = (
    "consumed", "waiting", "filtered", "retrying", "dead", "broadcast"
)  # fmt: skip


class GroupState(NamedTuple):
    """The state of a message in one consumer group.

    :ivar status: one of the words above, see :func:`status`.
    :ivar members: number of connected members.
    :ivar retries: number of copies in the group's retry topic.
    """

    group: str
    status: str
    members: int
    retries: int


async def state_in_group(admin: Admin, message: MessageExt, group: str) -> GroupState:
    """Ask the cluster how far a group is with a message."""
    members, progress, retries, dead = await asyncio.gather(
        admin.members(group),
        admin.progress(group),
        copies(admin, retry_topic(group), message.msg_id),
        copies(admin, dlq_topic(group), message.msg_id),
    )
    return GroupState(
        group,
        status(message, members, progress, retries, dead),
        len(members.connection_set) if members else 0,
        len(retries),
    )


def status(
    message: MessageExt,
    members: ConsumerConnection | None,
    progress: Mapping[MessageQueue, OffsetWrapper],
    retries: list[MessageExt],
    dead: list[MessageExt],
) -> str:
    """Return the status of a message in one group: consumed, waiting, filtered, retrying, dead or broadcast.

    :param members: the connected members; None if there are none.
    :param progress: the group's progress in each queue, also in its retry topic.
    :param retries: its copies in the group's retry topic, oldest first.
    :param dead: its copies in the group's dead-letter topic.
    """
    if dead:
        return DEAD
    if members is not None and members.message_model == "BROADCASTING":
        return BROADCAST
    if retries:
        return CONSUMED if _is_past(retries[-1], progress) else RETRYING
    if not _is_past(message, progress):
        return WAITING
    subscription = members.subscription_table.get(message.topic) if members is not None else None
    tags = subscription.tags_set if subscription is not None and subscription.expression_type == "TAG" else []
    return FILTERED if tags and message.tags not in tags else CONSUMED


def _is_past(message: MessageExt, progress: Mapping[MessageQueue, OffsetWrapper]) -> bool:
    state = progress.get(message.queue)
    return state is not None and state.consumer_offset > message.queue_offset


async def copies(admin: Admin, topic: str, msg_id: str) -> list[MessageExt]:
    """Return the messages of a topic whose unique id is ``msg_id``; empty if the topic does not exist."""
    from rocketmq_py.errors import NoRouteError

    try:
        return await admin.messages_by_key(topic, msg_id, unique=True)
    except NoRouteError:
        return []


async def trace_entries(
    admin: Admin, trace_topic: str, msg_id: str
) -> tuple[list[TraceEntry], dict[str, CorruptRecord]]:
    """Return the trace entries of a message, and the trace messages that cannot be read, with the reason.

    Entries are ordered by timestamp; those without one come first.
    """
    from rocketmq_py.errors import CorruptRecord, NoRouteError
    from rocketmq_py.wire.trace import decode_trace

    found: list[TraceEntry] = []
    damaged: dict[str, CorruptRecord] = {}
    try:
        messages = await admin.messages_by_key(trace_topic, msg_id)
    except NoRouteError:
        return [], {}
    for message in messages:
        try:
            found += [entry for entry in decode_trace(message.body) if entry.msg_id == msg_id]
        except CorruptRecord as e:
            damaged[f"{message.queue} at {message.queue_offset}"] = e
    return sorted(found, key=lambda entry: entry.timestamp or 0), damaged
