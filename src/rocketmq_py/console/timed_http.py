"""HTTP/1.1 whose clients have some seconds for a request: uvicorn waits for the rest of one without a limit.

The number of connections has a limit, so a hundred clients that send half a request would keep everybody else out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from rocketmq_py.core.log_limiter import LogLimiter

HEAD_SECONDS = 10.0
"""A client must have sent request line and header within this time, since its connection or its last answer."""


_LINES = 20
"""Warnings of one kind in a minute; anybody can cause one with a malformed request."""


class FewWarnings(logging.Filter):
    """Limits uvicorn's warnings; the next one has the number of those that were left out. Errors are never left out.

    :param clock: returns the time in seconds; only differences matter.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._limiter = clock, LogLimiter(limit=_LINES)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for a record to write."""
        if record.levelno != logging.WARNING:
            return True
        decision = self._limiter.judge(record.msg, self._clock())
        if decision.suppressed:
            record.msg = f"{record.msg} ({decision.suppressed} more such lines were left out)"
        return decision.emit

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Limit the warnings in the ``with`` block."""
        logger = logging.getLogger("uvicorn.error")
        logger.addFilter(self)
        try:
            yield
        finally:
            logger.removeFilter(self)


class TimedHttp(H11Protocol):
    """A connection that ends if its client does not send a whole header in time."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Go on waiting, or end that with the last byte of the header."""
        super().data_received(data)
        if self._has_request:
            self._end_waiting()
        elif self._waiting is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End waiting with the connection."""
        self._end_waiting()
        super().connection_lost(exc)

    @property
    def _has_request(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever uvicorn declares
        return cycle is not None and not cycle.response_complete

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEAD_SECONDS, self._ended)

    def _end_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _ended(self) -> None:
        self._waiting = None
        if not self._has_request:
            self.transport.close()
