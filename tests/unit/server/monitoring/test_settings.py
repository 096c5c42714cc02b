"""Settings of health and metrics."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.server.monitoring.settings import (
    OtlpCollector,
    Place,
    exporter_kind,
    extra_labels,
    health_place,
    metrics_place,
    otlp_collector,
    places,
    without_values,
)


@pytest.mark.parametrize("exporter", ["PROM", "prom", " PROM ", "2"])
def test_prom_serves_metrics(exporter: str) -> None:
    assert metrics_place(exporter, "10.0.0.1", 5557) == Place("10.0.0.1", 5557)


@pytest.mark.parametrize("exporter", ["DISABLE", "0", "disable"])
def test_metrics_are_off_by_name(exporter: str) -> None:
    assert metrics_place(exporter, "10.0.0.1", 5557) is None


@pytest.mark.parametrize("exporter", ["OTLP_GRPC", "LOG", "1", "3", "", "PROMETHEUS"])
def test_other_exporters_are_refused(exporter: str) -> None:
    with pytest.raises(ConfigError, match="PROM or DISABLE is expected"):
        metrics_place(exporter, "10.0.0.1", 5557)


def test_exporters_have_names_and_numbers() -> None:
    found = [exporter_kind(one) for one in ("LOG", " log ", "3", "PROM", "2", "1", "otlp_grpc", "0", "", "4")]
    assert found == ["LOG", "LOG", "LOG", "PROM", "PROM", "OTLP_GRPC", "OTLP_GRPC", "DISABLE", "", "4"]


@pytest.mark.parametrize(
    ("target", "address", "is_tls"),
    [("http://127.0.0.1:4317", "127.0.0.1:4317", False), ("https://otel.example:1/", "otel.example:1", True),
     ("otel-1.example:65535", "otel-1.example:65535", True), (" http://[::1]:4317 ", "[::1]:4317", False)],
)  # fmt: skip
def test_a_collector_has_tls_unless_its_target_says_http(target: str, address: str, is_tls: bool) -> None:
    assert otlp_collector(target, "") == OtlpCollector(address, is_tls, ())


@pytest.mark.parametrize(
    "target",
    ["", "host", "http://host", "ftp://host:1", "host:0", "host:65536", "http://host:1/path", "http://a b:1",
     "unix:/tmp/x:1", "HTTP://host:1", "http://user@host:1", "::1:4317"],
)  # fmt: skip
def test_other_targets_are_refused(target: str) -> None:
    with pytest.raises(ConfigError, match=r"metricsGrpcExporterTarget is .*: http://host:port or https://host:port"):
        otlp_collector(target, "")


def test_headers_are_pairs() -> None:
    found = otlp_collector("h:1", "Authorization:Bearer a:b , x-y.z_0: 1,")
    assert found.headers == (("authorization", "Bearer a:b"), ("x-y.z_0", "1"))
    assert without_values("Authorization:Bearer a:b , x-y.z_0: 1,") == "Authorization:******,x-y.z_0:******"
    assert without_values("") == ""


@pytest.mark.parametrize("headers", ["secret", ":secret", "a b:secret", "a:secr\u00e9t", "a:sec\nret", "ok:1,secret"])
def test_other_headers_are_refused_without_their_values(headers: str) -> None:
    with pytest.raises(ConfigError) as found:
        otlp_collector("h:1", headers)
    assert str(found.value) == "metricsGrpcExporterHeader has another form than name:value,name:value"


@pytest.mark.parametrize("port", [-2, -1, 65_536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match=f"metricsPromExporterPort is {port}: 0 to 65535"):
        metrics_place("PROM", "h", port)


@pytest.mark.parametrize(("port", "expected"), [(-1, None), (0, Place("h", 0)), (65_535, Place("h", 65_535))])
def test_health_has_a_port_or_none(port: int, expected: Place | None) -> None:
    assert health_place(port, "h") == expected


@pytest.mark.parametrize("port", [-2, 65_536])
def test_a_port_of_health_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match=f"healthPort is {port}"):
        health_place(port, "h")


def test_labels_are_pairs() -> None:
    assert extra_labels("") == {}
    assert extra_labels("zone:a, rack:b:7,") == {"zone": "a", "rack": "b:7"}


@pytest.mark.parametrize("text", ["zone", "1a:b", "le:1", "cluster:x", "node_id:x", "__name:x", "a b:c", ":x"])
def test_labels_that_metrics_cannot_have_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="metricsLabel is"):
        extra_labels(text)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (("DISABLE", "h", 1, -1, "h"), (None, None)), (("DISABLE", "h", 1, 1, "h"), (None, Place("h", 1))),
        (("PROM", "h", 1, -1, "h"), (Place("h", 1), None)), (("PROM", "h", 1, 1, "h"), (Place("h", 1), None)),
        (("PROM", "h", 1, 1, "i"), (Place("h", 1), Place("i", 1))),
        (("PROM", "h", 1, 2, "h"), (Place("h", 1), Place("h", 2))),
        (("PROM", "h", 0, 0, "h"), (Place("h", 0), Place("h", 0))),
    ],
)  # fmt: skip
def test_one_port_serves_both_if_both_name_it(asked, found) -> None:
    assert places(*asked) == found


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("http://ann:secret@collector:4317", "http://******@collector:4317"),
        ("ann:secret@collector:4317", "******@collector:4317"),
        ("http://ann:se@cret@collector:4317/x", "http://******@collector:4317/x"),
        ("ftp://collector:4317", "ftp://collector:4317"),
        ("collector", "collector"),
    ],
)
def test_the_error_of_a_wrong_target_has_no_name_and_password(target: str, shown: str) -> None:
    with pytest.raises(ConfigError) as told:
        otlp_collector(target, "")
    assert str(told.value).startswith(f"metricsGrpcExporterTarget is {shown!r}: http://host:port")
