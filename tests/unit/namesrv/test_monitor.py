"""What a name server shows of itself: health, and its brokers and requests as metrics."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rocketmq_py.core.metrics.counters import RpcKey
from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.namesrv import NamesrvConfig
from rocketmq_py.namesrv.monitor import NamesrvMonitor
from rocketmq_py.server import Server
from tests.unit.namesrv.conftest import Site

NOW = 1_700_000_000_000


def server() -> Any:
    dispatcher = SimpleNamespace(latency=None, slow_turns=SimpleNamespace(count=3))
    return SimpleNamespace(connections=("one", "two"), dispatcher=dispatcher)


def monitor(site: Site, listener: Any, now: list[int], **settings: Any) -> NamesrvMonitor:
    config = NamesrvConfig(bind_address="127.0.0.1", **settings)
    return NamesrvMonitor(config, site.registry, cast(Server, listener), lambda: now[0])


def test_brokers_topics_and_requests_are_in_the_exposition() -> None:
    site, listener, now = Site(), server(), [NOW]
    made = monitor(
        site, listener, now, metrics_exporter_type="PROM", metrics_prom_exporter_port=0, metrics_label="zone:a"
    )
    site.now = NOW - 5_000
    site.register("broker-a", owner="one")
    site.now = NOW - 1_000
    site.register("broker-b", address="10.0.0.9:1", owner="two")
    site.register("broker-c", address="10.0.0.8:1", owner="three")
    site.registry.disconnected(["three"])

    async def main() -> dict[str, dict[tuple[str, ...], float]]:
        await made.start()
        listener.dispatcher.latency.observe(RpcKey(105, 0, False, "success"), 2.0)
        assert sorted(made.ports) == ["metrics"]
        text = b"".join(await made._collect(frozenset())).decode()
        only = b"".join(await made._collect(frozenset({"rocketmq_py_namesrv_topics"}))).decode()
        assert [line.split("{")[0] for line in only.splitlines() if line[0] != "#"] == ["rocketmq_py_namesrv_topics"]
        await made.stop()
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                assert (sample.labels.pop("node_type"), sample.labels.pop("zone")) == ("nameserver", "a")
                found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
        return found

    found = asyncio.run(main())
    assert found["rocketmq_py_namesrv_brokers"] == {("C",): 2.0}
    assert found["rocketmq_py_namesrv_broker_silent_seconds"] == {
        ("C", "broker-a", "0", "10.0.0.1:10911"): 5.0, ("C", "broker-b", "0", "10.0.0.9:1"): 1.0,
    }  # fmt: skip
    assert found["rocketmq_py_namesrv_lost_brokers_total"] == {(): 1.0}
    assert found["rocketmq_py_namesrv_topics"] == {(): float(site.registry.topic_count)}
    assert found["rocketmq_py_namesrv_connections"] == {(): 2.0}
    assert found["rocketmq_py_namesrv_slow_turns_total"] == {(): 3.0}
    assert found["rocketmq_py_namesrv_start_time_seconds"] == {(): NOW / 1000}
    counts = found["rocketmq_rpc_latency_milliseconds_count"]
    assert counts == {("remoting", "get_routeinfo_by_topic", "success", "false", "success"): 1.0}


def test_health_alone_counts_no_requests() -> None:
    listener = server()
    made = monitor(Site(), listener, [NOW], health_port=0)

    async def main() -> None:
        await made.start()
        assert sorted(made.ports) == ["health"]
        assert listener.dispatcher.latency is None
        made.started()
        made.draining()
        assert made._endpoint is not None
        assert made._endpoint.health.has_started
        assert made._endpoint.health.is_draining
        with pytest.raises(ClosedError):
            await made._collect(frozenset())
        await made.stop()

    asyncio.run(main())


def test_nothing_is_served_unless_asked_for() -> None:
    made = monitor(Site(), server(), [NOW])

    async def main() -> None:
        await made.start()
        made.started()
        made.draining()
        await made.stop()

    asyncio.run(main())
    assert made.ports == {}


@pytest.mark.parametrize(
    "wrong", [{"metricsExporterType": "LOG"}, {"metricsPromExporterPort": "70000", "metricsExporterType": "PROM"},
              {"healthPort": "70000"}, {"metricsLabel": "x"}],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        NamesrvConfig.checked(wrong)


@pytest.mark.parametrize(
    ("settings", "places"),
    [
        ({"metrics_prom_exporter_host": "10.0.0.2"}, (("10.0.0.2", 5557), None)),
        ({"health_port": 5558, "health_host": "10.0.0.3"}, (("127.0.0.1", 5557), ("10.0.0.3", 5558))),
        ({"health_port": 5557}, (("127.0.0.1", 5557), None)),
    ],
)
def test_where_it_is_served(settings: dict[str, Any], places: tuple[object, object]) -> None:
    made = monitor(Site(), server(), [NOW], metrics_exporter_type="PROM", **settings)
    assert made._endpoint is not None
    assert made._endpoint._places == places
