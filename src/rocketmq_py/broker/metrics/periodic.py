"""Metrics that a broker sends by itself in an interval, to its log or to a collector."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

SCOPE = "broker-meter"
"""The name of the meter of a Java broker."""


class MetricsTarget(ABC):
    """Where the metrics go."""

    @abstractmethod
    def write(self, exposition: str, began_ms: int, now_ms: int) -> None:
        """Write all metrics once; called in a thread.

        :param exposition: the metrics as Prometheus reads them.
        :param began_ms: since when counters count, in milliseconds since the epoch.
        :param now_ms: when the exposition was made.
        :raises OSError: they cannot be written now.
        """

    @abstractmethod
    def close(self) -> None:
        """End what is being written; called in the thread of the event loop."""


class PeriodicExport:
    """Writes all metrics in an interval. They are collected in short steps, and encoded in a thread.

    :param collect: returns the exposition of the metrics, in pieces.
    :param interval_ms: time from the end of one export to the next.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self, collect: Callable[[], Awaitable[list[bytes]]], target: MetricsTarget, interval_ms: int,
        clock: Callable[[], int],
    ) -> None:  # fmt: skip
        self._collect, self._target, self._interval_ms, self._clock = collect, target, interval_ms, clock
        self._began = clock()
        self._work = Background()

    def start(self) -> None:
        """Start exporting, first after one interval."""
        self._work.start(self._run())

    async def stop(self) -> None:
        """Stop exporting. Does nothing if stopped already."""
        await self._work.stop()
        self._target.close()

    async def export(self) -> None:
        """Write the metrics once.

        :raises OSError: they cannot be written now.
        """
        pieces, now = await self._collect(), self._clock()
        await asyncio.to_thread(self._write, pieces, now)

    def _write(self, pieces: list[bytes], now: int) -> None:
        self._target.write(b"".join(pieces).decode(), self._began, now)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            try:
                await self.export()
            except OSError as e:
                _log.warning("metrics cannot be written, and are tried again in %d s: %s", self._interval_ms / 1000, e)
            except Exception:  # noqa: BLE001 - one export that fails must not end those after it
                _log.exception("metrics cannot be written, and are tried again in %d s", self._interval_ms / 1000)
