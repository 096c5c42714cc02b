"""Settings of health and metrics."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.server.monitoring.settings import Place, extra_labels, health_place, is_logged, metrics_place, places


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


def test_the_log_is_an_exporter_by_name_or_number() -> None:
    found = {one: is_logged(one) for one in ("LOG", " log ", "3", "PROM", "1", "DISABLE", "")}
    assert [one for one, is_so in found.items() if is_so] == ["LOG", " log ", "3"]


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
