"""Create, change and delete topics: first what it would do, then the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.console.connection import each
from rocketmq_py.console.forms import check_seen, check_typed, checked_form, outcome, record
from rocketmq_py.console.page import Page, parse_number
from rocketmq_py.console.pages.dead import token_of
from rocketmq_py.console.pages.groups import member_count
from rocketmq_py.console.security import Refused
from rocketmq_py.console.state import Console, or_unknown, silent_brokers
from rocketmq_py.console.views import groups as group_view, topic_changes as view, topics as topic_view
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.names import MESSAGE_TYPE, MESSAGE_TYPES, PERMISSIONS, check_topic

MOST_QUEUES = 1024
"""Number of queues on each broker that a page gives a topic."""
MOST_GROUPS = 50
"""Number of groups about which the preview of a deletion asks."""
RESULTS = ("broker", "error")
_USUAL = {"read": "8", "write": "8", "perm": "rw", "type": "NORMAL"}
_FIELDS = ("read", "write", "perm", "type")


async def new(console: Console, request: Request) -> Page:
    """Show the form of a new topic, and on which brokers it would be made."""
    asked = _asked(request.query_params, _USUAL) | {"topic": request.query_params.get("topic", "").strip()}
    rows = None
    if asked["topic"]:
        await _check_new(console, asked["topic"])
        masters = await _masters(console.connection.admin())
        rows = [view.change_row(broker, None, _wanted(asked), None) for broker in masters]
    return _form(console, request, "new-topic.html", {"topic": asked["topic"], "asked": asked, "rows": rows})


async def create(console: Console, request: Request) -> Page:
    """Create a topic on the brokers that the preview showed."""
    form = await checked_form(console, request)
    fields = dict(form)
    topic, wanted = fields.get("topic", "").strip(), _wanted(_asked(fields, _USUAL))
    await _check_new(console, topic)
    admin = console.connection.admin()
    rows = [view.change_row(broker, None, wanted, None) for broker in await _masters(admin)]
    check_seen([value for name, value in form if name == "seen"], [view.seen_of(row) for row in rows])
    return await _set(console, request, "create topic", topic, rows, {})


async def what_if(console: Console, request: Request) -> Page:
    """Show what a change would do to a topic on each broker; changes nothing."""
    topic = request.path_params["topic"]
    admin = console.connection.admin()
    configs = await admin.topic_config(topic)
    asked = _asked(request.query_params, {})
    wanted = _wanted(asked)
    stats = await or_unknown(admin.topic_stats(topic))
    rows = [view.change_row(broker, config, wanted, stats) for broker, config in sorted(configs.items())]
    changed = [row for row in rows if view.is_change(row)]
    data = {
        "topic": topic, "asked": asked, "rows": rows, "changed": len(changed), "hidden": view.total(changed, "hidden"),
        "silent": silent_brokers(admin),
    }  # fmt: skip
    return _form(console, request, "change-topic.html", data)


async def change(console: Console, request: Request) -> Page:
    """Change a topic as the preview showed it; refuses if it was changed since."""
    topic, form = request.path_params["topic"], await checked_form(console, request)
    _check_not_internal(topic, await console.system_topics())
    wanted = _wanted(_asked(dict(form), {}))
    configs = await console.connection.admin().topic_config(topic)
    rows = [view.change_row(broker, config, wanted, {}) for broker, config in sorted(configs.items())]
    check_seen([value for name, value in form if name == "seen"], [view.seen_of(row) for row in rows])
    changed = [row for row in rows if view.is_change(row)]
    if not changed:
        raise Refused(400, f"nothing would change in topic {topic}")
    return await _set(console, request, "change topic", topic, changed, configs)


async def _set(
    console: Console, request: Request, action: str, topic: str, rows: list[dict[str, Any]],
    configs: Mapping[str, TopicConfig],
) -> Page:  # fmt: skip
    admin = console.connection.admin()

    async def on(row: dict[str, Any]) -> dict[str, Any]:
        broker, before = row["broker"], configs.get(row["broker"])
        kind = {} if row["typeTo"] == row["typeFrom"] else {MESSAGE_TYPE: row["typeTo"]}
        perm = PERMISSIONS[row["permTo"]] | (before.perm & ~6 if before is not None else 0)
        _, error = await outcome(
            admin.create_topic(
                topic, perm=perm, read_queues=row["readTo"], write_queues=row["writeTo"], attributes=kind,
                order=before is not None and before.order, brokers=[broker],
            )
        )  # fmt: skip
        return {"broker": broker, "error": error}

    results = await each(rows, on)
    record(console, request, action, results, topic=topic, what=[{**row, **result} for row, result in
                                                                 zip(rows, results, strict=True)])  # fmt: skip
    return _done(action, topic, results)


def _done(action: str, topic: str, results: list[dict[str, Any]]) -> Page:
    data = {"action": action, "name": topic, "results": results, "back": "/topics"}
    return Page("done.html", data, "results", RESULTS)


async def deletion(console: Console, request: Request) -> Page:
    """Show what goes with a topic, and who consumes it; changes nothing."""
    topic = request.path_params["topic"]
    admin = console.connection.admin()
    configs = await admin.topic_config(topic)
    groups = await or_unknown(admin.topic_groups(topic))

    async def row(group: str) -> dict[str, Any]:
        found = await or_unknown(admin.progress(group, topic))
        return {"group": group, "members": await member_count(admin, group),
                "lag": None if found is None else group_view.lag_of(found)}  # fmt: skip

    asked = (groups or [])[:MOST_GROUPS]
    data = {
        "topic": topic, "internal": _is_internal(topic, await console.system_topics()),
        "queues": view.queue_rows(configs, await or_unknown(admin.topic_stats(topic))),
        "groups": None if groups is None else await each(asked, row),
        "groupsLeftOut": len(groups or []) - len(asked), "silent": silent_brokers(admin),
    }  # fmt: skip
    return _form(console, request, "delete-topic.html", data, ("queues", view.QUEUE_COLUMNS))


async def delete(console: Console, request: Request) -> Page:
    """Delete a topic whose name was typed; refuses while members consume it, unless that is confirmed."""
    topic, fields = request.path_params["topic"], dict(await checked_form(console, request))
    check_typed(fields, topic)
    _check_not_internal(topic, await console.system_topics())
    admin = console.connection.admin()
    before = await admin.topic_config(topic)
    groups = await admin.topic_groups(topic)
    if fields.get("force") != "yes":
        asked = groups[:MOST_GROUPS]
        members = await each(asked, lambda group: member_count(admin, group))
        consuming = [group for group, count in zip(asked, members, strict=True) if count != 0]
        if consuming or len(groups) > MOST_GROUPS:
            raise Refused(409, f"groups may still consume {topic} ({', '.join(consuming[:5])}): stop them, or confirm")
    _, error = await outcome(admin.delete_topic(topic))
    error = error and f"it may be deleted on some brokers only: {error}"
    results = [{"broker": broker, "error": error} for broker in sorted(before)]
    record(console, request, "delete topic", results, topic=topic,
           what={"queues": view.queue_rows(before, None), "groups": groups[:MOST_GROUPS]})  # fmt: skip
    return _done("delete topic", topic, results)


def _form(
    console: Console, request: Request, template: str, data: dict[str, Any],
    table: tuple[str, tuple[str, ...]] = ("rows", view.COLUMNS),
) -> Page:  # fmt: skip
    for row in data.get("rows") or ():
        row["seen"] = view.seen_of(row)
    data |= {"perms": list(PERMISSIONS), "types": list(MESSAGE_TYPES), "token": token_of(console, request)}
    return Page(template, data, *table)


def _asked(given: Mapping[str, str], usual: Mapping[str, str]) -> dict[str, str]:
    return {name: given.get(name, "").strip() or usual.get(name, "") for name in _FIELDS}


def _wanted(asked: Mapping[str, str]) -> view.Wanted:
    for name, words in (("perm", PERMISSIONS), ("type", MESSAGE_TYPES)):
        if asked[name] and asked[name] not in words:
            raise Refused(400, f"{name}={asked[name][:40]!r} is not one of {', '.join(words)}")
    return view.Wanted(_queues(asked, "read"), _queues(asked, "write"), asked["perm"] or None, asked["type"] or None)


def _queues(asked: Mapping[str, str], name: str) -> int | None:
    return parse_number(name, asked[name], least=1, most=MOST_QUEUES) if asked[name] else None


async def _check_new(console: Console, topic: str) -> None:
    check_topic(topic)
    _check_not_internal(topic, await console.system_topics())
    if topic in await console.connection.admin().topics():
        raise Refused(409, f"topic {topic} exists: change it on its page")


def _is_internal(topic: str, system: list[str]) -> bool:
    return topic_view.kind_of(topic, system) == topic_view.SYSTEM


def _check_not_internal(topic: str, system: list[str]) -> None:
    if _is_internal(topic, system):
        raise Refused(400, f"{topic} is a topic of the brokers themselves, and is not changed here")


async def _masters(admin: Admin) -> list[str]:
    table = (await admin.cluster()).broker_addr_table
    return sorted(name for name, data in table.items() if 0 in data.broker_addrs)
