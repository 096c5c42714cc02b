"""Makes the exposition of a server's metrics: families with the labels of the server, within a limit of series."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from rocketmq_py import __version__
from rocketmq_py.core.metrics.counters import RpcLatency
from rocketmq_py.core.metrics.exposition import GAUGE, HISTOGRAM, Family, Labels, labels
from rocketmq_py.core.metrics.histogram import Histogram
from rocketmq_py.protocol.codes import RequestCode, ResponseCode

_log = logging.getLogger(__name__)

_LINES_AT_ONCE = 100
_LINES_OF_A_PIECE = 500
_LONG_LINE = 4096

Row = tuple[Labels, float]

RPC_LATENCY = Family(
    "rocketmq_rpc_latency_milliseconds", HISTOGRAM, "Time from the handling of a request to its answer."
)


TARGET = Family("target_info", GAUGE, "What is scraped: the resource of OpenTelemetry that all series are about.")


def target_info(service: str, instance: str, namespace: str = "") -> bytes:
    """Return the lines that tell Prometheus the resource of a server, as OpenTelemetry prescribes.

    :param service: ``service.name``.
    :param instance: ``service.instance.id``, which no other server of this name has in its namespace.
    :param namespace: ``service.namespace``.
    """
    named = {"service_name": service, "service_instance_id": instance, "service_version": __version__}
    text = labels(({"service_namespace": namespace} if namespace else {}) | named)
    return (TARGET.head() + TARGET.sample(text, 1)).encode()


class Exposition:
    """Makes the lines of families.

    :param base: labels of every series, encoded.
    :param most: maximum number of series of one metric.
    :ivar left_out: the number of series beyond it, by metric, of the exposition that is being made.
    """

    def __init__(self, base: Labels, most: int) -> None:
        self.base = base
        self.most = most
        self.left_out: dict[str, int] = {}
        self._wanted: frozenset[str] = frozenset()
        self._logged: set[str] = set()

    def begin(self, wanted: frozenset[str]) -> None:
        """Begin another exposition.

        :param wanted: names of metrics; empty for all.
        """
        self._wanted, self.left_out = wanted, {}

    def is_wanted(self, *families: Family) -> bool:
        """Return True if one of the families was asked for."""
        return not self._wanted or any(family.name in self._wanted for family in families)

    def labels(self, *pairs: tuple[str, str]) -> Labels:
        """Encode labels of a series, with those of the server."""
        return f"{self.base},{labels(pairs)}"

    def family(self, family: Family, rows: Iterable[Row]) -> Iterator[str]:
        """Return the lines of a counter or gauge; without series it is left out, as in Java."""
        if not self.is_wanted(family):
            return
        count = 0
        for text, value in rows:
            count += 1
            if count == 1:
                yield family.head()
            if count <= self.most:
                yield family.sample(text, value)
        self.note(family, count)

    def made(self, family: Family, lines: list[str]) -> Iterator[str]:
        """Return the lines of a counter or gauge that the caller made, for families with thousands of series.

        They come in pieces of many lines; the first has the head.
        """
        if not lines or not self.is_wanted(family):
            return
        yield family.head()
        most = min(len(lines), self.most)
        for begin in range(0, most, _LINES_OF_A_PIECE):
            yield "".join(lines[begin : min(begin + _LINES_OF_A_PIECE, most)])
        self.note(family, len(lines))

    def blocks(self, family: Family, blocks: Iterable[bytes], series: int, lines_of_series: int = 1) -> Iterator[bytes]:
        """Return the lines of a family that the caller made, as many in each block as it likes.

        :param series: their number.
        :param lines_of_series: lines of each series; more than one in a histogram.
        """
        if not series or not self.is_wanted(family):
            return
        yield family.head().encode()
        if series <= self.most:
            yield from blocks
        else:
            yield from _first_lines(blocks, self.most * lines_of_series)
        self.note(family, series)

    def gauges(self, *pairs: tuple[Family, float]) -> Iterator[str]:
        """Return the lines of families with one series each, which has only the labels of the server."""
        for family, value in pairs:
            yield from self.family(family, [(self.base, value)])

    def histogram(self, family: Family, rows: Sequence[tuple[Labels, Histogram]]) -> Iterator[str]:
        """Return the lines of a histogram; without series it is left out."""
        if not rows or not self.is_wanted(family):
            return
        yield family.head()
        for text, found in rows[: self.most]:
            yield family.buckets(text, found)
        self.note(family, len(rows))

    def note(self, family: Family, count: int) -> None:
        """Note how many series a metric has; those beyond the limit are logged once."""
        count -= self.most
        if count <= 0:
            return
        self.left_out[family.name] = count
        if family.name not in self._logged:
            self._logged.add(family.name)
            _log.warning(
                "%d series of %s are left out: metricsOtelCardinalityLimit is %d", count, family.name, self.most
            )

    def rpc(self, latency: RpcLatency) -> Iterator[str]:
        """Return the lines of the latency of requests."""
        rows = [
            (self.labels(
                ("protocol_type", key.protocol), ("request_code", _code(RequestCode, key.request)),
                ("response_code", _code(ResponseCode, key.response)),
                ("is_long_polling", text_of(value=key.is_long_polling)), ("result", key.result),
            ), found)
            for key, found in list(latency.spans.items())
        ]  # fmt: skip
        return self.histogram(RPC_LATENCY, rows)


def chunks(lines: Iterable[str]) -> Iterator[bytes]:
    """Encode lines in pieces, each of which is a short step.

    A piece ends after a hundred lines, after a text of several lines, and at an empty one: who makes lines yields that
    after work of its own.
    """
    piece: list[str] = []
    for line in lines:
        piece.append(line)
        if len(piece) == _LINES_AT_ONCE or not line or len(line) > _LONG_LINE:
            yield "".join(piece).encode()
            piece.clear()
    if piece:
        yield "".join(piece).encode()


def _first_lines(blocks: Iterable[bytes], count: int) -> Iterator[bytes]:
    for block in blocks:
        lines = block.splitlines(keepends=True)[:count]
        count -= len(lines)
        yield b"".join(lines)
        if count == 0:
            return


def text_of(*, value: bool) -> str:
    """Return a truth value as labels have it."""
    return "true" if value else "false"


def _code(kind: type[RequestCode | ResponseCode], code: int) -> str:
    try:
        return kind(code).name.lower()
    except ValueError:
        return str(code)
