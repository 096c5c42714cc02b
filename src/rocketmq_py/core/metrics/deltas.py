"""What counters and histograms have counted since they were exported last, for ``metricsInDelta``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rocketmq_py.core.metrics.otlp import Metric

_DELTA = 1
_COUNTING = ("sum", "histogram")
_Key = tuple[str, str]


class Deltas:
    """Keeps what has been exported of each series.

    What could not be exported is part of the next delta: nothing is lost if a collector is away. A request that
    arrived although its answer did not is counted twice.
    """

    def __init__(self) -> None:
        self._exported: dict[_Key, dict[str, Any]] = {}

    def of(self, metrics: Iterable[Metric]) -> list[Metric]:
        """Return cumulative metrics as deltas; gauges are as they were, series that counted nothing are left out."""
        return [delta for metric in metrics if (delta := self._delta(metric)) is not None]

    def exported(self, metrics: Iterable[Metric]) -> None:
        """Note that the deltas of these cumulative metrics have been exported."""
        self._exported.update(_points(metrics))

    def forget_others(self, metrics: Iterable[Metric]) -> None:
        """Forget all series but those of these metrics: their topic or group was deleted."""
        kept = {key for key, _ in _points(metrics)}
        self._exported = {key: point for key, point in self._exported.items() if key in kept}

    def _delta(self, metric: Metric) -> Metric | None:
        field = _field(metric)
        if field is None:
            return metric
        points = [
            delta
            for point in metric[field]["dataPoints"]
            if (delta := _difference(point, self._exported.get(_key(metric, point)))) is not None
        ]
        if not points:
            return None
        return {**metric, field: {**metric[field], "dataPoints": points, "aggregationTemporality": _DELTA}}


def _difference(point: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what a point has counted since an earlier one, None if nothing.

    A point that has counted less is of a series that began again; all of it is new.
    """
    counts = _counts(point)
    if before is not None and all(now >= then for now, then in zip(counts, _counts(before), strict=True)):
        if counts == _counts(before):
            return None
        rest = {name: value for name, value in point.items() if name not in ("asInt", "asDouble")}
        return {**rest, "startTimeUnixNano": before["timeUnixNano"], **_subtract(point, before)}
    if not any(counts):
        return None
    return point if before is None else {**point, "startTimeUnixNano": before["timeUnixNano"]}


def _counts(point: dict[str, Any]) -> list[float]:
    if "bucketCounts" in point:
        return [int(count) for count in point["bucketCounts"]]
    return [_value(point)]


def _value(point: dict[str, Any]) -> float:
    return int(point["asInt"]) if "asInt" in point else float(point["asDouble"])


def _subtract(point: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    if "bucketCounts" not in point:
        value = _value(point) - _value(before)
        return {"asInt": str(value)} if isinstance(value, int) else {"asDouble": value}
    counts = [now - then for now, then in zip(_counts(point), _counts(before), strict=True)]
    return {
        "count": str(sum(counts)),
        "sum": point["sum"] - before["sum"],
        "bucketCounts": [str(count) for count in counts],
    }


def _points(metrics: Iterable[Metric]) -> Iterator[tuple[_Key, dict[str, Any]]]:
    """Iterate over the points of counters and histograms."""
    for metric in metrics:
        field = _field(metric)
        if field is not None:
            for point in metric[field]["dataPoints"]:
                yield _key(metric, point), point


def _field(metric: Metric) -> str | None:
    return next((field for field in _COUNTING if field in metric), None)


def _key(metric: Metric, point: dict[str, Any]) -> _Key:
    return metric["name"], str(point["attributes"])
