"""Metrics in the JSON of OpenTelemetry's protocol, made from an exposition for Prometheus."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from rocketmq_py.core.metrics.exposition import COUNTER, HISTOGRAM

_SAMPLE = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_BOOLEANS = {"true": True, "false": False}
_SCOPE_LABEL = "otel_scope_name"
_CUMULATIVE = 2
_DATA = {"sum", "histogram", "gauge"}
_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


Metric = dict[str, Any]
"""A ``Metric`` of OpenTelemetry's protocol, as JSON has it."""


def otlp_metrics(exposition: str, began_ms: int, now_ms: int) -> list[Metric]:
    """Return the metrics of an exposition.

    :param exposition: what :mod:`rocketmq_py.core.metrics.exposition` makes.
    :param began_ms: since when counters and histograms count, in milliseconds since the epoch.
    :param now_ms: when the exposition was made.
    """
    times = {"startTimeUnixNano": f"{began_ms}000000", "timeUnixNano": f"{now_ms}000000"}
    return [_metric(lines, times) for lines in _families(exposition)]


def resource_metrics(metrics: list[Metric], scope: str) -> dict[str, Any]:
    """Return ``ResourceMetrics`` of metrics, with the name of their instrumentation scope."""
    return {"resource": {"attributes": []}, "scopeMetrics": [{"scope": {"name": scope}, "metrics": metrics}]}


def otlp_json(metrics: list[Metric], scope: str) -> str:
    """Return one line: the ``ResourceMetrics`` of metrics; parameters are those of :func:`resource_metrics`."""
    return json.dumps(resource_metrics(metrics, scope), separators=(",", ":"))


def in_batches(metrics: Iterable[Metric], most: int) -> Iterator[list[Metric]]:
    """Yield the same metrics in order, in lists of up to ``most`` data points; a metric with more is taken apart."""
    batch, room = list[Metric](), most
    for metric in metrics:
        [field] = metric.keys() & _DATA
        data = metric[field]
        points = data["dataPoints"]
        while points:
            batch.append({**metric, field: {**data, "dataPoints": points[:room]}})
            points, room = points[room:], room - len(points[:room])
            if not room:
                yield batch
                batch, room = [], most
    if batch:
        yield batch


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
    _, _, series, description = lines[0].split(" ", 3)
    kind = lines[1].rpartition(" ")[2]
    samples = [found.groups() for found in map(_SAMPLE.fullmatch, lines[2:]) if found is not None]
    if kind == HISTOGRAM:
        data: dict[str, Any] = {"dataPoints": list(_buckets(series, samples, times))}
    else:
        at = times if kind == COUNTER else {"timeUnixNano": times["timeUnixNano"]}
        data = {"dataPoints": [{**at, **_value(value), "attributes": _attributes(text)} for _, text, value in samples]}
    if kind in (COUNTER, HISTOGRAM):
        data["aggregationTemporality"] = _CUMULATIVE
    if kind == COUNTER:
        data["isMonotonic"] = True
    field = {COUNTER: "sum", HISTOGRAM: "histogram"}.get(kind, "gauge")
    name, unit = _name_and_unit(series)
    return {"name": name, "description": _unescaped(description), **({"unit": unit} if unit else {}), field: data}


def _name_and_unit(series: str) -> tuple[str, str]:
    """Return what a Java broker tells OpenTelemetry; Prometheus has the unit at the end of most names that have one."""
    if series.startswith("rocketmq_py_"):
        return series, ""
    if series.endswith("_milliseconds"):
        return series.removesuffix("_milliseconds"), "milliseconds"
    if series.endswith("_seconds"):
        return series.removesuffix("_seconds"), "seconds"
    if series.endswith("_bytes"):
        return (series if series.endswith("_behind_bytes") else series.removesuffix("_bytes")), "bytes"
    return series, ""


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
    labels = _LABEL.findall(text)
    return [{"key": name, "value": _attribute(name, value)} for name, value in labels if name != _SCOPE_LABEL]


def _attribute(name: str, value: str) -> dict[str, Any]:
    if name.startswith("is_") and value in _BOOLEANS:
        return {"boolValue": _BOOLEANS[value]}
    if name == "queue_id":
        return {"intValue": value}
    return {"stringValue": _unescaped(value)}


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text) if "\\" in text else text
