"""OpenTelemetry's JSON of an exposition."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from rocketmq_py.core.metrics.exposition import COUNTER, GAUGE, HISTOGRAM, Family, labels
from rocketmq_py.core.metrics.histogram import Histogram
from rocketmq_py.core.metrics.otlp import otlp_json

NASTY = 'a"b\\n\\c\nd} 5 {e="f",\u2028ö'
BASE = labels([("cluster", "c"), ("topic", NASTY)])


def metrics(exposition: str) -> list[dict[str, Any]]:
    text = otlp_json(exposition, "meter", 1_000, 2_000)
    assert "\n" not in text
    found = json.loads(text)
    assert found["resource"] == {"attributes": []}
    [scope] = found["scopeMetrics"]
    assert scope["scope"] == {"name": "meter"}
    return list(scope["metrics"])


def test_an_exposition_without_metrics() -> None:
    assert metrics("") == []


def test_counters_and_gauges_have_points_with_attributes() -> None:
    counter, gauge = Family("in_total", COUNTER, "Back\\slash, new\nline."), Family("level", GAUGE, "Now.")
    attributes = [
        {"key": "cluster", "value": {"stringValue": "c"}}, {"key": "topic", "value": {"stringValue": NASTY}}
    ]  # fmt: skip
    lines = counter.head() + counter.sample(BASE, 7) + counter.sample("", 2**62) + gauge.head() + gauge.sample(BASE, -1)
    assert metrics(lines) == [
        {
            "name": "in_total", "description": "Back\\slash, new\nline.",
            "sum": {
                "dataPoints": [
                    {"startTimeUnixNano": "1000000000", "timeUnixNano": "2000000000", "asInt": "7",
                     "attributes": attributes},
                    {"startTimeUnixNano": "1000000000", "timeUnixNano": "2000000000", "asInt": str(2**62),
                     "attributes": []},
                ],
                "aggregationTemporality": 2, "isMonotonic": True,
            },
        },
        {
            "name": "level", "description": "Now.",
            "gauge": {"dataPoints": [{"timeUnixNano": "2000000000", "asInt": "-1", "attributes": attributes}]},
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, {"asDouble": 0.5}), (0, {"asInt": "0"}), (math.inf, {"asDouble": "Infinity"}),
        (-math.inf, {"asDouble": "-Infinity"}), (math.nan, {"asDouble": "NaN"}), (2.0**63, {"asDouble": 2.0**63}),
        (-(2.0**63), {"asDouble": -(2.0**63)}), (2.0**62, {"asInt": str(2**62)}),
    ],
)  # fmt: skip
def test_numbers_are_those_of_the_protocol(value: float, expected: dict[str, Any]) -> None:
    family = Family("level", GAUGE, "Now.")
    [metric] = metrics(family.head() + family.sample(BASE, value))
    [point] = metric["gauge"]["dataPoints"]
    assert {key: point[key] for key in ("asInt", "asDouble") if key in point} == expected


def test_histograms_have_the_count_of_each_bucket() -> None:
    family = Family("time", HISTOGRAM, "How long.")
    full, other = Histogram((1, 10, 100)), Histogram((1, 10, 100))
    for value in (0.5, 3, 4, 1000, 2000, 3000):
        full.observe(value)
    other.observe(50)
    text = family.head() + family.buckets(BASE, full) + family.buckets(labels([("topic", "u")]), other)
    [metric] = metrics(text)
    assert (metric["name"], metric["histogram"]["aggregationTemporality"]) == ("time", 2)
    assert "isMonotonic" not in metric["histogram"]
    one, two = metric["histogram"]["dataPoints"]
    assert (one["count"], one["sum"], one["bucketCounts"]) == ("6", 6007.5, ["1", "2", "0", "3"])
    assert one["explicitBounds"] == [1.0, 10.0, 100.0]
    assert one["startTimeUnixNano"] == "1000000000"
    assert [pair["key"] for pair in one["attributes"]] == ["cluster", "topic"]
    assert (two["count"], two["sum"], two["bucketCounts"]) == ("1", 50.0, ["0", "0", "1", "0"])
    assert two["explicitBounds"] == [1.0, 10.0, 100.0]
    assert two["attributes"] == [{"key": "topic", "value": {"stringValue": "u"}}]
