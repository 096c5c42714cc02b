"""Metrics in the JSON of OpenTelemetry's protocol, made from an exposition for Prometheus."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from rocketmq_py.core.metrics.exposition import COUNTER, HISTOGRAM

_SAMPLE = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_CUMULATIVE = 2
_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def otlp_json(exposition: str, scope: str, began_ms: int, now_ms: int) -> str:
    """Return one line: the ``ResourceMetrics`` with all metrics of an exposition.

    :param exposition: what :mod:`rocketmq_py.core.metrics.exposition` makes.
    :param scope: name of the instrumentation scope.
    :param began_ms: since when counters and histograms count, in milliseconds since the epoch.
    :param now_ms: when the exposition was made.
    """
    times = {"startTimeUnixNano": f"{began_ms}000000", "timeUnixNano": f"{now_ms}000000"}
    metrics = [_metric(lines, times) for lines in _families(exposition)]
    found = {"resource": {"attributes": []}, "scopeMetrics": [{"scope": {"name": scope}, "metrics": metrics}]}
    return json.dumps(found, separators=(",", ":"))


def _families(exposition: str) -> Iterator[list[str]]:
    """Return the lines of each family; the first two are its head."""
    lines: list[str] = []
    for line in exposition.split("\n"):
        if line.startswith("# HELP ") and lines:
            yield lines
            lines = []
        if line:
            lines.append(line)
    if lines:
        yield lines


def _metric(lines: list[str], times: dict[str, str]) -> dict[str, Any]:
    _, _, name, description = lines[0].split(" ", 3)
    kind = lines[1].rpartition(" ")[2]
    samples = [found.groups() for found in map(_SAMPLE.fullmatch, lines[2:]) if found is not None]
    if kind == HISTOGRAM:
        data: dict[str, Any] = {"dataPoints": list(_buckets(name, samples, times))}
    else:
        at = times if kind == COUNTER else {"timeUnixNano": times["timeUnixNano"]}
        data = {"dataPoints": [{**at, **_value(value), "attributes": _attributes(text)} for _, text, value in samples]}
    if kind in (COUNTER, HISTOGRAM):
        data["aggregationTemporality"] = _CUMULATIVE
    if kind == COUNTER:
        data["isMonotonic"] = True
    field = {COUNTER: "sum", HISTOGRAM: "histogram"}.get(kind, "gauge")
    return {"name": name, "description": _unescaped(description), field: data}


def _buckets(name: str, samples: list[tuple[str, ...]], times: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Return the points of a histogram: the samples of each are its buckets, their sum and their number."""
    bounds, counts, total = list[float](), list[int](), 0.0
    for sample, text, value in samples:
        if sample == f"{name}_bucket":
            bounds.append(float(text.rpartition('le="')[2].removesuffix('"')))
            counts.append(int(float(value)))
        elif sample == f"{name}_sum":
            total = float(value)
        else:
            apart = [str(count - before) for before, count in zip([0, *counts], counts, strict=False)]
            yield {
                **times, "count": str(counts[-1]), "sum": total, "bucketCounts": apart, "explicitBounds": bounds[:-1],
                "attributes": _attributes(text),
            }  # fmt: skip
            bounds, counts = [], []


def _value(text: str) -> dict[str, Any]:
    value = float(text)
    if not math.isfinite(value):
        return {"asDouble": _NOT_FINITE.get(value, "NaN")}
    return {"asInt": str(int(value))} if value.is_integer() and abs(value) < 2**63 else {"asDouble": value}


def _attributes(text: str) -> list[dict[str, Any]]:
    return [{"key": name, "value": {"stringValue": _unescaped(value)}} for name, value in _LABEL.findall(text)]


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text) if "\\" in text else text
