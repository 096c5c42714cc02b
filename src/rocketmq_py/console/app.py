"""The ASGI application: routes, the formats of answers, errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from rocketmq_py import __version__
from rocketmq_py.console.page import CSV, HTML, JSON, UNKNOWN, Page, as_csv, as_json, wanted_format
from rocketmq_py.console.pages import cluster, dead, groups, messages, reset, topics
from rocketmq_py.console.security import COOKIE, Guard, Refused, cookie_of, new_cookie
from rocketmq_py.console.state import Console
from rocketmq_py.console.times import show_span, show_time
from rocketmq_py.console.words import language, words
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

Handler = Callable[[Console, Request], Awaitable[Page | Response]]


def create_app(console: Console, hosts: Iterable[str] = ()) -> Starlette:
    """Return the application.

    :param hosts: names under which it is served, besides those of the loopback interface.
    """
    show = _Pages(console)
    routes = [
        Route("/", show(cluster.overview)),
        Route("/search", show(cluster.search)),
        Route("/audit", show(cluster.audit)),
        Route("/topics", show(topics.topics)),
        Route("/topics/{topic}", show(topics.topic)),
        Route("/topics/{topic}/messages", show(messages.messages)),
        Route("/topics/{topic}/jump", show(messages.jump)),
        Route("/topics/{topic}/messages/{broker}/{queue}/{offset}", show(messages.message)),
        Route("/messages/{id}", show(messages.by_id)),
        Route("/groups", show(groups.groups)),
        Route("/groups/{group}", show(groups.group)),
        Route("/groups/{group}/dead", show(dead.dead_letters)),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
    ]
    if not console.read_only:
        routes += [
            Route("/groups/{group}/dead/resend", show(dead.preview), methods=["GET"]),
            Route("/groups/{group}/dead/resend", show(dead.resend), methods=["POST"]),
            Route("/groups/{group}/reset", show(reset.what_if), methods=["GET"]),
            Route("/groups/{group}/reset", show(reset.reset), methods=["POST"]),
        ]
    return Starlette(
        routes=routes, middleware=[Middleware(Guard, hosts=tuple(hosts))], exception_handlers={HTTPException: _plain}
    )


async def _plain(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse(f"{error.detail}\n", error.status_code, headers=error.headers)


class _Pages:
    """Makes endpoints of handlers: runs them, and answers in the format that was asked for."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._templates = Environment(
            loader=PackageLoader("rocketmq_py.console"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters |= {
            "time": lambda value: show_time(value) or UNKNOWN,
            "span": lambda value: show_span(value) or UNKNOWN,
            "known": lambda value: UNKNOWN if value is None else value,
            "seg": lambda value: quote(str(value), safe=""),
        }

    def __call__(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            request.state.cookie = None if cookie_of(request) else new_cookie()
            try:
                async with asyncio.timeout(PAGE_SECONDS):
                    page = await handler(self._console, request)
            except (RocketMQError, TimeoutError) as e:
                page = _error(e)
            return page if isinstance(page, Response) else self._respond(request, page)

        return endpoint

    def _respond(self, request: Request, page: Page) -> Response:
        try:
            form = wanted_format(request)
        except Refused as e:
            form, page = HTML, _error(e)
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
        chosen = language(request.query_params.get("lang"), request.headers.get("accept-language", ""))
        params = [
            (name, value)
            for name, value in request.query_params.multi_items()
            if name not in ("format", "page", "left")
        ]
        context: dict[str, Any] = {
            "t": words(chosen), "language": chosen, "version": __version__, "read_only": self._console.read_only,
            "path": quote(request.url.path), "params": params, "is_table": page.rows is not None,
            "namesrv_name": self._console.connection.namesrv,
        }  # fmt: skip
        return self._templates.get_template(page.template).render(context | {"d": page.data})

    def _with_cookie(self, request: Request, response: Response) -> Response:
        """Give a browser without a cookie one, to which the tokens of its forms are bound."""
        if request.state.cookie is not None:
            response.set_cookie(COOKIE, request.state.cookie, httponly=True, samesite="strict", path="/")
        return response


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
