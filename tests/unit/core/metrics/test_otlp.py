"""OpenTelemetry's JSON of an exposition."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from rocketmq_py.core.metrics.exposition import COUNTER, GAUGE, HISTOGRAM, Family, labels
from rocketmq_py.core.metrics.histogram import Histogram
from rocketmq_py.core.metrics.otlp import in_batches, otlp_json, otlp_metrics

NASTY = 'a"b\\n\\c\nd} 5 {e="f",\u2028ö'
BASE = labels([("cluster", "c"), ("topic", NASTY)])


def metrics(exposition: str) -> list[dict[str, Any]]:
    text = otlp_json(otlp_metrics(exposition, 1_000, 2_000), "meter")
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


@pytest.mark.parametrize(
    ("series", "name", "unit"),
    [("rocketmq_rpc_latency_milliseconds", "rocketmq_rpc_latency", "milliseconds"),
     ("rocketmq_storage_size_bytes", "rocketmq_storage_size", "bytes"),
     ("rocketmq_storage_flush_behind_bytes", "rocketmq_storage_flush_behind_bytes", "bytes"),
     ("rocketmq_py_commit_log_bytes", "rocketmq_py_commit_log_bytes", None),
     ("rocketmq_messages_in_total", "rocketmq_messages_in_total", None)],
)  # fmt: skip
def test_names_and_units_are_those_a_java_broker_tells(series: str, name: str, unit: str | None) -> None:
    family = Family(series, HISTOGRAM, "Text.")
    [found] = metrics(family.head() + family.buckets("", Histogram((1, 2))))
    assert (found["name"], found.get("unit")) == (name, unit)
    assert found["histogram"]["dataPoints"][0]["explicitBounds"] == [1.0, 2.0]


def test_attributes_have_types_and_no_scope() -> None:
    gauge = Family("level", GAUGE, "Now.")
    base = labels([
        ("is_retry", "true"), ("is_system", "false"), ("is_odd", "odd"), ("queue_id", "3"), ("topic", "true"),
        ("otel_scope_name", "broker-meter"),
    ])  # fmt: skip
    [found] = metrics(gauge.head() + gauge.sample(base, 1))
    assert {pair["key"]: pair["value"] for pair in found["gauge"]["dataPoints"][0]["attributes"]} == {
        "is_retry": {"boolValue": True}, "is_system": {"boolValue": False}, "is_odd": {"stringValue": "odd"},
        "queue_id": {"intValue": "3"}, "topic": {"stringValue": "true"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("most", "expected"),
    [(1, [["a0"], ["a1"], ["a2"], ["b0"], ["c0"], ["c1"]]), (2, [["a0", "a1"], ["a2", "b0"], ["c0", "c1"]]),
     (4, [["a0", "a1", "a2", "b0"], ["c0", "c1"]]), (5, [["a0", "a1", "a2", "b0", "c0"], ["c1"]]),
     (6, [["a0", "a1", "a2", "b0", "c0", "c1"]])],
)  # fmt: skip
def test_batches_have_up_to_so_many_points_in_order(most: int, expected: list[list[str]]) -> None:
    def metric(name: str, field: str, count: int) -> dict[str, Any]:
        return {"name": name, field: {"dataPoints": [f"{name}{i}" for i in range(count)], "aggregationTemporality": 2}}

    given = [metric("a", "sum", 3), metric("b", "gauge", 1), metric("none", "gauge", 0), metric("c", "histogram", 2)]
    field = {"a": "sum", "b": "gauge", "c": "histogram"}
    found = list(in_batches(given, most))
    assert [[point for one in batch for point in one[field[one["name"]]]["dataPoints"]] for batch in found] == expected
    assert all(one[field[one["name"]]]["aggregationTemporality"] == 2 for batch in found for one in batch)
    assert given[0]["sum"]["dataPoints"] == ["a0", "a1", "a2"], "what was given stays"


def test_nothing_is_no_batch() -> None:
    assert list(in_batches(otlp_metrics("", 1, 2), 5)) == []
