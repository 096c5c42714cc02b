"""Runs the HTTP server of health and metrics in a thread with an event loop of its own.

So ``/livez`` is answered while the server's event loop recovers a store or is stuck, and neither parsing nor
compression takes time of that loop. What belongs to the server is read in its own event loop only.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from rocketmq_py.core.metrics.exposition import CONTENT_TYPE
from rocketmq_py.errors import ConfigError
from rocketmq_py.server.monitoring.exposition import TARGET
from rocketmq_py.server.monitoring.health import Checks, Health, Heartbeat
from rocketmq_py.server.monitoring.http import HttpRequest, HttpServer, MakePage, Page
from rocketmq_py.server.monitoring.settings import Place
from rocketmq_py.server.monitoring.stacks import stacks_page

_log = logging.getLogger(__name__)

T = TypeVar("T")

_ANY = ("0.0.0.0", "::")  # noqa: S104 - to recognise them

_LOOPBACK = ("127.0.0.1", "::1", "localhost")

COLLECT_SECONDS = 20.0

Collect = Callable[[frozenset[str]], Awaitable[list[bytes]]]
"""Returns the exposition of some metrics, all if the set of names is empty; awaited in the server's event loop.

It comes in pieces, which are joined in the thread of the endpoint.
"""


class MonitoringEndpoint:
    """Serves ``/livez``, ``/startupz``, ``/readyz`` and ``/metrics``, and on loopback addresses ``/debug/stacks``.

    :param metrics: where to serve all pages; None: metrics are not served.
    :param health: where to serve the pages of health only; None: only where metrics are served.
    :param checks: returns the checks of readiness; called in the server's event loop.
    :param collect: makes the exposition.
    :param target: what comes before it, unless only other metrics are asked for: see
        :func:`~rocketmq_py.server.monitoring.exposition.target_info`.
    """

    def __init__(
        self, metrics: Place | None, health: Place | None, checks: Callable[[], Checks], collect: Collect,
        target: bytes = b"",
    ) -> None:  # fmt: skip
        self._places = metrics, health
        self._collect, self._target = collect, target
        self._heartbeat = Heartbeat()
        self.health = Health(self._heartbeat, checks, self._call)
        self.ports: dict[str, int] = {}
        """The ports that are listened on, by ``metrics`` and ``health``."""
        self._server_loop: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._servers: list[HttpServer] = []
        self._is_collecting = asyncio.Lock()

    async def start(self) -> None:
        """Listen, from the event loop of the server on.

        :raises ConfigError: a port cannot be listened on.
        """
        self._server_loop = asyncio.get_running_loop()
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(loop,), name="rocketmq-monitoring", daemon=True)
        self._thread.start()
        try:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._listen(), loop))
        except BaseException:
            await self.stop()
            raise

    def started(self) -> None:
        """Report that the server has started."""
        self._heartbeat.start()
        self.health.has_started = True

    def draining(self) -> None:
        """Report that the server sends its clients away, or stops."""
        self.health.is_draining = True

    async def stop(self) -> None:
        """Stop listening. Does nothing if stopped already."""
        self._heartbeat.stop()
        loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._end(), loop))
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(self._thread.join)

    # -- in the thread

    async def _listen(self) -> None:
        metrics, health = self._places
        pages: dict[str, MakePage] = dict(self.health.pages)
        if metrics is not None:
            self.ports["metrics"] = await self._serve(metrics, {**pages, "/metrics": self._metrics,
                                                                "/-/healthy": pages["/livez"]})  # fmt: skip
        if health is not None:
            self.ports["health"] = await self._serve(health, pages)

    async def _serve(self, place: Place, pages: Mapping[str, MakePage]) -> int:
        if place.host in _LOOPBACK:
            pages = {**pages, "/debug/stacks": self._stacks}
        server = HttpServer(pages)
        self._servers.append(server)
        try:
            port = await server.start(*place)
        except OSError as e:
            said = f"cannot serve health and metrics on {place.host}:{place.port}: {e.strerror or e}"
            raise ConfigError(f"{said}; choose another port or an address of this machine") from e
        _log.info("%s on http://%s:%d", " ".join(sorted(pages)), place.host, port)
        if place.host in _ANY:
            _log.warning(
                "health and metrics are served on %s:%d without access control: anyone who reaches it reads %s; set "
                "metricsPromExporterHost or healthHost to one address",
                place.host, port, " ".join(sorted(pages)),
            )  # fmt: skip
        return port

    async def _end(self) -> None:
        for server in self._servers:
            await server.stop()

    async def _stacks(self, request: HttpRequest) -> Page:
        return stacks_page(self._server_loop, request)

    async def _metrics(self, request: HttpRequest) -> Page:
        if not self.health.has_started:
            return Page(b"the server is starting\n", 503)
        wanted = frozenset(request.query.get("name[]", []))
        async with self._is_collecting:  # scrapes at the same time do not add up
            assert self._server_loop is not None
            future = asyncio.run_coroutine_threadsafe(_awaited(self._collect(wanted)), self._server_loop)
            try:
                pieces = await asyncio.wait_for(asyncio.wrap_future(future), COLLECT_SECONDS)
            except TimeoutError:
                return Page(b"the server does not answer\n", 503)
        target = self._target if not wanted or TARGET.name in wanted else b""
        return Page(target + b"".join(pieces), content_type=CONTENT_TYPE)

    def _call(self, function: Callable[[], T]) -> Future[T]:
        """Call a function in the server's event loop."""

        async def call() -> T:
            return function()

        assert self._server_loop is not None
        return asyncio.run_coroutine_threadsafe(call(), self._server_loop)


async def _awaited(waiting: Awaitable[T]) -> T:
    return await waiting


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
