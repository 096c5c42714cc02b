"""Reset the offsets of a group in a topic: first what it would do, then the change."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.console.connection import each
from rocketmq_py.console.page import Page, parse_number
from rocketmq_py.console.pages.dead import token_of
from rocketmq_py.console.security import TOKEN_FIELD, Refused, read_form
from rocketmq_py.console.state import Console
from rocketmq_py.console.times import parse_time, show_time
from rocketmq_py.console.views import reset as view
from rocketmq_py.console.views.picks import move_of, parse_move
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.names import check_group

MOST_QUEUES = 1024


async def what_if(console: Console, request: Request) -> Page:
    """Show for each queue what a reset would do; changes nothing."""
    group, query = request.path_params["group"], request.query_params
    topic, target, text = query.get("topic", "").strip(), query.get("target", ""), query.get("value", "").strip()
    admin = console.connection.admin()
    data: dict[str, Any] = {
        "group": group, "topic": topic, "target": target, "value": text, "targets": list(view.TARGETS), "queues": None,
        "totals": None, "topics": await admin.group_topics(group), "members": None, "means": None,
        "token": token_of(console, request),
    }  # fmt: skip
    if not topic or not target:
        return Page("reset.html", data)
    value = _value(console, target, text)
    other = await _other(admin, group, topic, text) if target == view.GROUP else {}
    queues = await admin.queues(topic)
    if len(queues) > MOST_QUEUES:
        raise Refused(400, f"topic {topic} has {len(queues)} queues; a page resets at most {MOST_QUEUES}")
    states = await each(queues, lambda queue: _state(admin, group, queue, value if target == view.TIME else None))
    rows = [
        view.planned(state._replace(of_other=other.get(queue)), target, value)
        for queue, state in zip(queues, states, strict=True)
    ]
    for row in rows:
        row["move"] = None if row["to"] is None else move_of(row["broker"], row["queue"], row["from"], row["to"])
    data |= {
        "queues": rows, "totals": view.totals(rows), "members": await _members(admin, group),
        "means": show_time(value) if target == view.TIME else None,
    }  # fmt: skip
    return Page("reset.html", data, "queues", view.COLUMNS)


def _value(console: Console, target: str, text: str) -> int:
    if target not in view.TARGETS:
        raise Refused(400, f"target={target[:40]!r} is not one of {', '.join(view.TARGETS)}")
    if target == view.TIME:
        try:
            return parse_time(text, console.now())
        except (ValueError, OverflowError) as e:
            raise Refused(
                400, f"{text[:40]!r} is no time: write 2026-01-31T12:30 (UTC), or 2h for two hours ago"
            ) from e
    if target in (view.OFFSET, view.SHIFT):
        return parse_number("value", text, least=-(10**18) if target == view.SHIFT else 0)
    return 0


async def _other(admin: Admin, group: str, topic: str, other: str) -> dict[MessageQueue, int]:
    """Return the committed offsets of the group whose offsets are copied."""
    if other == group:
        raise Refused(400, f"{group} is the group itself: name the group whose offsets are copied")
    found = await admin.group_offsets(check_group(other), topic)
    if not found:
        raise Refused(404, f"group {other} has no offsets in topic {topic}")
    return found


async def _state(admin: Admin, group: str, queue: MessageQueue, time_ms: int | None) -> view.QueueState:
    committed, first, end = (
        await admin.group_offset(group, queue), await admin.min_offset(queue), await admin.max_offset(queue)
    )  # fmt: skip
    at_time = None if time_ms is None else await admin.offset_at(queue, time_ms)
    return view.QueueState(queue.broker_name, queue.queue_id, first, end, committed, at_time)


async def _members(admin: Admin, group: str) -> int:
    found = await admin.members(group)
    return len(found.connection_set) if found is not None else 0


async def reset(console: Console, request: Request) -> Page:
    """Set the offsets that a what-if page has shown; refuses if they moved since, or if members are connected."""
    form = await read_form(request)
    fields = dict(form)
    console.tokens.check(request, fields.get(TOKEN_FIELD, ""))
    group, topic, force = request.path_params["group"], fields.get("topic", ""), fields.get("force") == "yes"
    moves = sorted(
        {parse_move(topic, value) for name, value in form if name == "move"}, key=lambda move: (move[0], move[2])
    )
    if not moves or len(moves) > MOST_QUEUES or len({move[0] for move in moves}) < len(moves):
        raise Refused(400, f"a reset names each queue once, from 1 to {MOST_QUEUES} queues")
    admin = console.connection.admin()
    members = await _members(admin, group)
    if members and not force:
        raise Refused(
            409, f"{members} members of {group} are connected: stop them, or confirm that they are reset, too"
        )
    if not force:
        await _check_unmoved(admin, group, moves)
    results = await each(moves, lambda move: _set(admin, group, move[0], move[1], move[2]))
    done = sum(result["error"] is None for result in results)
    console.audit.record(
        request, "reset", group=group, topic=topic, what=results, result=f"{done} of {len(results)} set"
    )
    console.connection.forget()
    data = {"group": group, "topic": topic, "set": done, "results": results}
    return Page("reset-done.html", data, "results", ("broker", "queue", "from", "to", "error"))


async def _check_unmoved(admin: Admin, group: str, moves: list[tuple[MessageQueue, int | None, int]]) -> None:
    now = await each(moves, lambda move: admin.group_offset(group, move[0]))
    moved = [str(move[0]) for move, offset in zip(moves, now, strict=True) if offset != move[1]]
    if moved:
        raise Refused(409, f"offsets moved since the page was made ({', '.join(moved[:5])}): look at it again")


async def _set(admin: Admin, group: str, queue: MessageQueue, old: int | None, offset: int) -> dict[str, Any]:
    error, set_to = None, offset
    try:
        set_to = await admin.reset_group_offset(group, queue, offset)
    except RocketMQError as e:
        error = str(e)
    return {"broker": queue.broker_name, "queue": queue.queue_id, "from": old, "to": set_to, "error": error}
