"""What makes a broker ready, and where it serves its metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metrics.monitor import Monitor
from rocketmq_py.broker.services import Services
from rocketmq_py.errors import ClosedError
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.server import Server
from rocketmq_py.server.monitoring.settings import Place
from rocketmq_py.store import OsFileSystem
from tests.unit.broker.harness import InProcess, broker
from tests.unit.broker.requests import send
from tests.unit.store.memoryfs import MemoryFileSystem


def monitor(running: InProcess, **settings: Any) -> Monitor:
    made = Monitor(BrokerConfig(**settings), running.clock, MemoryFileSystem())
    server = SimpleNamespace(dispatcher=running.dispatcher, connections=set())
    made.watch(running.services, cast(Server, server))
    return made


def faults(made: Monitor) -> dict[str, str | None]:
    return {name: check() for name, check in made._checks().items()}


def test_without_settings_nothing_is_served(tmp_path: Path) -> None:
    async def main() -> None:
        made = Monitor(BrokerConfig(), lambda: 0, None)
        await made.start()
        made.started()
        made.draining()
        await made.stop()
        assert made.ports == {}
        with pytest.raises(ClosedError, match="does not collect metrics"):
            await made._collect(frozenset())

    asyncio.run(main())


def test_ports_are_open_from_start_to_stop(tmp_path: Path) -> None:
    async def main() -> None:
        with broker(tmp_path, fs=MemoryFileSystem()) as running:
            local = {"metrics_prom_exporter_host": "127.0.0.1", "metrics_prom_exporter_port": 0, "health_port": 0}
            made = monitor(running, metrics_exporter_type="PROM", **local)
            await made.start()
            assert sorted(made.ports) == ["health", "metrics"]
            made.started()
            assert b"rocketmq_topic_number" in b"".join(await made._collect(frozenset()))
            port = made.ports["health"]
            await made.stop()
            with pytest.raises(OSError):
                await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(main())


def test_one_port_serves_health_and_metrics_if_both_name_it(tmp_path: Path) -> None:
    made = Monitor(
        BrokerConfig(metrics_exporter_type="PROM", metrics_prom_exporter_port=5557, health_port=5557), lambda: 0, None
    )
    assert made._endpoint is not None
    assert made._endpoint._places[1] is None


def test_a_master_is_ready_once_it_is_registered_and_can_write(tmp_path: Path) -> None:
    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        made = monitor(running, health_port=0)
        assert set(faults(made).values()) == {None}
        made = monitor(running, health_port=0, namesrv_addr="127.0.0.1:9876")
        assert faults(made)["registered"] == "the broker is registered at no name server"
        services = SimpleNamespace(
            registration=SimpleNamespace(registered_at={"127.0.0.1:9876"}), role=SimpleNamespace(is_slave=False),
            store=SimpleNamespace(is_writable=False), replication=SimpleNamespace(slave=None),
        )  # fmt: skip
        made._services = cast(Services, services)
        assert faults(made) == {
            "registered": None, "store": "the store refuses messages: see the log", "replication": None,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("connected", "acting", "fault"),
    [(True, False, None), (False, True, None), (False, False, "no connection to the master")],
)
def test_a_slave_is_ready_while_it_follows_or_acts(connected: bool, acting: bool, fault: str | None) -> None:
    made = Monitor(BrokerConfig(health_port=0), lambda: 0, None)
    services = SimpleNamespace(
        registration=SimpleNamespace(registered_at=set()), store=SimpleNamespace(is_writable=False),
        role=SimpleNamespace(is_slave=True, is_acting=acting),
        replication=SimpleNamespace(slave=SimpleNamespace(is_connected=connected)),
    )  # fmt: skip
    made._services = cast(Services, services)
    assert faults(made) == {"registered": None, "store": None, "replication": fault}


def test_the_endpoint_is_told_when_the_broker_serves_and_when_it_ends() -> None:
    made, told = Monitor(BrokerConfig(health_port=0), lambda: 0, None), list[str]()
    made._endpoint = cast(
        Any, SimpleNamespace(started=lambda: told.append("started"), draining=lambda: told.append("end"))
    )
    made.started()
    made.draining()
    assert told == ["started", "end"]


@pytest.mark.parametrize(
    ("settings", "places"),
    [
        ({"metrics_prom_exporter_host": "10.0.0.9"}, (Place("10.0.0.9", 1), None)),
        ({}, (Place("10.0.0.8", 1), None)),
        ({"health_port": 2}, (Place("10.0.0.8", 1), Place("10.0.0.8", 2))),
        ({"metrics_prom_exporter_host": "10.0.0.9", "health_port": 2}, (Place("10.0.0.9", 1), Place("10.0.0.9", 2))),
        ({"health_port": 2, "health_host": "127.0.0.1"}, (Place("10.0.0.8", 1), Place("127.0.0.1", 2))),
        ({"health_port": 2, "metrics_exporter_type": "DISABLE"}, (None, Place("10.0.0.8", 2))),
    ],
)
def test_addresses_are_those_of_the_settings_else_the_brokers(settings: dict[str, Any], places: object) -> None:
    config = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 1, "broker_ip1": "10.0.0.8"}
    made = Monitor(BrokerConfig(**config | settings), lambda: 0, None)
    assert made._endpoint is not None
    assert made._endpoint._places == places


def test_disks_are_those_of_the_system_unless_a_file_system_is_given() -> None:
    files = MemoryFileSystem()
    assert Monitor(BrokerConfig(), lambda: 0, files)._fs is files
    assert isinstance(Monitor(BrokerConfig(), lambda: 0, None)._fs, OsFileSystem)


@pytest.mark.parametrize("exporter", ["PROM", "DISABLE"])
def test_messages_and_requests_are_counted_if_metrics_are_served(tmp_path: Path, exporter: str) -> None:
    async def main() -> None:
        with broker(tmp_path, fs=MemoryFileSystem()) as running:
            made = monitor(running, metrics_exporter_type=exporter, health_port=0)
            assert running.connect().ask(Code.SEND_MESSAGE_V2, send("t"), b"x").code == 0
            if exporter == "DISABLE":
                assert running.services.stats.message_counts is None
                with pytest.raises(ClosedError):
                    await made._collect(frozenset())
                return
            found = b"".join(await made._collect(frozenset())).decode()
            assert 'topic="t",message_type="normal",is_system="false"} 1.0' in found
            assert "rocketmq_rpc_latency_milliseconds_count{" in found

    asyncio.run(main())
