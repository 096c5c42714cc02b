"""The login with an access key of the cluster, and the logout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rocketmq_py.console.login import Sessions
from rocketmq_py.console.page import Page, base_of
from rocketmq_py.console.security import TOKEN_FIELD, Refused, cookie_of, new_cookie, read_form, set_cookie
from rocketmq_py.console.state import Console
from rocketmq_py.errors import NetworkError, RocketMQError

Endpoint = Callable[[Request], Awaitable[Response]]


async def form(console: Console, request: Request) -> Page:
    """Show the form."""
    cookie = cookie_of(request) or request.state.cookie
    to = local_path(request.query_params.get("next", ""), f"{base_of(request)}/")
    reason = request.query_params.get("reason", "")
    words = reason if reason in REASONS.values() else ""
    return Page("login.html", {"next": to, "token": console.tokens.of(cookie), "reason": words})


REASONS = {401: "refused", 403: "unchecked", 429: "wait", 504: "away"}
"""Why a login failed, for the form: a word by the status."""


def local_path(text: str, home: str = "/") -> str:
    """Return a path of this console, or ``home``: a link to the form must not lead to another site afterwards."""
    is_local = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_local and "\\" not in text else home


def login_with(console: Console, sessions: Sessions) -> Endpoint:
    """Return the endpoint that checks an access key and starts a session."""

    async def login(request: Request) -> Response:
        request.state.who = None
        to = home = f"{base_of(request)}/"
        try:
            fields = dict(await read_form(request))
            to = local_path(fields.get("next", ""), home)
            console.tokens.check(request, fields.get(TOKEN_FIELD, ""))
        except Refused as e:
            return Response(f"{e}\n", e.status, media_type="text/plain")
        key, address = fields.get("key", ""), request.client.host if request.client else ""
        try:
            cookie = await sessions.login(console, address, key, fields.get("secret", ""))
        except (RocketMQError, TimeoutError) as e:
            status = e.status if isinstance(e, Refused) else 504 if isinstance(e, NetworkError | TimeoutError) else 403
            console.audit.record(request, "login", is_kept=False, what=key[:255], result=f"refused: {status}")
            return RedirectResponse(
                f"{base_of(request)}/login?reason={REASONS.get(status, 'refused')}&next={quote(to, safe='')}", 303
            )
        request.state.who = key
        console.audit.record(request, "login", what=key, result="accepted")
        await sessions.replace(cookie_of(request), cookie)
        answer = RedirectResponse(to, 303)
        set_cookie(request, answer, cookie)  # a new one: whoever knew the old cookie has no session
        return answer

    return login


def logout_with(console: Console, sessions: Sessions) -> Endpoint:
    """Return the endpoint that ends a session."""

    async def logout(request: Request) -> Response:
        request.state.who = None
        try:
            console.tokens.check(request, dict(await read_form(request)).get(TOKEN_FIELD, ""))
        except Refused as e:
            return Response(f"{e}\n", e.status, media_type="text/plain")
        await sessions.logout_everywhere(cookie_of(request))
        answer = RedirectResponse(f"{base_of(request)}/login", 303)
        set_cookie(request, answer, new_cookie())
        return answer

    return logout
