"""The table of request codes and the marked methods that handle them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from rocketmq_py.accelerator import SendRun
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.reply import Hold, Reply, RunReply

Outcome: TypeAlias = Reply | Hold | None
"""What a handler returns: an answer, a :class:`Hold` to answer later, or None to send no answer."""

Handler: TypeAlias = Callable[[Peer, Request, bytes], Outcome | Awaitable[Outcome]]
RunHandler: TypeAlias = Callable[[Peer, SendRun, int], RunReply | None]
"""Handles sends of a run together, beginning at an index; None if the one there has to be handled by itself."""
F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__handles__"
_RUN_MARK = "__handles_runs__"


class Route(NamedTuple):
    """A request code and its handler.

    ``lane`` is the name of the lane whose limits apply. ``run`` handles many requests of this code at once; None if the
    handler takes them only one by one. With ``is_sliced`` requests of all connections share a time budget per turn of
    the event loop; see :func:`handles`.
    """

    code: RequestCode
    method: Handler
    lane: str
    is_async: bool
    run: RunHandler | None = None
    is_sliced: bool = False

    @property
    def name(self) -> str:
        """``Class.method``, for tables and logs."""
        return getattr(self.method, "__qualname__", repr(self.method))


class _Marked(NamedTuple):
    """A marked method of a class; ``codes`` has each of its codes with the name of the method for runs, if any."""

    name: str
    is_async: bool
    lane: str
    is_sliced: bool
    codes: tuple[tuple[RequestCode, str | None], ...]


def handles(*codes: RequestCode, lane: str = "admin", sliced: bool = False) -> Callable[[F], F]:
    """Mark a method as the handler of ``codes``.

    The method takes ``(peer, request, body)``. A plain method is called directly when its request is read. An ``async``
    method runs as a task; while as many run as the limit of ``lane`` allows, further requests are refused.

    :param sliced: for a plain method: its requests wait in a queue; each turn of the event loop takes from it what it
        can handle in a few milliseconds. For requests that thousands of clients may send at once, such as heartbeats:
        sends and pulls do not wait for all of them. The limit of ``lane`` applies to those that wait.
    """

    def mark(method: F) -> F:
        setattr(method, _MARK, (codes, lane, sliced))
        return method

    return mark


def handles_runs(code: RequestCode) -> Callable[[F], F]:
    """Mark a method as the :data:`RunHandler` of ``code``; the same object must have the handler of single requests."""

    def mark(method: F) -> F:
        setattr(method, _RUN_MARK, code)
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
                other = self._routes.setdefault(route.code, route)
                if other is not route:
                    both = f"both {other.name} and {route.name}"
                    raise ValueError(f"{route.code.name} ({route.code:d}) is handled by {both}")

    @property
    def codes(self) -> tuple[RequestCode, ...]:
        """The codes that have a handler, ascending."""
        return tuple(route.code for route in self.routes)

    @property
    def routes(self) -> tuple[Route, ...]:
        """All routes in order of their codes, for tables."""
        return tuple(map(self._routes.__getitem__, sorted(self._routes)))

    def route(self, code: int) -> Route | None:
        """Return the route of a code; None if the code has no handler."""
        return self._routes.get(code)


def _marked(handler: object) -> list[Route]:
    found = []
    handler_class: Any = type(handler)
    for name, is_async, lane, is_sliced, codes in _marks(handler_class):
        method = getattr(handler, name)
        for code, run in codes:
            found.append(Route(code, method, lane, is_async, getattr(handler, run) if run else None, is_sliced))
    return found


@functools.cache
def _marks(handler_class: type) -> tuple[_Marked, ...]:
    """Return the marked methods of a class in order of their names; cached, since every broker makes a router."""
    methods = inspect.getmembers(handler_class, inspect.isfunction)
    runs = {getattr(method, _RUN_MARK): name for name, method in methods if hasattr(method, _RUN_MARK)}
    marked = []
    for name, method in methods:
        codes, lane, is_sliced = getattr(method, _MARK, ((), "", False))
        if codes:
            handled = tuple((RequestCode(code), runs.get(code)) for code in codes)
            marked.append(_Marked(name, inspect.iscoroutinefunction(method), lane, is_sliced, handled))
    return tuple(marked)
