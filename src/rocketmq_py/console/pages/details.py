"""One member of a group, the life of one message, the cost of one topic, and the doctor."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.client.doctor.queries import examine
from rocketmq_py.client.message_state import copies, trace_entries
from rocketmq_py.console.connection import each
from rocketmq_py.console.page import Page, parse_number
from rocketmq_py.console.pages.messages import read_at
from rocketmq_py.console.security import Refused
from rocketmq_py.console.state import Console, or_unknown, silent_brokers
from rocketmq_py.console.views import cost as cost_view, life as life_view, topics as topic_view, watch
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.names import TRACE_TOPIC, dlq_topic, retry_topic

MOST_GROUPS = 20
MOST_STACK = 256 * 1024


async def member(console: Console, request: Request) -> Page:
    """Show what a member does with its queues, its settings, and the stacks of its threads."""
    group, client_id = request.path_params["group"], request.path_params["client"]
    info = await console.connection.admin().running_info(group, client_id, stack=True)
    if info is None:
        raise Refused(404, f"member {client_id[:255]} of group {group} does not answer")
    stack = info.jstack or ""
    data = {
        "group": group, "clientId": client_id, "limits": watch.limits_of(info.properties),
        "queues": watch.queue_rows(info, console.now()), "settings": watch.shown_settings(info.properties),
        "stack": stack[:MOST_STACK], "stackCut": len(stack) > MOST_STACK,
    }  # fmt: skip
    return Page("member.html", data, "queues", watch.COLUMNS)


async def life(console: Console, request: Request) -> Page:
    """Show everything with the unique id of a message, by time."""
    params = request.path_params
    queue = MessageQueue(params["topic"], params["broker"], parse_number("queue", params["queue"], most=2**31 - 1))
    admin = console.connection.admin()
    message = await read_at(admin, queue, parse_number("offset", params["offset"]))
    groups = await or_unknown(admin.topic_groups(queue.topic)) or []
    sent = await copies(admin, queue.topic, message.msg_id) or [message]
    retried = await _of_groups(admin, groups[:MOST_GROUPS], retry_topic, message.msg_id)
    dead = await _of_groups(admin, groups[:MOST_GROUPS], dlq_topic, message.msg_id)
    try:
        traced = await or_unknown(trace_entries(admin, TRACE_TOPIC, message.msg_id))
    except CorruptRecord:
        traced = None
    data = {
        "msgId": message.msg_id, "topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id,
        "offset": message.queue_offset, "events": life_view.events(sent, retried, dead, traced[0] if traced else []),
        "groupsLeftOut": max(0, len(groups) - MOST_GROUPS), "silent": silent_brokers(admin),
    }  # fmt: skip
    return Page("life.html", data, "events", life_view.COLUMNS)


async def _of_groups(
    admin: Admin, groups: list[str], topic_of: Callable[[str], str], msg_id: str
) -> list[tuple[str, MessageExt]]:
    found = await each(groups, lambda group: or_unknown(copies(admin, topic_of(group), msg_id)))
    return [(group, one) for group, messages in zip(groups, found, strict=True) for one in messages or ()]


async def cost(console: Console, request: Request) -> Page:
    """Show what a topic costs: messages and bytes in and out, copies, and its share."""
    topic = request.path_params["topic"]
    admin = console.connection.admin()
    route, groups = await admin.route(topic), await or_unknown(admin.topic_groups(topic)) or []
    asked: list[tuple[str, str | None, str, str, str]] = [
        ("in", None, "messages", "TOPIC_PUT_NUMS", topic),
        ("in", None, "bytes", "TOPIC_PUT_SIZE", topic),
    ]
    for group in groups[:MOST_GROUPS]:
        asked += [("out", group, "messages", "GROUP_GET_NUMS", f"{topic}@{group}"),
                  ("out", group, "bytes", "GROUP_GET_SIZE", f"{topic}@{group}")]  # fmt: skip
    counted = await each(asked, lambda one: or_unknown(admin.counter(one[3], one[4])))
    rows = [cost_view.row(*one[:3], answer) for one, answer in zip(asked, counted, strict=True)]
    clusters = sorted({data.cluster for data in (await admin.cluster()).broker_addr_table.values()})
    whole = await each(clusters, lambda cluster: or_unknown(admin.counter("BROKER_PUT_NUMS", cluster)))
    every = [cost_view.row("in", None, "messages", answer)["day"] for answer in whole]
    messages = topic_view.topic_row(topic, "", {}, await or_unknown(admin.topic_stats(topic)))["messages"]
    data = {
        "topic": topic, "counters": rows, "groupsLeftOut": max(0, len(groups) - MOST_GROUPS),
        "copies": {broker: len(addresses) for broker, addresses in sorted(route.brokers.items())},
        "share": cost_view.share(rows[0]["day"], sum(each or 0 for each in every)),
        "storedBytes": cost_view.stored_bytes(messages, rows[0], rows[1]), "silent": silent_brokers(admin),
    }  # fmt: skip
    return Page("cost.html", data, "counters", cost_view.COLUMNS)


async def doctor(console: Console, request: Request) -> Page:
    """Run the checks of ``rocketmq doctor``, of all brokers, or also of a topic and a group."""
    asked = {name: request.query_params.get(name, "").strip()[:255] for name in ("topic", "group")}
    connection = console.connection
    checks = await examine(connection.admin_of, connection.namesrv, asked["topic"] or None, asked["group"] or None)
    data = {**asked, "checks": [check._asdict() for check in checks]}
    return Page("doctor.html", data, "checks", ("check", "target", "status", "detail", "advice"))
