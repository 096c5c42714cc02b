"""The table of request codes and the marked methods that handle them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.reply import Hold, Reply

Outcome: TypeAlias = Reply | Hold | None
"""What a handler returns: an answer, the wish to answer later, or no answer at all."""

Handler: TypeAlias = Callable[[Peer, Request, bytes], Outcome | Awaitable[Outcome]]
F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__handles__"


class Route(NamedTuple):
    """A request code and what handles it. ``lane`` names the limit an asynchronous handler runs under."""

    code: RequestCode
    method: Handler
    lane: str
    is_async: bool

    @property
    def name(self) -> str:
        """``Class.method``, for tables and logs."""
        return getattr(self.method, "__qualname__", repr(self.method))


def handles(*codes: RequestCode, lane: str = "admin") -> Callable[[F], F]:
    """Mark a method as the handler of ``codes``.

    The method takes ``(peer, request, body)``. A plain method answers within the read its request came with; an
    ``async`` one runs as a task, as many at a time as the limit of its ``lane`` allows.
    """

    def mark(method: F) -> F:
        setattr(method, _MARK, (codes, lane))
        return method

    return mark


class Router:
    """The marked methods of handler objects, by request code.

    :raises ValueError: two of them claim the same code.
    """

    def __init__(self, *handlers: object) -> None:
        self._routes: dict[int, Route] = {}
        for handler in handlers:
            for route in _marked(handler):
                self._add(route)

    def _add(self, route: Route) -> None:
        other = self._routes.setdefault(route.code, route)
        if other is not route:
            raise ValueError(f"{route.code.name} ({route.code:d}) is handled by both {other.name} and {route.name}")

    @property
    def codes(self) -> tuple[RequestCode, ...]:
        """The codes that have a handler, ascending."""
        return tuple(sorted(route.code for route in self._routes.values()))

    @property
    def routes(self) -> tuple[Route, ...]:
        """All routes in order of their codes, for tables."""
        return tuple(self._routes[code] for code in self.codes)

    def route(self, code: int) -> Route | None:
        """The route of a code, or None."""
        return self._routes.get(code)


def _marked(handler: object) -> list[Route]:
    routes = []
    for _, method in inspect.getmembers(handler, inspect.ismethod):
        codes, lane = getattr(method, _MARK, ((), ""))
        routes += [Route(RequestCode(code), method, lane, inspect.iscoroutinefunction(method)) for code in codes]
    return routes
