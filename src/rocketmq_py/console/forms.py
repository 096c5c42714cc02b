"""What all forms that change something share: the token, and an audit line also for a change that failed."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from starlette.requests import Request

from rocketmq_py.console.security import TOKEN_FIELD, Refused, read_form
from rocketmq_py.console.state import Console
from rocketmq_py.errors import RocketMQError

T = TypeVar("T")


async def checked_form(console: Console, request: Request) -> list[tuple[str, str]]:
    """Return the fields of a form that has the token of this browser.

    :raises Refused: the token is missing or another's.
    """
    form = await read_form(request)
    console.tokens.check(request, dict(form).get(TOKEN_FIELD, ""))
    return form


def check_typed(form: dict[str, str], name: str) -> None:
    """Refuse a change whose name was not typed again.

    :raises Refused: the field ``name`` is not ``name``.
    """
    if form.get("name", "") != name:
        raise Refused(400, f"nothing was changed: type {name} to confirm")


def check_seen(seen: list[str], now: list[str]) -> None:
    """Refuse a change of something that is no longer as the preview showed it.

    :raises Refused: ``now`` differs from what the form says that the page showed.
    """
    if sorted(seen) != sorted(now):
        raise Refused(409, "it was changed since the page was made: look at it again")


async def outcome(work: Awaitable[T]) -> tuple[T | None, str | None]:
    """Await a change; returns its answer, and why it failed or None."""
    try:
        return await work, None
    except RocketMQError as e:
        return None, str(e)


def record(console: Console, request: Request, action: str, results: list[dict[str, Any]], **what: Any) -> None:
    """Record a change of several brokers, and forget what was known before it.

    :param results: rows with ``error``, None where it succeeded.
    """
    done = sum(row["error"] is None for row in results)
    failed = "; ".join(sorted({row["error"] for row in results if row["error"] is not None}))
    console.audit.record(
        request, action, **what, result=f"{done} of {len(results)} changed{': ' if failed else ''}{failed}"
    )
    console.connection.forget()
