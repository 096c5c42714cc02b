"""Messages of a topic: the newest, by key, by id, by queue and offset, by time; and one message."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.client.message_state import state_in_group, trace_entries
from rocketmq_py.console.bodies import AUTO, DECODERS, SHOWN_BYTES
from rocketmq_py.console.connection import each
from rocketmq_py.console.page import Page, base_of, number, parse_number
from rocketmq_py.console.scan import MOST_QUEUES, Accepts, Scan, Window, cursor_of, newest_first, parse_cursor
from rocketmq_py.console.security import Refused
from rocketmq_py.console.state import Console, or_unknown
from rocketmq_py.console.times import parse_time
from rocketmq_py.console.views import messages as view
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.names import TRACE_TOPIC

PAGE = 50
MOST_ON_PAGE = 200
MOST_BY_KEY = 64
MOST_GROUPS = 20
"""Number of groups whose state with a message one page asks for."""


ASKED = ("key", "queue", "since", "until", "tags", "property", "value")
"""What a list of messages can be narrowed by, in the query of its address."""


async def messages(console: Console, request: Request) -> Page:
    """List messages of a topic, newest first."""
    topic = request.path_params["topic"]
    asked = {name: request.query_params.get(name, "").strip() for name in ASKED}
    accepts = with_property(asked["property"], asked["value"])
    admin = console.connection.admin()
    data: dict[str, Any] = {"topic": topic, "asked": asked, "left": None, "stopped": None, "more": False}
    if asked["key"]:
        found = await admin.messages_by_key(topic, asked["key"], max_messages=MOST_BY_KEY)
        data |= {"lookedAt": None, "more": len(found) >= MOST_BY_KEY}
        found = [message for message in reversed(found) if accepts(message)]
    else:
        size = number(request, "size", PAGE, least=1, most=MOST_ON_PAGE)
        windows, left_out = await _windows(console, admin, request, topic, asked)
        scan = await newest_first(admin, windows, size, tags=asked["tags"] or "*", accepts=accepts)
        found = scan.messages
        data |= _scan_data(scan) | {"queuesLeftOut": left_out}
    bodies = console.masks.of_page()
    data["messages"] = [view.message_row(message, bodies) for message in found]
    return Page("messages.html", data, "messages", view.COLUMNS)


def with_property(name: str, value: str) -> Accepts:
    """Return what tells messages that have a property with a value; with any value if ``value`` is empty.

    :param name: empty for all messages.
    """
    if not name:
        return lambda _: True
    if not value:
        return lambda message: name in message.properties
    return lambda message: message.properties.get(name) == value


def _scan_data(scan: Scan) -> dict[str, Any]:
    return {"left": cursor_of(scan.left) or None, "stopped": scan.stopped, "lookedAt": scan.looked_at}


async def _windows(
    console: Console, admin: Admin, request: Request, topic: str, asked: dict[str, str]
) -> tuple[dict[MessageQueue, Window], int]:
    """Return the ranges of queues to read, and the number of queues that are left out."""
    cursor = request.query_params.get("left")
    if cursor:
        return parse_cursor(topic, cursor), 0
    stats = await admin.topic_stats(topic)
    queues = sorted(stats, key=lambda queue: -stats[queue].last_update_timestamp)
    if asked["queue"]:
        queues = [queue for queue in queues if f"{queue.broker_name}:{queue.queue_id}" == asked["queue"]]
        if not queues:
            raise Refused(404, f"topic {topic} has no queue {asked['queue'][:80]}; write BROKER:NUMBER")
    left_out, queues = max(0, len(queues) - MOST_QUEUES), queues[:MOST_QUEUES]
    since, until = (_time(console, name, asked[name]) for name in ("since", "until"))

    async def window(queue: MessageQueue) -> Window:
        first, end = max(0, stats[queue].min_offset), stats[queue].max_offset
        if since is not None:
            first = max(first, await admin.offset_at(queue, since))
        if until is not None:
            end = min(end, await admin.offset_at(queue, until + 1))
        return first, end

    return dict(zip(queues, await each(queues, window), strict=True)), left_out


def _time(console: Console, name: str, text: str) -> int | None:
    if not text:
        return None
    try:
        return parse_time(text, console.now())
    except (ValueError, OverflowError) as e:
        raise Refused(
            400, f"{name}={text[:40]!r} is no time: write 2026-01-31T12:30 (UTC), or 2h for two hours ago"
        ) from e


async def jump(console: Console, request: Request) -> Response:
    """Go to the message that a form names: by its queue and offset, or by its id."""
    del console
    topic = request.path_params["topic"]
    queue, offset = request.query_params.get("queue", "").strip(), request.query_params.get("offset", "").strip()
    broker, _, queue_id = queue.rpartition(":")
    place = quote(broker, safe="") or "-"
    number_of_queue, at = parse_number("queue", queue_id), parse_number("offset", offset)
    return RedirectResponse(
        f"{base_of(request)}/topics/{quote(topic, safe='')}/messages/{place}/{number_of_queue}/{at}", 303
    )


async def by_id(console: Console, request: Request) -> Response:
    """Go to the message with an offset message id."""
    message = await console.connection.admin().message(request.path_params["id"])
    return RedirectResponse(base_of(request) + link_of(message), 303)


def link_of(message: MessageExt) -> str:
    """Return the address of a message's page."""
    place = f"{quote(message.broker_name, safe='')}/{message.queue_id}/{message.queue_offset}"
    return f"/topics/{quote(message.topic, safe='')}/messages/{place}"


async def read_at(admin: Admin, queue: MessageQueue, offset: int) -> MessageExt:
    """Return the message at an offset.

    :raises Refused: there is none.
    """
    pulled = await admin.pull(queue, offset, max_messages=1)
    for message in pulled.messages:
        if message.queue_offset == offset:
            return message
    raise Refused(
        404, f"{queue} has no message at {offset}; it has those from {pulled.min_offset} to before {pulled.max_offset}"
    )


async def message(console: Console, request: Request) -> Page | Response:
    """Show one message: its fields, its body, its state in each group, and its trace."""
    params = request.path_params
    queue = MessageQueue(params["topic"], params["broker"], parse_number("queue", params["queue"], most=2**31 - 1))
    admin = console.connection.admin()
    found = await read_at(admin, queue, parse_number("offset", params["offset"]))
    bodies = console.masks.of_page()
    if request.query_params.get("format") == "raw":
        if not bodies.is_open:
            raise Refused(403, "bodies are masked or hidden in this console: none is downloaded")
        headers = {"content-disposition": f'attachment; filename="message-{found.queue_id}-{found.queue_offset}.bin"'}
        return Response(found.body, media_type="application/octet-stream", headers=headers)
    decoder = request.query_params.get("decoder", AUTO)
    if decoder not in DECODERS:
        raise Refused(400, f"decoder={decoder[:40]!r} is not one of {', '.join(DECODERS)}")
    limit = None if request.query_params.get("body") == "all" else SHOWN_BYTES
    groups = await or_unknown(admin.topic_groups(queue.topic))
    states = await each(
        (groups or [])[:MOST_GROUPS], lambda group: or_unknown(state_in_group(admin, found, group)), at_once=4
    )
    try:
        traced = await or_unknown(trace_entries(admin, TRACE_TOPIC, found.msg_id))
    except CorruptRecord:
        traced = None
    data = {
        "message": view.message_details(found, bodies.show(found.body, decoder, limit), is_open=bodies.is_open),
        "decoders": list(DECODERS) if bodies.is_open else [],
        "groups": None if groups is None else view.state_rows(state for state in states if state is not None),
        "groupsLeftOut": max(0, len(groups or []) - MOST_GROUPS) + sum(state is None for state in states),
        "trace": None if traced is None else view.trace_rows(traced[0]),
        "traceDamaged": 0 if traced is None else len(traced[1]),
    }
    return Page("message.html", data)
