"""Metrics in the log, as Java's exporter ``LOG`` writes them: OpenTelemetry's JSON, one line each time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from rocketmq_py.core.metrics.otlp import otlp_json
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

_SCOPE = "broker-meter"
"""The name of the meter of a Java broker."""


class MetricsLog:
    """Logs all metrics in an interval. They are collected in short steps, and encoded in a thread.

    :param collect: returns the exposition of the metrics, in pieces.
    :param interval_ms: time from the end of one line to the next.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self, collect: Callable[[], Awaitable[list[bytes]]], interval_ms: int, clock: Callable[[], int]
    ) -> None:
        self._collect, self._interval_ms, self._clock = collect, interval_ms, clock
        self._began = clock()
        self._work = Background()

    def start(self) -> None:
        """Start logging, first after one interval."""
        self._work.start(self._run())

    async def stop(self) -> None:
        """Stop logging. Does nothing if stopped already."""
        await self._work.stop()

    async def export(self) -> None:
        """Log the metrics once."""
        pieces, now = await self._collect(), self._clock()
        _log.info("%s", await asyncio.to_thread(self._encode, pieces, now))

    def _encode(self, pieces: list[bytes], now: int) -> str:
        return otlp_json(b"".join(pieces).decode(), _SCOPE, self._began, now)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            try:
                await self.export()
            except Exception:  # noqa: BLE001 - one line that fails must not end those after it
                _log.exception("metrics cannot be logged, and are tried again")
