"""A line of the log with a broker's figures, for those who have a log and no Prometheus."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rocketmq_py.broker.services import Services

_log = logging.getLogger(__name__)


class FiguresLog:
    """Logs one line at each :meth:`tick`, with rates since the last one.

    :param connections: returns the number of open connections.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(self, services: Services, connections: Callable[[], int], clock: Callable[[], int]) -> None:
        self._services, self._connections, self._clock = services, connections, clock
        self._last = clock(), services.stats.put.count, services.stats.got.count

    def tick(self) -> None:
        """Log the figures."""
        services, store = self._services, self._services.store
        now = self._clock(), services.stats.put.count, services.stats.got.count
        (before, put_before, got_before), self._last = self._last, now
        seconds = max(0.001, (now[0] - before) / 1000)
        _log.info(
            "messages/s in %.1f, out %.1f; connections %d; held pulls %d, pops %d; bytes not flushed %d; "
            "slow turns %d, longest %d ms",
            (now[1] - put_before) / seconds, (now[2] - got_before) / seconds, self._connections(),
            len(services.pull_request_hold), len(services.pop.polling.pops.table),
            max(0, store.max_physical_offset - store.flushed_offset), services.slow_turns.count,
            services.slow_turns.longest_ms,
        )  # fmt: skip
