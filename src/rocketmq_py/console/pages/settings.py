"""The settings of brokers; users and their permissions. These pages change nothing."""

from __future__ import annotations

from starlette.requests import Request

from rocketmq_py.console.connection import each
from rocketmq_py.console.page import Page
from rocketmq_py.console.pages.dead import token_of
from rocketmq_py.console.state import Console
from rocketmq_py.console.views import settings as view
from rocketmq_py.errors import BrokerError, NetworkError, PermissionDenied
from rocketmq_py.protocol.bodies.access import AclInfo, UserInfo

MOST_BROKERS = 64


async def settings(console: Console, request: Request) -> Page:
    """Show the settings of all brokers; ``differs=1`` only those that differ, ``q`` those with a part of a name."""
    text = request.query_params.get("q", "").strip()[:255]
    differs = request.query_params.get("differs", "") == "1"
    addresses, answers = await configs_of(console)
    rows = view.rows({name: answer for name, answer in answers.items() if not isinstance(answer, str)})
    data = {
        "q": text, "differs": differs, "brokersLeftOut": len(addresses) - len(answers),
        "settings": [
            row for row in rows if text.lower() in row["key"].lower() and (row["differs"] or not differs)
        ],
        "silent": [{"broker": name, "error": answer} for name, answer in answers.items() if isinstance(answer, str)],
    }  # fmt: skip
    return Page("settings.html", data, "settings", view.COLUMNS)


async def configs_of(console: Console) -> tuple[dict[str, str], dict[str, dict[str, str] | str]]:
    """Return the addresses of all brokers, and of the first of them the settings or why they do not tell them."""
    admin = console.connection.admin()
    places = {
        f"{name}/{number}": address
        for name, data in sorted((await admin.cluster()).broker_addr_table.items())
        for number, address in sorted(data.broker_addrs.items())
    }

    async def config(address: str) -> dict[str, str] | str:
        try:
            return await admin.broker_config(address)
        except PermissionDenied:
            raise
        except (NetworkError, BrokerError) as e:
            return str(e)

    asked = list(places)[:MOST_BROKERS]
    return places, dict(zip(asked, await each([places[name] for name in asked], config), strict=True))


async def access(console: Console, request: Request) -> Page:
    """Show users and their permissions; unknown for a broker that keeps none of its own."""
    admin = console.connection.admin()
    users: list[UserInfo] | None
    acls: list[AclInfo] | None
    try:
        users, acls = await admin.users(), await admin.acls()
    except PermissionDenied:
        raise
    except BrokerError:
        users = acls = None
    data = {
        "users": None if users is None else view.user_rows(users),
        "rules": None if acls is None else view.rule_rows(acls),
        "token": token_of(console, request),
    }
    return Page("access.html", data, "rules", view.RULE_COLUMNS)
