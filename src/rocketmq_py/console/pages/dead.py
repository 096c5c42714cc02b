"""Dead letters of a group: list them, look at what a resend would do, resend them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.client.dead_letters import (
    GROUP,
    TOPIC,
    DeadLetterLock,
    mark_resent,
    message_to_resend,
    origin_of,
    receiving_topic,
    resent_to,
)
from rocketmq_py.client.producer.producer import Producer
from rocketmq_py.console.connection import each
from rocketmq_py.console.page import Page, number
from rocketmq_py.console.pages.messages import read_at
from rocketmq_py.console.scan import cursor_of, newest_first, parse_cursor
from rocketmq_py.console.security import TOKEN_FIELD, Refused, cookie_of, read_form
from rocketmq_py.console.state import Console
from rocketmq_py.console.views import messages as view
from rocketmq_py.console.views.picks import MOST, parse_pick, pick_of
from rocketmq_py.errors import NoRouteError, RocketMQError
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.names import dlq_topic

PAGE = 50


async def dead_letters(console: Console, request: Request) -> Page:
    """List the dead letters of a group, newest first."""
    group = request.path_params["group"]
    topic, admin = dlq_topic(group), console.connection.admin()
    try:
        stats = await admin.topic_stats(topic)
    except NoRouteError:
        stats = {}
    left = request.query_params.get("left")
    windows = parse_cursor(topic, left) if left else {
        queue: (max(0, extent.min_offset), extent.max_offset) for queue, extent in stats.items()
    }  # fmt: skip
    scan = await newest_first(admin, windows, number(request, "size", PAGE, least=1, most=MOST))
    bodies = console.masks.of_page()
    queues = sorted({message.queue for message in scan.messages})
    marks = dict(zip(queues, await each(queues, lambda queue: resent_to(admin, queue)), strict=True))
    data = {
        "group": group,
        "topic": topic,
        "total": sum(max(0, extent.max_offset - max(0, extent.min_offset)) for extent in stats.values()),
        "messages": [view.dead_row(message, bodies, marks[message.queue]) for message in scan.messages],
        "left": cursor_of(scan.left) or None,
        "stopped": scan.stopped,
        "lookedAt": scan.looked_at,
    }
    return Page("dead.html", data, "messages", view.DEAD_COLUMNS)


def _picks(topic: str, texts: Sequence[str]) -> list[tuple[MessageQueue, int]]:
    if not texts:
        raise Refused(400, "no dead letter is chosen")
    if len(texts) > MOST:
        raise Refused(400, f"{len(texts)} dead letters are more than one request resends: {MOST}")
    return sorted({parse_pick(topic, text) for text in texts})


def _receiver(text: str) -> str:
    if text not in (TOPIC, GROUP):
        raise Refused(400, f"to={text[:40]!r} is not one of {TOPIC}, {GROUP}")
    return text


async def preview(console: Console, request: Request) -> Page:
    """Show which messages a resend would send, and where to; changes nothing."""
    group, receiver = request.path_params["group"], _receiver(request.query_params.get("to", TOPIC))
    picks = _picks(dlq_topic(group), request.query_params.getlist("pick"))
    admin = console.connection.admin()
    found = await each(picks, lambda pick: read_at(admin, *pick))
    bodies = console.masks.of_page()
    rows = [
        view.message_row(message, bodies)
        | {
            "pick": pick_of(message.broker_name, message.queue_id, message.queue_offset),
            "origin": origin_of(message),
            "to": receiving_topic(origin_of(message), group, receiver),
        }
        for message in found
    ]
    data = {"group": group, "to": receiver, "messages": rows, "token": token_of(console, request)}
    return Page("resend.html", data, "messages", ("msgId", "origin", "to", "keys", "body"))


def token_of(console: Console, request: Request) -> str | None:
    """Return the token for the forms of a page; None for the first answer to a browser, which has no cookie yet."""
    cookie = cookie_of(request) or getattr(request.state, "cookie", None)
    return console.tokens.of(cookie) if cookie else None


async def resend(console: Console, request: Request) -> Page:
    """Send dead letters again; returns the result of each."""
    form = await read_form(request)
    fields = dict(form)
    console.tokens.check(request, fields.get(TOKEN_FIELD, ""))
    group, receiver = request.path_params["group"], _receiver(fields.get("to", TOPIC))
    picks = _picks(dlq_topic(group), [value for name, value in form if name == "pick"])
    admin = console.connection.admin()
    lock = DeadLetterLock(admin, {queue for queue, _ in picks})
    try:
        busy = await lock.acquire()
        if busy is not None:
            raise Refused(409, f"another resend holds {busy.topic}; its lock expires within a minute of its end")
        async with console.connection.producer() as producer:
            results = [await _send(admin, producer, group, receiver, *pick) for pick in picks]
        await _move_marks(admin, results)
    finally:
        await lock.release()
    sent = sum(result["sent"] for result in results)
    console.audit.record(
        request, "resend", group=group, what=[result["pick"] for result in results if result["sent"]],
        result=f"{sent} of {len(results)} sent to {receiver}",
    )  # fmt: skip
    console.connection.forget()
    data = {"group": group, "to": receiver, "sent": sent, "results": [_shown(result) for result in results]}
    return Page("resent.html", data, "results", ("pick", "sent", "topic", "msgId", "error"))


async def _send(
    admin: Admin, producer: Producer, group: str, receiver: str, queue: MessageQueue, offset: int
) -> dict[str, Any]:
    result = {"pick": pick_of(queue.broker_name, queue.queue_id, offset), "sent": False, "topic": None, "msgId": None,
              "error": None, "queue": queue, "offset": offset}  # fmt: skip
    try:
        message = await read_at(admin, queue, offset)
        result["error"] = await _obstacle(admin, message, group, receiver)
        if result["error"] is None:
            again = message_to_resend(message, group, receiver)
            send = producer.send_ordered if message.sharding_key is not None else producer.send
            sent = await send(again)
            result |= {"sent": True, "topic": again.topic, "msgId": sent.msg_id}
    except RocketMQError as e:
        result["error"] = str(e)
    return result


async def _obstacle(admin: Admin, message: MessageExt, group: str, receiver: str) -> str | None:
    """Return why a dead letter cannot be sent; None if it can. A send must not create a topic that was deleted."""
    origin = origin_of(message)
    if origin is None:
        return "it does not contain its original topic"
    if receiver == TOPIC:
        try:
            await admin.route(origin)
        except NoRouteError:
            return f"topic {origin} no longer exists"
        return None
    return None if group in await admin.groups() else f"group {group} no longer exists"


async def _move_marks(admin: Admin, results: Sequence[dict[str, Any]]) -> None:
    """Record what was sent for ``rocketmq dlq resend``, which keeps one offset for each queue.

    Only messages from that offset on, without a gap, can be recorded.
    """
    for queue in {result["queue"] for result in results}:
        sent = {result["offset"] for result in results if result["queue"] == queue and result["sent"]}
        mark = await resent_to(admin, queue)
        first = await admin.min_offset(queue)
        end = start = max(mark or 0, first)
        while end in sent:
            end += 1
        if end > start:
            await mark_resent(admin, queue, end)


def _shown(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("pick", "sent", "topic", "msgId", "error")}
