"""The overview of the cluster, the search for a name, and the list of changes."""

from __future__ import annotations

from starlette.requests import Request

from rocketmq_py.console.connection import each
from rocketmq_py.console.page import Page
from rocketmq_py.console.state import Console
from rocketmq_py.console.views import cluster as view
from rocketmq_py.errors import BrokerError, NetworkError

MOST_BROKERS = 256
MOST_FOUND = 100


async def overview(console: Console, request: Request) -> Page:
    """Show all brokers with their versions, rates and disks."""
    del request
    admin = console.connection.admin()
    info = await admin.cluster()
    asked = view.addresses(info)[:MOST_BROKERS]

    async def state(address: str) -> dict[str, str] | str:
        try:
            return await admin.broker_state(address)
        except (NetworkError, BrokerError) as e:
            return str(e)

    states = dict(zip(asked, await each(asked, state), strict=True))
    rows = view.broker_rows(info, states)
    data = {"namesrv": console.connection.namesrv, "brokers": rows, "asked": len(asked)}
    return Page("cluster.html", data, "brokers", view.COLUMNS)


async def search(console: Console, request: Request) -> Page:
    """Find topics and groups by a part of their names, and a message by its id."""
    text = request.query_params.get("q", "").strip()[:255]
    low = text.lower()
    topics = [topic for topic in await console.topics() if low and low in topic.lower()]
    groups = [group for group in (await console.groups()).value if low and low in group.lower()]
    is_id = len(text) in (32, 56) and all(digit in "0123456789abcdef" for digit in low)
    data = {
        "q": text,
        "topics": topics[:MOST_FOUND],
        "groups": groups[:MOST_FOUND],
        "moreTopics": max(0, len(topics) - MOST_FOUND),
        "moreGroups": max(0, len(groups) - MOST_FOUND),
        "messageId": text if is_id else None,
    }
    return Page("search.html", data)


async def audit(console: Console, request: Request) -> Page:
    """List the changes that were made with this console since its start, the newest first."""
    del request
    columns = ("at", "who", "from", "action", "group", "topic", "what", "result")
    return Page("audit.html", {"changes": [dict(entry) for entry in console.audit.entries]}, "changes", columns)
