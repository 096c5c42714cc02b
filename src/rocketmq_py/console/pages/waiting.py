"""What waits in brokers: transactions, timed messages, pops in flight; and who sends."""

from __future__ import annotations

from itertools import islice
from typing import Any

from starlette.requests import Request

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.console.connection import each
from rocketmq_py.console.page import Page
from rocketmq_py.console.pages.dead import token_of
from rocketmq_py.console.scan import Scan, newest_first
from rocketmq_py.console.security import TOKEN_FIELD, read_form
from rocketmq_py.console.state import Console, or_unknown, silent_brokers
from rocketmq_py.console.views import spark as spark_view, waiting as view
from rocketmq_py.console.views.messages import message_row
from rocketmq_py.errors import NoRouteError, TopicNotExist
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.codes import version_name
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.pop_checkpoint import revive_topic

MOST = 200
MOST_HOLDS = 1_000
MOST_SCANNED = 5_000
"""Number of records of a broker's internal topic that one page reads."""


async def transactions(console: Console, request: Request) -> Page:
    """List transactions that are open, and those that brokers gave up."""
    admin = console.connection.admin()
    try:
        opened = await admin.open_transactions()
    except (NoRouteError, TopicNotExist):
        opened = []
    given_up = []
    async for half in admin.given_up_transactions():
        given_up.append(half)
        if len(given_up) > MOST:
            break

    bodies = console.masks.of_page()

    def rows(halves: list[MessageExt]) -> list[dict[str, Any]]:
        return [view.transaction_row(half, message_row(half, bodies)) for half in islice(halves, MOST)]

    data = {
        "open": rows(opened), "givenUp": rows(given_up), "leftOut": max(0, len(opened) - MOST),
        "token": token_of(console, request), "silent": silent_brokers(admin),
    }  # fmt: skip
    return Page("transactions.html", data, "open", view.TRANSACTION_COLUMNS)


async def spark(console: Console, request: Request) -> Page:
    """Show queries by their checkpoints, and the micro-batches whose rows are not all committed or rolled back."""
    del request
    admin = console.connection.admin()
    states = None if console.checkpoints is None else await console.checkpoints.states()
    latest = await _latest_offsets(admin, {queue.topic for state in states or () for queue in state.done})
    opened, given_up, is_cut = await _halves(admin)
    producers = await or_unknown(admin.producers())
    rows = spark_view.batch_rows(opened, given_up, producers)
    queries = None if states is None else [spark_view.query_row(state, latest) for state in states]
    data = {"queries": queries, "batches": rows[:MOST], "leftOut": max(0, len(rows) - MOST), "isCut": is_cut,
            "silent": silent_brokers(admin)}  # fmt: skip
    return Page("spark.html", data, "batches", spark_view.COLUMNS)


async def _latest_offsets(admin: Admin, topics: set[str]) -> dict[MessageQueue, int]:
    """Return the ends of the queues of topics, as far as brokers tell them."""
    stats = await each(sorted(topics)[:MOST], lambda topic: or_unknown(admin.topic_stats(topic)))
    return {queue: extent.max_offset for one in stats for queue, extent in (one or {}).items()}


async def _halves(admin: Admin) -> tuple[list[MessageExt], list[MessageExt], bool]:
    """Return the open transactions, the first of those that brokers gave up, and whether there are more of them."""
    try:
        opened = await admin.open_transactions()
    except (NoRouteError, TopicNotExist):
        opened = []
    given_up: list[MessageExt] = []
    async for half in admin.given_up_transactions():
        if len(given_up) >= MOST_SCANNED:
            return opened, given_up, True
        given_up.append(half)
    return opened, given_up, False


async def resume(console: Console, request: Request) -> Page:
    """Make a broker check a transaction again that it gave up."""
    fields = dict(await read_form(request))
    console.tokens.check(request, fields.get(TOKEN_FIELD, ""))
    found = fields.get("id", "")
    await console.connection.admin().resume_transaction(found)
    console.audit.record(request, "resume transaction", what=found, result="asked")
    return await transactions(console, request)


async def timers(console: Console, request: Request) -> Page:
    """Show timed messages that wait, by topic and by the hour in which they are due."""
    del request
    admin = console.connection.admin()
    counts = await or_unknown(admin.timers())
    scan = await _scan(admin, TIMER_TOPIC)
    hours, later = view.due_by_hour(scan.messages, console.now())
    data = {
        "topics": None if counts is None else view.timer_rows(counts), "hours": hours, "later": later,
        "read": len(scan.messages), "unread": bool(scan.left), "silent": silent_brokers(admin),
    }  # fmt: skip
    return Page("timers.html", data, "hours", ("from", "due", "topics"))


async def pops(console: Console, request: Request) -> Page:
    """List pops whose messages are not all acknowledged, from the check points in the revive topics."""
    del request
    admin = console.connection.admin()
    clusters = sorted({data.cluster for data in (await admin.cluster()).broker_addr_table.values()})
    scans = [await _scan(admin, revive_topic(cluster)) for cluster in clusters]
    rows = view.pops_in_flight((record for scan in scans for record in scan.messages), console.now())
    data = {
        "pops": rows[:MOST], "leftOut": max(0, len(rows) - MOST), "read": sum(len(scan.messages) for scan in scans),
        "unread": any(scan.left for scan in scans), "silent": silent_brokers(admin),
    }  # fmt: skip
    return Page("pops.html", data, "pops", view.POP_COLUMNS)


async def holds(console: Console, request: Request) -> Page:
    """List the pulls, pops and notifications that brokers hold, the longest wait first."""
    topic, group = (request.query_params.get(name, "").strip()[:255] for name in ("topic", "group"))
    admin = console.connection.admin()
    found = await admin.held(topic, group)
    rows = view.hold_rows(found, console.now())
    names = (await admin.cluster()).broker_addr_table
    silent = silent_brokers(admin)
    untold = sorted(set(names) - set(found) - {one["broker"] for one in silent})
    data = {
        "topic": topic, "group": group, "holds": rows[:MOST_HOLDS], "listed": len(rows),
        "total": sum(one.total for one in found.values()) if found else None,
        "isCut": len(rows) > MOST_HOLDS or any(one.is_cut for one in found.values()),
        "untold": untold, "silent": silent,
    }  # fmt: skip
    return Page("holds.html", data, "holds", view.HOLD_COLUMNS)


async def _scan(admin: Admin, topic: str) -> Scan:
    """Read the newest records of an internal topic; nothing if no broker has it."""
    try:
        stats = await admin.topic_stats(topic)
    except (NoRouteError, TopicNotExist):
        return Scan([], {}, None, 0)
    windows = {queue: (max(0, extent.min_offset), extent.max_offset) for queue, extent in stats.items()}
    return await newest_first(admin, windows, MOST_SCANNED)


async def producers(console: Console, request: Request) -> Page:
    """List the connected producers."""
    del request
    admin = console.connection.admin()
    found = await admin.producers()
    rows = [
        {"group": group, "clientId": one.client_id, "address": one.remote_ip, "language": one.language,
         "version": version_name(one.version), "lastHeartbeat": one.last_update_timestamp or None}
        for group, members in found.items() for one in members
    ]  # fmt: skip
    data = {"producers": rows, "silent": silent_brokers(admin)}
    return Page(
        "producers.html", data, "producers", ("group", "clientId", "address", "language", "version", "lastHeartbeat")
    )
