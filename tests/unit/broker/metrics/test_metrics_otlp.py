"""Metrics for an OpenTelemetry collector."""

from __future__ import annotations

import logging
import socket
import sys
from typing import Any

import grpc
import pytest

from rocketmq_py.broker.metrics.metrics_otlp import MetricsOtlp
from rocketmq_py.errors import ConfigError
from rocketmq_py.server.monitoring.settings import OtlpCollector
from tests.otlp_collector import SECONDS, Collector, Export

EXPOSITION = """\
# HELP in_total Sent.
# TYPE in_total counter
in_total{topic="a"} 7.0
in_total{topic="b"} 8.0
# HELP level Now.
# TYPE level gauge
level{} 0.5
"""


def target(
    port: int, most_points: int = 1000, timeout_ms: int = int(SECONDS * 1000), *, in_delta: bool = False
) -> MetricsOtlp:
    collector = OtlpCollector(f"127.0.0.1:{port}", False, (("key", "a b"),))
    return MetricsOtlp(collector, timeout_ms, most_points, in_delta=in_delta)


def test_a_collector_gets_all_metrics_with_the_headers(caplog: pytest.LogCaptureFixture) -> None:
    with Collector() as collector:
        metrics = target(collector.port)
        metrics.write(EXPOSITION, 5, 9)
        found = collector.next()
        metrics.close()
    assert (found.scope, found.headers["key"]) == ("broker-meter", "a b")
    counter, gauge = found.metrics
    assert (counter.name, counter.description, gauge.name) == ("in_total", "Sent.", "level")
    assert [(point.as_int, point.start_time_unix_nano, point.time_unix_nano) for point in counter.sum.data_points] == [
        (7, 5_000_000, 9_000_000), (8, 5_000_000, 9_000_000)
    ]  # fmt: skip
    assert [point.as_double for point in gauge.gauge.data_points] == [0.5]
    assert not [one for one in caplog.records if one.name.endswith("metrics_otlp")], "there is nothing to tell"


class Noting:
    """A channel that accepts everything."""

    def __init__(self, address: str, **options: Any) -> None:
        self.address, self.options = address, options
        self.given = list[dict[str, Any]]()
        self.is_closed = False

    def unary_unary(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        def export(request: Any, **given: Any) -> Any:
            assert not self.is_closed
            self.given.append({"method": method, **given})
            return response_deserializer(b"")

        return export

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> list[Noting]:
    """The channels that are opened, which note their requests."""
    opened = list[Noting]()

    def insecure_channel(address: str, **options: Any) -> Noting:
        opened.append(Noting(address, **options))
        return opened[-1]

    monkeypatch.setattr(grpc, "insecure_channel", insecure_channel)
    return opened


def test_each_request_has_the_time_limit_and_is_compressed(channels: list[Noting]) -> None:
    metrics = target(7, most_points=2, timeout_ms=3500)
    metrics.write(EXPOSITION, 5, 9)
    metrics.close()
    [channel] = channels
    assert (channel.address, channel.options) == ("127.0.0.1:7", {"compression": grpc.Compression.Gzip})
    method = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
    assert channel.given == [{"method": method, "timeout": 3.5, "metadata": (("key", "a b"),)}] * 2
    assert channel.is_closed


def test_many_points_are_several_requests() -> None:
    with Collector() as collector:
        metrics = target(collector.port, most_points=2)
        metrics.write(EXPOSITION, 5, 9)
        assert [[one.name for one in collector.next().metrics] for _ in range(2)] == [["in_total"], ["level"]]
        metrics.close()


def test_a_refusal_is_an_error_that_names_the_collector() -> None:
    with Collector(grpc.StatusCode.UNAVAILABLE) as collector:
        metrics = target(collector.port)
        with pytest.raises(ConnectionError) as found:
            metrics.write(EXPOSITION, 5, 9)
        assert str(found.value) == f"the collector 127.0.0.1:{collector.port} answers UNAVAILABLE: 'not\\nnow'"
        metrics.write(EXPOSITION, 5, 10)  # the next attempt has all values again
        assert len(collector.next().metrics) == 2
        metrics.close()


def test_a_collector_that_never_answers_is_an_error_after_the_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        metrics = target(silent.getsockname()[1], timeout_ms=50)
        with pytest.raises(ConnectionError, match=r"the collector 127\.0\.0\.1:\d+ answers DEADLINE_EXCEEDED: "):
            metrics.write(EXPOSITION, 5, 9)
        metrics.close()


def test_points_that_a_collector_refuses_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with Collector(3) as collector:
        metrics = target(collector.port)
        metrics.write(EXPOSITION, 5, 9)
        metrics.close()
        text = f"the collector 127.0.0.1:{collector.port} refused 3 of the data points: 'too\\nold'"
        assert [one.getMessage() for one in caplog.records] == [text]


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(ConfigError, match=r"OTLP_GRPC, and grpc is not installed: pip install 'rocketmq-py\[otlp\]'"):
        target(1)


def test_https_is_not_answered_by_a_collector_without_tls() -> None:
    with Collector() as collector:
        metrics = MetricsOtlp(
            OtlpCollector(f"127.0.0.1:{collector.port}", True, ()), int(SECONDS * 1000), 10, in_delta=False
        )
        with pytest.raises(ConnectionError, match="UNAVAILABLE"):
            metrics.write(EXPOSITION, 5, 9)
        metrics.close()


def test_deltas_of_a_failed_request_are_sent_with_the_next() -> None:
    def values(export: Export) -> dict[str, list[int]]:
        return {
            one.name: [point.as_int for point in one.sum.data_points] for one in export.metrics if one.sum.data_points
        }

    with Collector(0, grpc.StatusCode.UNAVAILABLE) as collector:
        metrics = target(collector.port, in_delta=True)
        metrics.write(EXPOSITION, 5, 9)
        assert values(collector.next()) == {"in_total": [7, 8]}
        with pytest.raises(ConnectionError):
            metrics.write(EXPOSITION.replace("7.0", "9.0"), 5, 10)
        metrics.write(EXPOSITION.replace("7.0", "12.0"), 5, 11)
        assert values(collector.next()) == {"in_total": [5]}
        level = "# HELP" + EXPOSITION.split("# HELP")[2]
        metrics.write(level, 5, 12)
        assert [one.name for one in collector.next().metrics] == ["level"]
        metrics.write(EXPOSITION, 5, 13)
        assert values(collector.next()) == {"in_total": [7, 8]}, "series that had gone are new"
        metrics.close()


def test_nothing_is_sent_if_nothing_was_counted(channels: list[Noting]) -> None:
    metrics, counters = target(7, in_delta=True), EXPOSITION.partition("# HELP level")[0]
    metrics.write(counters, 5, 9)
    metrics.write(counters, 5, 10)
    assert len(channels[0].given) == 1
