"""An OpenTelemetry collector gets from our broker what it gets from a Java broker after the same work."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.side import Side
from tests.otlp_collector import Collector, Export

TOPIC, GROUP = "otlp-topic", "otlp-group"
SEEN = {"rocketmq_messages_in_total", "rocketmq_messages_out_total", "rocketmq_consumer_connections"}
EQUAL = (
    "rocketmq_messages_in_total",
    "rocketmq_messages_out_total",
    "rocketmq_message_size",
    "rocketmq_throughput_in_total",
)

Metrics = dict[str, Any]
"""Metrics of the protocol by name; one that comes in several requests has the points of the first."""


class Pair(NamedTuple):
    ours: Metrics
    java: Metrics
    scopes: set[str]
    headers: list[dict[str, str]]


def settings(collector: Collector, **more: Any) -> dict[str, Any]:
    return more | {
        "metricsExporterType": "OTLP_GRPC", "metricsGrpcExporterTarget": f"http://127.0.0.1:{collector.port}",
        "metricsGrpcExporterHeader": "first:a b,second:c", "metricGrpcExporterIntervalInMills": 1000,
    }  # fmt: skip


def exported(java: JavaPeer, side: Side, collector: Collector) -> list[Export]:
    """Three messages are consumed. Returns what came until all of that has been seen, and all of one export."""
    java.admin("updateTopic", "-n", side.namesrv, "-b", side.broker, "-t", TOPIC, "-r", "1", "-w", "1")
    side.await_route(TOPIC)
    java.produce(side.namesrv, TOPIC, 3)
    consumer = java.consumer(side.namesrv, TOPIC, GROUP)
    got: set[str] = set()
    consumer.until(lambda row: row["type"] == "msg" and (got.add(row["msgId"]) or len(got) == 3))
    found: list[Export] = []
    while not {one.name for one in merged(found).values() if in_topic(one)} >= SEEN:
        found.append(collector.next())
    return [*found, collector.next()]


def in_topic(metric: Any) -> bool:
    return any(pair.value.string_value in (TOPIC, GROUP) for point in points(metric) for pair in point.attributes)


def merged(exports: list[Export]) -> Metrics:
    """The newest of each name."""
    return {metric.name: metric for export in exports for metric in export.metrics}


def points(metric: Any) -> Any:
    return getattr(metric, metric.WhichOneof("data")).data_points


@pytest.fixture(scope="module")
def pair(java: JavaPeer, servers: OurServers) -> Pair:
    with Collector() as collector:
        served = servers.serve(**settings(collector))
        ours = exported(java, Side("ours", served.namesrv, served.broker), collector)
        served.stop()
    with Collector() as collector:
        broker = java.broker(java.namesrv().address, conf=settings(collector))
        theirs = exported(java, Side("java", broker.namesrv, broker.address), collector)
        broker.process.kill()
    scopes = {export.scope for export in ours + theirs}
    return Pair(merged(ours), merged(theirs), scopes, [ours[0].headers, theirs[0].headers])


def test_names_kinds_and_units_are_those_of_java(pair: Pair) -> None:
    common = pair.ours.keys() & pair.java.keys()
    assert len(common) > 20
    assert {name: described(pair.ours[name]) for name in common} == {
        name: described(pair.java[name]) for name in common
    }
    own = {name for name in pair.ours.keys() - pair.java.keys() if not name.startswith("rocketmq_py_")}
    assert not [name for name in own if name.endswith("_milliseconds")]
    assert pair.scopes == {"broker-meter"}


def described(metric: Any) -> tuple[Any, ...]:
    kind = metric.WhichOneof("data")
    data = getattr(metric, kind)
    bounds = {tuple(point.explicit_bounds) for point in data.data_points} if kind == "histogram" else None
    attributes = {
        frozenset((pair.key, pair.value.WhichOneof("value")) for pair in point.attributes) for point in data.data_points
    }
    temporality, is_monotonic = getattr(data, "aggregation_temporality", None), getattr(data, "is_monotonic", None)
    return kind, metric.unit, temporality, is_monotonic, bounds, attributes


@pytest.mark.parametrize("name", EQUAL)
def test_values_after_the_same_work_are_equal(pair: Pair, name: str) -> None:
    ours, java = (values(metrics[name]) for metrics in (pair.ours, pair.java))
    assert ours
    assert ours == java


def values(metric: Any) -> dict[tuple[str, ...], Any]:
    found = {}
    for point in points(metric):
        attributes = {pair.key: pair.value for pair in point.attributes}
        if attributes["topic"].string_value == TOPIC:
            key = tuple(sorted(f"{name}={value}" for name, value in attributes.items()))
            is_number = hasattr(point, "as_int")
            found[key] = point.as_int if is_number else (point.count, point.sum, tuple(point.bucket_counts))
    return found


def test_headers_are_sent(pair: Pair) -> None:
    for headers in pair.headers:
        assert (headers["first"], headers["second"]) == ("a b", "c")


def test_deltas_have_java_s_label_and_add_up(java: JavaPeer, servers: OurServers) -> None:
    with Collector() as collector:
        served = servers.serve(**settings(collector, metricsInDelta=True))
        ours = exported(java, Side("ours", served.namesrv, served.broker), collector)
        served.stop()
    with Collector() as collector:
        broker = java.broker(java.namesrv().address, conf=settings(collector, metricsInDelta=True))
        theirs = exported(java, Side("java", broker.namesrv, broker.address), collector)
        broker.process.kill()
    assert temporalities(ours) == temporalities(theirs) == {"sum": {1}, "histogram": {1}}
    assert added(ours) == added(theirs) == {"rocketmq_messages_in_total": 3, "rocketmq_messages_out_total": 3}
    for exports in (ours, theirs):
        assert all(
            "aggregation=delta" in attributes_of(point) for one in merged(exports).values() for point in points(one)
        )


def attributes_of(point: Any) -> set[str]:
    return {f"{pair.key}={pair.value.string_value}" for pair in point.attributes}


def temporalities(exports: list[Export]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for export in exports:
        for metric in export.metrics:
            kind = metric.WhichOneof("data")
            if kind != "gauge":
                found.setdefault(kind, set()).add(getattr(metric, kind).aggregation_temporality)
    return found


def added(exports: list[Export]) -> dict[str, int]:
    """What was counted in all exports together."""
    counts: dict[str, int] = {}
    for export in exports:
        for metric in export.metrics:
            if metric.name in ("rocketmq_messages_in_total", "rocketmq_messages_out_total"):
                for point in points(metric):
                    if f"topic={TOPIC}" in attributes_of(point):
                        counts[metric.name] = counts.get(metric.name, 0) + point.as_int
    return counts
