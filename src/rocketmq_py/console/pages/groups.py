"""The list of consumer groups, and one group."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.console.connection import each
from rocketmq_py.console.page import Page, number, paged
from rocketmq_py.console.security import Refused
from rocketmq_py.console.state import Console, or_unknown, silent_brokers
from rocketmq_py.console.views import groups as view
from rocketmq_py.errors import BrokerError, NetworkError
from rocketmq_py.protocol.bodies.statistics import ConsumerRunningInfo
from rocketmq_py.protocol.names import dlq_topic, is_system_group

PAGE = 50
MOST_ON_PAGE = 200
QUEUES_ON_PAGE = 256
MOST_MEMBERS = 32
"""Number of members that one page asks about their queues."""
TOPICS_ON_PAGE = 256
"""Number of topics that one page lists: those with the largest lags."""
MOST_TOPICS = 20
"""Number of topics whose times and retained offsets one page asks for."""


async def groups(console: Console, request: Request) -> Page:
    """List groups with their lags, from one request to each broker; members are asked for on the page only."""
    text = request.query_params.get("q", "")[:255].lower()
    sort = request.query_params.get("sort", "group")
    if sort not in ("group", "lag"):
        raise Refused(400, f"sort={sort[:40]!r} is not one of group, lag")
    configs, topics = await console.groups(), set(await console.topics())
    try:
        answer = await console.all_progress()
        progress, silent = answer.value, [configs, answer]
    except (NetworkError, BrokerError):
        progress, silent = {}, [configs]  # the lags are unknown, the groups are not
    names = {name for name in (*configs.value, *progress) if text in name.lower() and not is_system_group(name)}
    rows = [
        view.group_row(name, progress.get(name), members=None, dead_letters=dlq_topic(name) in topics)
        for name in sorted(names)
    ]
    if sort == "lag":
        rows.sort(key=view.by_lag)
    size = number(request, "size", PAGE, least=1, most=MOST_ON_PAGE)
    shown, pages = paged(rows, number(request, "page", 1, least=1), size)
    admin = console.connection.admin()

    async def with_members(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"members": await member_count(admin, row["group"])}

    data = {"q": text, "sort": sort, "groups": await each(shown, with_members), "pages": pages,
            "silent": silent_brokers(admin, answers=silent)}  # fmt: skip
    return Page("groups.html", data, "groups", view.COLUMNS)


async def member_count(admin: Admin, group: str) -> int | None:
    """Return the number of connected members; None if nobody answers."""
    try:
        found = await admin.members(group)
    except (NetworkError, BrokerError):
        return None
    return len(found.connection_set) if found is not None else 0


async def group(console: Console, request: Request) -> Page:
    """Show the lag of a group by queue, its members, and who owns which queue."""
    name = request.path_params["group"]
    admin = console.connection.admin()
    configs = (await console.groups()).value.get(name, {})
    connected, progress = await asyncio.gather(admin.members(name), admin.progress(name))
    if not configs and connected is None and not progress:
        raise Refused(404, f"there is no consumer group {name}")
    members = [member.client_id for member in connected.connection_set] if connected is not None else []
    asked = members[:MOST_MEMBERS]

    async def running(client_id: str) -> ConsumerRunningInfo | None:
        return await or_unknown(admin.running_info(name, client_id))

    infos = dict(zip(asked, await each(asked, running), strict=True))
    shown, pages = paged(sorted(progress), number(request, "page", 1, least=1), QUEUES_ON_PAGE)
    topics = sorted({queue.topic for queue in shown})[:MOST_TOPICS]
    extents = await each(topics, lambda topic: or_unknown(admin.topic_stats(topic)))
    times = await each(topics, lambda topic: or_unknown(admin.consume_times(name, topic)))
    rows = view.queue_rows(
        {queue: progress[queue] for queue in shown},
        {queue: extent for one in extents for queue, extent in (one or {}).items()},
        {queue: time for one in times for queue, time in (one or {}).items()},
        infos,
    )
    sums, left_out = view.largest(view.topic_rows(progress), TOPICS_ON_PAGE)
    data = {
        "group": name,
        "lag": view.lag_of(progress),
        "model": connected.message_model if connected is not None else None,
        "topics": sums,
        "topicsLeftOut": left_out,
        "queues": rows,
        "pages": pages,
        "members": view.member_rows(connected, infos),
        "notAsked": len(members) - len(asked),
        "subscriptions": view.subscription_rows(connected),
        "configs": view.config_rows(configs),
        "deadLetters": dlq_topic(name) in await console.topics(),
        "silent": silent_brokers(admin),
    }
    return Page("group.html", data, "queues", view.QUEUE_COLUMNS)
