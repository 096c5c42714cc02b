"""Whether a server is alive, started and ready, as Kubernetes' probes ask.

Liveness never looks at disks or other servers: restarting a process mends neither. A server that recovers its store, or
drains, lives.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import NamedTuple

from rocketmq_py.server.monitoring.http import HttpRequest, Page

STUCK_SECONDS = 30.0
"""An event loop that has not turned for this long counts as stuck."""
_BEAT_SECONDS = 1.0
_CHECK_SECONDS = 2.0

Checks = Mapping[str, Callable[[], str | None]]
"""By name: a function that returns why a server is not ready, None if it is in this respect."""


class Result(NamedTuple):
    """One check: its name, and why it failed; None if it passed."""

    name: str
    fault: str | None


class Heartbeat:
    """Notes that an event loop turns; may be read from any thread.

    :param clock: returns the time in seconds; only differences matter.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Note every turn of a second of the running event loop."""
        self._last = self._clock()
        self._timer = asyncio.get_running_loop().call_later(_BEAT_SECONDS, self.start)

    def stop(self) -> None:
        """Stop noting; the loop counts as alive from now on, since nobody expects it to turn."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._last = None

    @property
    def silent_seconds(self) -> float:
        """Seconds since the event loop has turned; 0 before :meth:`start`, while a server recovers its store."""
        return 0.0 if self._last is None else self._clock() - self._last


class Health:
    """Makes the pages ``/livez``, ``/startupz`` and ``/readyz``.

    :param checks: returns the checks of readiness; called in the event loop of the server.
    :param in_server: runs a function in the event loop of the server.
    """

    def __init__(
        self, heartbeat: Heartbeat, checks: Callable[[], Checks], in_server: Callable[[Callable[[], list[Result]]],
        Future[list[Result]]],
    ) -> None:  # fmt: skip
        self._heartbeat = heartbeat
        self._checks = checks
        self._in_server = in_server
        self.has_started = False
        """The store is recovered and the server listens; set by its owner."""
        self.is_draining = False
        """The server sends its clients away, or stops; set by its owner."""

    @property
    def pages(self) -> dict[str, Callable[[HttpRequest], Awaitable[Page]]]:
        """The pages by path."""
        return {"/livez": self._live, "/startupz": self._startup, "/readyz": self._ready}

    async def _live(self, request: HttpRequest) -> Page:
        silent = self._heartbeat.silent_seconds
        fault = f"the event loop has not turned for {silent:.0f} s" if silent > STUCK_SECONDS else None
        return page([Result("loop", fault)], request)

    def _started(self) -> Result:
        return Result("started", None if self.has_started else "the server is starting: it recovers its store")

    async def _startup(self, request: HttpRequest) -> Page:
        return page([self._started()], request)

    async def _ready(self, request: HttpRequest) -> Page:
        if not self.has_started:
            return page([self._started()], request)
        if self.is_draining:
            return page([self._started(), Result("draining", "the server sends its clients away")], request)
        waiting = asyncio.wrap_future(self._in_server(self._results))
        try:
            found = await asyncio.wait_for(waiting, _CHECK_SECONDS)
        except TimeoutError:
            found = [Result("loop", f"the event loop does not answer within {_CHECK_SECONDS:g} s")]
        return page([self._started(), Result("draining", None), *found], request)

    def _results(self) -> list[Result]:
        return [Result(name, check()) for name, check in self._checks().items()]


def page(results: list[Result], request: HttpRequest) -> Page:
    """Return the page of a probe: 200, or 503 with one line for each failed check.

    ``?verbose`` lists the others, too; JSON lists all.
    """
    failed = [result for result in results if result.fault is not None]
    status = 503 if failed else 200
    if request.accepts("json"):
        table = {name: "ok" if fault is None else fault for name, fault in results}
        text = json.dumps({"status": "failed" if failed else "ok", "checks": table}) + "\n"
        return Page(text.encode(), status, "application/json")
    shown = results if "verbose" in request.query else failed
    lines = [f"[+] {name} ok" if fault is None else f"[-] {name} failed: {fault}" for name, fault in shown]
    return Page("".join(f"{line}\n" for line in [*lines, "failed" if failed else "ok"]).encode(), status)
