"""The ASGI application: routes, the formats of answers, errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from rocketmq_py import __version__
from rocketmq_py.console.login import Sessions
from rocketmq_py.console.page import CSV, HTML, JSON, UNKNOWN, Page, as_csv, as_json, base_of, wanted_format
from rocketmq_py.console.pages import (
    cluster,
    dead,
    details,
    groups,
    history,
    login,
    messages,
    reset,
    send,
    setting_changes,
    settings,
    tail,
    topic_changes,
    topics,
    users,
    waiting,
)
from rocketmq_py.console.roles import ADMIN, ROLES, VIEWER
from rocketmq_py.console.security import Guard, ProxyLogin, Refused, cookie_of, new_cookie, set_cookie
from rocketmq_py.console.state import Console
from rocketmq_py.console.times import show_span, show_time
from rocketmq_py.console.words import LANGUAGES, language, words
from rocketmq_py.errors import (
    ConfigError,
    ConsumerNotOnline,
    GroupNotExist,
    NetworkError,
    NoRouteError,
    NotFound,
    PermissionDenied,
    RocketMQError,
    TopicNotExist,
)

_log = logging.getLogger(__name__)

PAGE_SECONDS = 30.0
"""A page that takes longer is given up."""

_MOST_PAGES = 64
"""Pages that are made at the same time; others wait for their turn. Changes do not: their forms may come slowly."""

_LANGUAGE_COOKIE = "rocketmq_console_language"

Handler = Callable[[Console, Request], Awaitable[Page | Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(
    console: Console, hosts: Iterable[str] = (), sessions: Sessions | None = None, proxy: ProxyLogin | None = None
) -> Starlette:
    """Return the application for one cluster.

    :param hosts: names under which it is served, besides those of the loopback interface.
    :param sessions: who is logged in; None if the console has no login.
    :param proxy: tells the user whom a proxy in front of the console knows.
    """
    turns = asyncio.Semaphore(_MOST_PAGES)
    return _guarded(lambda role: _routes(_Pages(console, sessions, role, turns)), hosts, proxy)


def create_app_of_several(
    consoles: Iterable[tuple[Console, Sessions | None]], hosts: Iterable[str] = (), proxy: ProxyLogin | None = None
) -> Starlette:
    """Return the application for several clusters: each under ``/clusters/NAME``, the first also where ``/`` leads."""
    shown = [(console, sessions, asyncio.Semaphore(_MOST_PAGES)) for console, sessions in consoles]
    first = f"/clusters/{shown[0][0].name}/"

    async def home(_: Request) -> Response:
        return RedirectResponse(first, 303)

    def routes(role: str) -> list[BaseRoute]:
        mounts = [
            Mount(f"/clusters/{console.name}", routes=_routes(_Pages(console, sessions, role, turns)))
            for console, sessions, turns in shown
        ]
        return [Route("/", home), *mounts]

    return _guarded(routes, hosts, proxy)


def _guarded(routes_of: Callable[[str], list[BaseRoute]], hosts: Iterable[str], proxy: ProxyLogin | None) -> Starlette:
    """Return the application.

    :param routes_of: returns the routes that a role has; a route of another role does not exist for it.
    """
    if proxy is None or proxy.roles is None:
        pages = routes_of(ADMIN)
    else:
        routers = {role: Router(routes_of(role)) for role in ROLES}

        async def of_role(scope: Scope, receive: Receive, send: Send) -> None:
            await routers[scope["state"]["role"]](scope, receive, send)

        pages = [Mount("", of_role)]
    guard = Middleware(Guard, hosts=tuple(hosts), proxy=proxy)
    return Starlette(routes=[_static(), *pages], middleware=[guard], exception_handlers={HTTPException: _plain})


def _static() -> Mount:
    return Mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))


def _routes(show: _Pages) -> list[BaseRoute]:
    """Return the routes of a cluster's pages, as far as their role has them."""
    console, sessions = show.console, show.sessions
    routes: list[BaseRoute] = [
        Route("/", show(cluster.overview)),
        Route("/search", show(cluster.search)),
        Route("/audit", show(cluster.audit)),
        Route("/topics", show(topics.topics)),
        Route("/topics/{topic}", show(topics.topic)),
        Route("/topics/{topic}/messages", show(messages.messages)),
        Route("/topics/{topic}/tail", show(tail.tail)),
        Route("/topics/{topic}/jump", show(messages.jump)),
        Route("/topics/{topic}/messages/{broker}/{queue}/{offset}", show(messages.message)),
        Route("/messages/{id}", show(messages.by_id)),
        Route("/groups", show(groups.groups)),
        Route("/groups/{group}", show(groups.group)),
        Route("/groups/{group}/dead", show(dead.dead_letters)),
        Route("/groups/{group}/history", show(history.group)),
        Route("/groups/{group}/members/{client}", show(details.member)),
        Route("/topics/{topic}/cost", show(details.cost)),
        Route("/topics/{topic}/messages/{broker}/{queue}/{offset}/life", show(details.life)),
        Route("/doctor", show(details.doctor)),
        Route("/rates", show(history.rates)),
        Route("/transactions", show(waiting.transactions), methods=["GET"]),
        Route("/timers", show(waiting.timers)),
        Route("/pops", show(waiting.pops)),
        Route("/spark", show(waiting.spark)),
        Route("/holds", show(waiting.holds)),
        Route("/producers", show(waiting.producers)),
        Route("/settings", show(settings.settings)),
        Route("/access", show(settings.access)),
    ]
    if sessions is not None:
        routes += [
            Route("/login", show.public(login.form), methods=["GET"]),
            Route("/login", login.login_with(console, sessions), methods=["POST"]),
            Route("/logout", login.logout_with(console, sessions), methods=["POST"]),
        ]
    if show.may_operate:
        routes += _operating(show)
    if show.may_manage:
        routes += _managing(show)
    return routes


def _operating(show: _Pages) -> list[Route]:
    """Return the routes of pages that change groups or send, and of their previews."""
    return [
        Route("/transactions", show(waiting.resume), methods=["POST"]),
        Route("/topics/{topic}/send", show(send.form), methods=["GET"]),
        Route("/topics/{topic}/send", show(send.send), methods=["POST"]),
        Route("/groups/{group}/dead/resend", show(dead.preview), methods=["GET"]),
        Route("/groups/{group}/dead/resend", show(dead.resend), methods=["POST"]),
        Route("/groups/{group}/reset", show(reset.what_if), methods=["GET"]),
        Route("/groups/{group}/reset", show(reset.reset), methods=["POST"]),
    ]


def _managing(show: _Pages) -> list[Route]:
    """Return the routes of pages that change topics, settings and users, and of their previews."""
    return [
        Route("/settings/change", show(setting_changes.what_if), methods=["GET"]),
        Route("/settings/change", show(setting_changes.change), methods=["POST"]),
        Route("/access/users", show(users.add), methods=["POST"]),
        Route("/access/users/{user}", show(users.user), methods=["GET"]),
        Route("/access/users/{user}", show(users.change), methods=["POST"]),
        Route("/new-topic", show(topic_changes.new), methods=["GET"]),
        Route("/new-topic", show(topic_changes.create), methods=["POST"]),
        Route("/topics/{topic}/change", show(topic_changes.what_if), methods=["GET"]),
        Route("/topics/{topic}/change", show(topic_changes.change), methods=["POST"]),
        Route("/topics/{topic}/delete", show(topic_changes.deletion), methods=["GET"]),
        Route("/topics/{topic}/delete", show(topic_changes.delete), methods=["POST"]),
    ]


async def _plain(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse(f"{error.detail}\n", error.status_code, headers=error.headers)


@cache
def _templates() -> Environment:
    """Return the templates of pages; each is compiled when it is first used."""
    found = Environment(
        loader=PackageLoader("rocketmq_py.console"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    found.filters |= {
        "time": lambda value: show_time(value) or UNKNOWN,
        "span": lambda value: show_span(value) or UNKNOWN,
        "known": lambda value: UNKNOWN if value is None else value,
        "seg": lambda value: quote(str(value), safe=""),
    }
    return found


class _Pages:
    """Makes endpoints of handlers: runs them, and answers in the format that was asked for.

    :param role: of those who see the pages.
    :param turns: the limit of pages that are made at the same time.
    """

    def __init__(self, console: Console, sessions: Sessions | None, role: str, turns: asyncio.Semaphore) -> None:
        self.console = console
        self.sessions = sessions
        self._role, self._turns = role, turns
        self._templates = _templates()

    @property
    def may_operate(self) -> bool:
        """Whether its pages may change groups, and send."""
        return not self.console.read_only and self._role != VIEWER

    @property
    def may_manage(self) -> bool:
        """Whether its pages may change topics, settings and users."""
        return not self.console.read_only and self._role == ADMIN

    def __call__(self, handler: Handler) -> Endpoint:
        """Return the endpoint of a page that asks the cluster: as who is logged in, if the console has a login."""

        async def endpoint(request: Request) -> Response:
            if self.sessions is None:
                return await self._answer(handler, self.console, request)
            console = await self.sessions.find(cookie_of(request))
            if console is None:
                return self._to_login(request)
            return await self._answer(handler, console, request)

        return endpoint

    def public(self, handler: Handler) -> Endpoint:
        """Return the endpoint of a page that needs no login."""

        async def endpoint(request: Request) -> Response:
            return await self._answer(handler, self.console, request)

        return endpoint

    async def _answer(self, handler: Handler, console: Console, request: Request) -> Response:
        request.state.cookie = None if cookie_of(request) else new_cookie()
        request.state.who = console.who or getattr(request.state, "proxied_user", None)
        began = perf_counter()
        try:
            async with asyncio.timeout(PAGE_SECONDS), self._turns if request.method == "GET" else nullcontext():
                page = await handler(console, request)
        except (RocketMQError, TimeoutError) as e:
            page = _error(e)
        response = page if isinstance(page, Response) else self._respond(request, page)
        console.figures.answered(_name(handler), response.status_code, perf_counter() - began)
        return response

    def _to_login(self, request: Request) -> Response:
        """Answer a request without a session: a browser goes to the form and comes back, a program gets an error."""
        request.state.who = None
        if request.method == "GET" and _is_for_people(request):
            here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"{base_of(request)}/login?next={quote(here, safe='')}", 303)
        return self._respond(request, _error(Refused(401, "log in first: /login")))

    def _respond(self, request: Request, page: Page) -> Response:
        try:
            form = wanted_format(request)
        except Refused as e:
            form, page = HTML, page if page.status >= 400 else _error(e)
        if form == JSON:
            return self._with_cookie(request, Response(as_json(page.data), page.status, media_type="application/json"))
        if form == CSV and page.status == 200:
            if page.rows is None:
                return PlainTextResponse("this page is no table, and has no CSV\n", 406)
            headers = {"content-disposition": 'attachment; filename="rocketmq.csv"'}
            text = as_csv(page.data[page.rows] or (), page.columns)
            return Response(text, media_type="text/csv; charset=utf-8", headers=headers)
        response = Response(self._html(request, page), page.status, media_type="text/html; charset=utf-8")
        return self._with_cookie(request, response)

    def _html(self, request: Request, page: Page) -> str:
        chosen = _language_of(request)
        params = [
            (name, value)
            for name, value in request.query_params.multi_items()
            if name not in ("format", "page", "left", "lang")
        ]
        context: dict[str, Any] = {
            "t": words(chosen), "language": chosen, "version": __version__, "read_only": not self.may_operate,
            "path": quote(request.url.path), "base": quote(base_of(request)), "clusters": self.console.clusters,
            "cluster_name": self.console.name, "can_logout": self.sessions is not None,
            "other_language": next(name for name in LANGUAGES if name != chosen),
            "params": params, "is_table": page.rows is not None,
            "namesrv_name": self.console.connection.namesrv, "who": request.state.who,
            "role": getattr(request.state, "role", None), "may_manage": self.may_manage,
            "logout_token": self.console.tokens.of(cookie_of(request) or "") if request.state.who else "",
        }  # fmt: skip
        return self._templates.get_template(page.template).render(context | {"d": page.data})

    def _with_cookie(self, request: Request, response: Response) -> Response:
        """Give a browser without a cookie one, to which the tokens of its forms are bound."""
        if getattr(request.state, "cookie", None) is not None:
            set_cookie(request, response, request.state.cookie)
        if "lang" in request.query_params:
            response.set_cookie(_LANGUAGE_COOKIE, _language_of(request), 31_536_000, httponly=True, samesite="strict")
        return response


def _name(handler: Handler) -> str:
    """Return the name of a page for metrics: module and function."""
    return f"{handler.__module__.rpartition('.')[2]}.{handler.__name__}"


def _language_of(request: Request) -> str:
    """Return the language that the address asks for, else the one chosen before, else one that the browser accepts."""
    asked = request.query_params.get("lang") or request.cookies.get(_LANGUAGE_COOKIE)
    return language(asked, request.headers.get("accept-language", ""))


def _is_for_people(request: Request) -> bool:
    try:
        return wanted_format(request) == HTML
    except Refused:
        return True


def _error(error: Exception) -> Page:
    status = _status(error)
    if status >= 500:
        _log.info("a page failed: %s", error)
    why = str(error) or f"the cluster did not answer within {PAGE_SECONDS:.0f} seconds"
    return Page("error.html", {"status": status, "error": why}, status=status)


def _status(error: Exception) -> int:
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, NoRouteError | NotFound | TopicNotExist | GroupNotExist | ConsumerNotOnline):
        return 404
    if isinstance(error, PermissionDenied):
        return 403
    if isinstance(error, ConfigError):
        return 400
    return 504 if isinstance(error, NetworkError | TimeoutError) else 502
