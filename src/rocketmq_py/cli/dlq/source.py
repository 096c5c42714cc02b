"""Look up dead letters, their original topics, and which of them have been resent.

The progress of ``rocketmq dlq resend`` is stored in the cluster, as the committed offset of the group TOOLS_CONSUMER in
the dead-letter topic. No other program commits that offset.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rocketmq_py.cli.output.failures import CommandFailure, missing
from rocketmq_py.properties import Property
from rocketmq_py.protocol.names import dlq_topic

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageExt, MessageQueue


async def dead_letters(admin: Admin, group: str) -> dict[MessageQueue, tuple[int, int]]:
    """Return the first offset and exclusive end of each queue of a group's dead-letter topic.

    :raises CommandFailure: the group has no dead letters (exit status 3), or their topic is not readable.
    """
    from rocketmq_py.errors import NoRouteError

    topic = dlq_topic(group)
    try:
        route = await admin.route(topic)
    except NoRouteError as e:
        raise missing(f"consumer group {group} has no dead letters", "'rocketmq dlq ls' lists groups that have") from e
    if not route.read_queues:
        raise CommandFailure(
            f"topic {topic} is not readable; allow reads with: rocketmq topic update '{topic}' --perm rw"
        )
    extents = await asyncio.gather(*(_extent(admin, queue) for queue in route.read_queues))
    return dict(zip(route.read_queues, extents, strict=True))


async def _extent(admin: Admin, queue: MessageQueue) -> tuple[int, int]:
    first, end = await asyncio.gather(admin.min_offset(queue), admin.max_offset(queue))
    return first, end


def origin_of(message: MessageExt) -> str | None:
    """Return the original topic of a dead letter; None if its properties do not contain it."""
    properties = message.properties
    return properties.get(Property.RETRY_TOPIC) or properties.get(Property.DLQ_ORIGIN_TOPIC)


async def resent_to(admin: Admin, queue: MessageQueue) -> int | None:
    """Return the offset after the last resent dead letter of a queue; None if none was resent."""
    from rocketmq_py.protocol.names import TOOLS_GROUP

    return await admin.group_offset(TOOLS_GROUP, queue)


async def mark_resent(admin: Admin, queue: MessageQueue, offset: int) -> None:
    """Store in the cluster that the dead letters of a queue before ``offset`` have been resent."""
    from rocketmq_py.protocol.names import TOOLS_GROUP

    await admin.set_group_offset(TOOLS_GROUP, queue, offset)
