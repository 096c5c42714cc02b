"""Change one setting of brokers: first the old values beside the new one, then the change."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from rocketmq_py.console.connection import each
from rocketmq_py.console.forms import check_seen, checked_form, outcome, record
from rocketmq_py.console.page import Page
from rocketmq_py.console.pages.dead import token_of
from rocketmq_py.console.pages.settings import configs_of
from rocketmq_py.console.security import Refused
from rocketmq_py.console.state import Console
from rocketmq_py.console.views import settings as view

MOST_VALUE = 1024
RESULTS = ("broker", "error", "remark")


async def what_if(console: Console, request: Request) -> Page:
    """Show the value of a setting on each broker beside the new one; changes nothing."""
    query = request.query_params
    key, value, broker = (query.get(name, "").strip() for name in ("key", "value", "broker"))
    if not key:
        raise Refused(400, "key= names the setting")
    addresses, answers = await configs_of(console)
    data = {
        "key": key, "value": query.get("value"), "broker": broker, "brokers": sorted(addresses),
        "rows": _rows(answers, key, value, broker), "token": token_of(console, request),
        "silent": [{"broker": name, "error": one} for name, one in answers.items() if isinstance(one, str)],
    }  # fmt: skip
    return Page("change-setting.html", data, "rows", view.CHANGE_COLUMNS)


def _rows(answers: dict[str, dict[str, str] | str], key: str, value: str, broker: str) -> list[dict[str, Any]]:
    """Return a row for each broker that has the setting.

    :param broker: only this one; empty for all.
    :raises Refused: the setting cannot be changed here.
    """
    if view.is_secret(key):
        raise Refused(400, f"{key[:80]} is a secret: change it in the broker's configuration file")
    if len(value) > MOST_VALUE or not value.isprintable():
        raise Refused(400, f"a value has at most {MOST_VALUE} characters, all of them printable")
    known = {name: one for name, one in answers.items() if not isinstance(one, str) and key in one}
    if broker:
        known = {name: one for name, one in known.items() if name == broker}
    if not known:
        raise Refused(404, f"no broker that answers has a setting {key[:80]}")
    return [{"broker": name, "from": one[key], "to": value} for name, one in sorted(known.items())]


def _seen(row: dict[str, Any]) -> str:
    return f"{row['broker']}|{row['from']}"


async def change(console: Console, request: Request) -> Page:
    """Change the setting on the brokers that the preview showed; refuses if a value is another by then."""
    form = await checked_form(console, request)
    fields = dict(form)
    key, value, broker = (fields.get(name, "").strip() for name in ("key", "value", "broker"))
    addresses, answers = await configs_of(console)
    rows = _rows(answers, key, value, broker)
    check_seen([value for name, value in form if name == "seen"], [_seen(row) for row in rows])
    admin = console.connection.admin()

    async def on(row: dict[str, Any]) -> dict[str, Any]:
        remark, error = await outcome(admin.update_broker_config(addresses[row["broker"]], {key: value}))
        return {"broker": row["broker"], "error": error, "remark": remark or None}

    results = await each([row for row in rows if row["from"] != value], on)
    if not results:
        raise Refused(400, f"{key} has this value already")
    record(console, request, "change setting", results, what={"key": key, "rows": rows})
    data = {"action": "change setting", "name": key, "results": results, "back": "/settings"}
    return Page("done.html", data, "results", RESULTS)
