"""Look up the dead letters of a consumer group."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rocketmq_py.cli.output.failures import CommandFailure, missing
from rocketmq_py.protocol.names import dlq_topic

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageQueue


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
