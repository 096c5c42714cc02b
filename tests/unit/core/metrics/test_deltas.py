"""What was counted since the last export."""

from __future__ import annotations

from typing import Any

from rocketmq_py.core.metrics.deltas import Deltas
from rocketmq_py.core.metrics.exposition import COUNTER, GAUGE, HISTOGRAM, Family, labels
from rocketmq_py.core.metrics.histogram import Histogram
from rocketmq_py.core.metrics.otlp import Metric, otlp_metrics

SENT, LEVEL, SIZES = Family("sent", COUNTER, "x"), Family("level", GAUGE, "x"), Family("sizes", HISTOGRAM, "x")


def metrics(now: int, sizes: tuple[float, ...] = (), level: float | None = None, **sent: float) -> list[Metric]:
    text = ""
    if sent:
        text += SENT.head() + "".join(SENT.sample(labels({"topic": name}), value) for name, value in sent.items())
    if level is not None:
        text += LEVEL.head() + LEVEL.sample("", level)
    if sizes:
        histogram = Histogram((1, 10))
        for size in sizes:
            histogram.observe(size)
        text += SIZES.head() + SIZES.buckets(labels({"topic": "a"}), histogram)
    return otlp_metrics(text, 5, now)


def exported(deltas: Deltas, found: list[Metric]) -> dict[str, Any]:
    """By name and topic: the times of the start and the end in milliseconds, and what was counted."""
    shown: dict[str, Any] = {}
    for metric in deltas.of(found):
        field = next(field for field in ("sum", "histogram", "gauge") if field in metric)
        assert metric[field].get("aggregationTemporality", 1) == 1
        for point in metric[field]["dataPoints"]:
            topic = point["attributes"][0]["value"]["stringValue"] if point["attributes"] else ""
            times = tuple(
                int(point[name]) // 1_000_000 for name in ("startTimeUnixNano", "timeUnixNano") if name in point
            )
            value = point.get("asInt") or point.get("asDouble") or (point["count"], point["sum"], point["bucketCounts"])
            shown[f"{metric['name']} {topic}"] = (*times, value)
    return shown


def test_the_first_export_has_all_and_the_next_what_is_new() -> None:
    deltas = Deltas()
    first = metrics(10, a=3, b=0, c=1.5)
    assert exported(deltas, first) == {"sent a": (5, 10, "3"), "sent c": (5, 10, 1.5)}
    deltas.exported(first)
    second = metrics(20, a=3, b=2, c=2.0, d=1)
    assert exported(deltas, second) == {"sent b": (10, 20, "2"), "sent c": (10, 20, 0.5), "sent d": (5, 20, "1")}
    deltas.exported(second)
    assert deltas.of(metrics(30, a=3, b=2, c=2.0, d=1)) == []


def test_what_was_not_exported_is_part_of_the_next_export() -> None:
    deltas = Deltas()
    deltas.exported(metrics(10, a=3))
    assert exported(deltas, metrics(20, a=4)) == {"sent a": (10, 20, "1")}
    assert exported(deltas, metrics(30, a=9)) == {"sent a": (10, 30, "6")}


def test_histograms() -> None:
    deltas = Deltas()
    first = metrics(10, sizes=(0.5, 7))
    assert exported(deltas, first) == {"sizes a": (5, 10, ("2", 7.5, ["1", "1", "0"]))}
    deltas.exported(first)
    assert deltas.of(first) == []
    assert exported(deltas, metrics(20, sizes=(0.5, 7, 8, 99))) == {"sizes a": (10, 20, ("2", 107.0, ["0", "1", "1"]))}


def test_gauges_stay_as_they_are() -> None:
    deltas, found = Deltas(), metrics(10, level=0.5)
    deltas.exported(found)
    assert deltas.of(found) == found


def test_a_series_that_begins_again_is_all_new() -> None:
    deltas = Deltas()
    deltas.exported(metrics(10, a=3))
    again = metrics(20, a=2)
    assert exported(deltas, again) == {"sent a": (10, 20, "2")}
    deltas.exported(again)
    assert exported(deltas, metrics(30, a=5)) == {"sent a": (20, 30, "3")}
    assert deltas.of(metrics(30, a=0)) == []


def test_series_that_are_gone_are_forgotten() -> None:
    deltas = Deltas()
    deltas.exported(metrics(10, a=3, b=4))
    deltas.forget_others(metrics(20, a=3))
    assert exported(deltas, metrics(30, a=3, b=4)) == {"sent b": (5, 30, "4")}
