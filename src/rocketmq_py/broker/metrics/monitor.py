"""Health and metrics of a broker: when its endpoint is there, what its readiness depends on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metrics.collect import Collector
from rocketmq_py.broker.metrics.metrics_log import MetricsLog
from rocketmq_py.broker.metrics.metrics_otlp import MetricsOtlp
from rocketmq_py.broker.metrics.periodic import MetricsTarget, PeriodicExport
from rocketmq_py.broker.services import Services
from rocketmq_py.core.metrics.counters import MessageCounts, RpcLatency
from rocketmq_py.errors import ClosedError
from rocketmq_py.server import Server
from rocketmq_py.server.monitoring.exposition import target_info
from rocketmq_py.server.monitoring.health import Checks
from rocketmq_py.server.monitoring.monitor import ServerMonitor
from rocketmq_py.server.monitoring.settings import DISABLE, LOG, OTLP_GRPC, exporter_kind, otlp_collector
from rocketmq_py.store import FileSystem, OsFileSystem

SERVICE = "rocketmq-broker"


class Monitor(ServerMonitor):
    """Serves health and metrics of a broker, or exports its metrics, if its configuration asks for them."""

    def __init__(self, config: BrokerConfig, clock: Callable[[], int], fs: FileSystem | None) -> None:
        self._config, self._clock, self._fs = config, clock, fs or OsFileSystem()
        self._export = self._periodic_export()
        exporter = config.metrics_exporter_type if self._export is None else DISABLE
        target = target_info(SERVICE, f"{config.broker_name}/{config.broker_id}", config.broker_cluster_name)
        super().__init__(config, exporter, config.broker_ip1, target)
        self._counts_messages = self._serves_metrics or self._export is not None
        self._collector: Collector | None = None
        self._services: Services | None = None

    def _periodic_export(self) -> PeriodicExport | None:
        """Return what sends the metrics by itself; None if nothing does.

        :raises ConfigError: what it needs is not installed.
        """
        config, kind = self._config, exporter_kind(self._config.metrics_exporter_type)
        target: MetricsTarget
        if kind == LOG:
            target, interval = (
                MetricsLog(in_delta=config.metrics_in_delta),
                config.metric_logging_exporter_interval_in_mills,
            )
        elif kind == OTLP_GRPC:
            collector = otlp_collector(config.metrics_grpc_exporter_target, config.metrics_grpc_exporter_header)
            timeout, most = config.metric_grpc_exporter_time_out_in_mills, config.metrics_export_batch_max_data_points
            target, interval = (
                MetricsOtlp(collector, timeout, most, in_delta=config.metrics_in_delta),
                config.metric_grpc_exporter_interval_in_mills,
            )
        else:
            return None
        return PeriodicExport(lambda: self._collect(frozenset()), target, interval, self._clock)

    def watch(self, services: Services, server: Server) -> None:
        """Count for the metrics from now on; to be called before the first request."""
        self._services = services
        if not self._counts_messages:
            return
        counts, latency = MessageCounts(), RpcLatency()
        services.count(counts)
        server.dispatcher.latency = latency
        call_soon = asyncio.get_running_loop().call_soon
        self._collector = Collector(
            self._config, services, server, counts, latency, self._clock, call_soon, self._fs
        )  # fmt: skip

    def started(self) -> None:
        """Report that the broker serves requests."""
        if self._export is not None:
            self._export.start()
        super().started()

    async def stop(self) -> None:
        """Stop serving. Does nothing if stopped already."""
        if self._export is not None:
            await self._export.stop()
        await super().stop()

    async def _collect(self, wanted: frozenset[str]) -> list[bytes]:
        if self._collector is None:
            raise ClosedError("the broker does not collect metrics")
        return await self._collector.collect(wanted)

    def _checks(self) -> Checks:
        assert self._services is not None
        services = self._services

        def registered() -> str | None:
            is_missing = self._config.namesrv_addresses and not services.registration.registered_at
            return "the broker is registered at no name server" if is_missing else None

        def writable() -> str | None:
            is_fine = services.role.is_slave or services.store.is_writable
            return None if is_fine else "the store refuses messages: see the log"

        def following() -> str | None:
            slave = services.replication.slave
            return (
                None
                if slave is None or slave.is_connected or services.role.is_acting
                else "no connection to the master"
            )

        return {"registered": registered, "store": writable, "replication": following}
