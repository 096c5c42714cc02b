"""What the proxy counts of itself, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocketmq_py.core.metrics.exposition import COUNTER, GAUGE, Family, labels
from rocketmq_py.protocol.codes import RequestCode, ResponseCode

REQUESTS = Family(
    "rocketmq_py_proxy_requests_total", COUNTER, "Requests to brokers, by name and code of the answer, or UNREACHABLE."
)
RUNNING = Family("rocketmq_py_proxy_requests_running", GAUGE, "Requests to brokers that are not answered, by kind.")
CONNECTIONS = Family("rocketmq_py_proxy_connections", GAUGE, "Open connections of clients.")
RENEWED = Family("rocketmq_py_proxy_renewed_receipts", GAUGE, "Receipts of push consumers that are renewed.")
START_TIME = Family("rocketmq_py_proxy_start_time_seconds", GAUGE, "When it started, in seconds since the epoch.")

UNREACHABLE = -1
"""Stands for the code of an answer that did not come."""


_OTHER = -2
_NAMES = {int(code): code.name for code in ResponseCode} | {UNREACHABLE: "UNREACHABLE", _OTHER: "OTHER"}


class Figures:
    """Counts requests. Labels are names in the program, so nobody can make more series."""

    def __init__(self) -> None:
        self._requests: dict[tuple[RequestCode, int], int] = {}

    def answered(self, request: RequestCode, code: int) -> None:
        """Count a request.

        :param code: of the answer, or :data:`UNREACHABLE`.
        """
        key = request, code if code in _NAMES else _OTHER
        self._requests[key] = self._requests.get(key, 0) + 1

    def exposition(
        self, running: Mapping[str, int], gauges: Mapping[Family, float], wanted: frozenset[str] = frozenset()
    ) -> bytes:
        """Return the exposition.

        :param running: the number of requests that are not answered, by kind.
        :param gauges: further figures.
        :param wanted: names of metrics; empty for all.
        """
        return "".join(self._lines(running, gauges, wanted)).encode()

    def _lines(
        self, running: Mapping[str, int], gauges: Mapping[Family, float], wanted: frozenset[str]
    ) -> Iterator[str]:
        def is_wanted(family: Family) -> bool:
            return not wanted or family.name in wanted

        if self._requests and is_wanted(REQUESTS):
            yield REQUESTS.head()
            for (request, code), count in self._requests.items():
                yield REQUESTS.sample(labels([("request", request.name), ("code", _NAMES[code])]), count)
        if is_wanted(RUNNING):
            yield RUNNING.head()
            for kind, count in running.items():
                yield RUNNING.sample(labels([("kind", kind)]), count)
        for family, value in gauges.items():
            if is_wanted(family):
                yield family.head() + family.sample("", value)
