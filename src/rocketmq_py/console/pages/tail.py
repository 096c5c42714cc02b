"""The newest messages of a topic, again and again: what came since the last look.

A look keeps nothing: the page says where it has got to, and the next one goes on there. No offset is ever committed.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from rocketmq_py.console.page import Page
from rocketmq_py.console.scan import MOST_QUEUES, Budget, Window, cursor_of, newest_first, parse_cursor
from rocketmq_py.console.state import Console, silent_brokers
from rocketmq_py.console.views import messages as view
from rocketmq_py.model import MessageQueue

MOST = 50
"""Number of messages that one look shows: the newest; the others are counted."""
FIRST = 20
SECONDS = 1.0
"""Time between two looks of a page."""
BUDGET = Budget(offsets=2_000, size=4 * 1024 * 1024, seconds=2.0)


async def tail(console: Console, request: Request) -> Page:
    """Show the messages since a place, newest first; without one, the newest."""
    topic, query = request.path_params["topic"], request.query_params
    tags, at = query.get("tags", "").strip()[:255], query.get("at", "")
    admin = console.connection.admin()
    stats = await admin.topic_stats(topic)
    ends = {queue: (max(0, extent.min_offset), extent.max_offset) for queue, extent in stats.items()}
    watched = sorted(ends, key=lambda queue: -stats[queue].last_update_timestamp)[:MOST_QUEUES]
    seen = parse_cursor(topic, at) if at else {}
    windows = {queue: since(seen.get(queue), *ends[queue]) for queue in watched} if at else {
        queue: ends[queue] for queue in watched
    }  # fmt: skip
    scan = await newest_first(admin, windows, MOST if at else FIRST, tags=tags or "*", budget=BUDGET)
    bodies = console.masks.of_page()
    here: dict[MessageQueue, Window] = {queue: (ends[queue][1], ends[queue][1]) for queue in watched}
    data: dict[str, Any] = {
        "topic": topic, "tags": tags, "at": cursor_of(here), "seconds": SECONDS,
        "messages": [view.message_row(message, bodies) for message in scan.messages],
        "skipped": sum(end - first for first, end in scan.left.values()) if at else 0,
        "queuesLeftOut": len(ends) - len(watched), "silent": silent_brokers(admin),
    }  # fmt: skip
    return Page("tail.html", data, "messages", view.COLUMNS)


def since(seen: Window | None, first: int, end: int) -> Window:
    """Return what to read of a queue: from its end at the last look on; nothing of one that was not looked at."""
    return (end, end) if seen is None else (min(max(seen[1], first), end), end)
