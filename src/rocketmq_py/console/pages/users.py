"""Add, change and remove users and their permissions. A broker keeps its own: each change goes to all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.console.forms import check_typed, checked_form, outcome, record
from rocketmq_py.console.page import Page
from rocketmq_py.console.pages.dead import token_of
from rocketmq_py.console.security import Refused
from rocketmq_py.console.state import Console
from rocketmq_py.console.views import settings as view
from rocketmq_py.core.access.permissions import Action
from rocketmq_py.errors import BrokerError, NetworkError

MOST_TEXT = 255
MOST_RESOURCES = 50
RESULTS = ("broker", "error")

Form = list[tuple[str, str]]
Change = Callable[[Admin, str, dict[str, str], Form], Awaitable[None]]


async def user(console: Console, request: Request) -> Page:
    """Show a user and its permissions, with the forms that change them."""
    name = request.path_params["user"]
    admin = console.connection.admin()
    found = await admin.user(name)
    if found is None:
        raise Refused(404, f"there is no user {name[:80]}")
    acl = await admin.acl(name)
    [row] = view.user_rows([found])
    data = {
        "user": name, "type": row["type"], "status": row["status"], "rules": view.rule_rows([acl] if acl else []),
        "actions": [action.value for action in Action], "self": name == console.who,
        "token": token_of(console, request),
    }  # fmt: skip
    return Page("user.html", data, "rules", view.RULE_COLUMNS)


async def add(console: Console, request: Request) -> Page:
    """Add a user to every broker."""
    fields = dict(await checked_form(console, request))
    name, password = fields.get("user", "").strip(), fields.get("password", "")
    if not name or not password or max(len(name), len(password)) > MOST_TEXT or not name.isprintable():
        raise Refused(400, f"a user needs a name and a password of at most {MOST_TEXT} characters each")
    admin = console.connection.admin()
    if await admin.user(name) is not None:
        raise Refused(409, f"user {name} exists")
    is_super = fields.get("super") == "yes"
    _, error = await outcome(admin.create_user(name, password, is_super=is_super))
    return _done(console, request, "add user", name, error, {"super": is_super})


async def change(console: Console, request: Request) -> Page:
    """Change a user or its permissions, as the field ``do`` says."""
    name, form = request.path_params["user"], await checked_form(console, request)
    fields = dict(form)
    do = fields.get("do", "")
    if do not in _CHANGES:
        raise Refused(400, f"do={do[:40]!r} is not one of {', '.join(_CHANGES)}")
    if name == console.who and do in ("disable", "normal", "delete"):
        raise Refused(409, "you would lock yourself out: let another user do it")
    if do == "delete":
        check_typed(fields, name)
    admin = console.connection.admin()
    if await admin.user(name) is None:
        raise Refused(404, f"there is no user {name[:80]}")
    error = None
    try:
        await _CHANGES[do](admin, name, fields, form)
    except (BrokerError, NetworkError) as e:
        error = str(e)
    told = {part: fields[part] for part in ("resources", "ips", "resource") if fields.get(part)}
    actions = [value for part, value in form if part == "action"]
    return _done(console, request, f"{do} user", name, error, told | ({"actions": actions} if actions else {}))


async def _password(admin: Admin, name: str, fields: dict[str, str], form: Form) -> None:
    del form
    password = fields.get("password", "")
    if not password or len(password) > MOST_TEXT:
        raise Refused(400, f"a password has 1 to {MOST_TEXT} characters")
    await admin.update_user(name, password=password)


def _update(**settings: bool) -> Change:
    async def update(admin: Admin, name: str, fields: dict[str, str], form: Form) -> None:
        del fields, form
        await admin.update_user(name, is_super=settings.get("is_super"), enabled=settings.get("enabled"))

    return update


async def _delete(admin: Admin, name: str, fields: dict[str, str], form: Form) -> None:
    del fields, form
    await admin.delete_user(name)


def _rule(*, allow: bool) -> Change:
    async def rule(admin: Admin, name: str, fields: dict[str, str], form: Form) -> None:
        resources, ips = fields.get("resources", "").split(), fields.get("ips", "").split()
        if max(len(resources), len(ips)) > MOST_RESOURCES:
            raise Refused(400, f"one form names at most {MOST_RESOURCES} resources and addresses")
        actions = [value for part, value in form if part == "action"]
        await admin.set_acl(name, resources, actions, allow=allow, source_ips=ips)

    return rule


async def _forget(admin: Admin, name: str, fields: dict[str, str], form: Form) -> None:
    del form
    if not fields.get("resource"):
        raise Refused(400, "the field resource names the permission")
    await admin.delete_acl(name, fields["resource"])


_CHANGES: dict[str, Change] = {
    "enable": _update(enabled=True), "disable": _update(enabled=False), "super": _update(is_super=True),
    "normal": _update(is_super=False), "password": _password, "delete": _delete, "allow": _rule(allow=True),
    "deny": _rule(allow=False), "forget": _forget,
}  # fmt: skip


def _done(console: Console, request: Request, action: str, name: str, error: str | None, what: dict[str, Any]) -> Page:
    error = error and f"some brokers may have it now: {error}"
    results = [{"broker": "*", "error": error}]
    record(console, request, action, results, what={"user": name, **what})
    data = {"action": action, "name": name, "results": results, "back": "/access"}
    return Page("done.html", data, "results", RESULTS)
