"""What the monitors of brokers and name servers share: where they serve health and metrics, and their endpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from rocketmq_py.server.monitoring.endpoint import MonitoringEndpoint
from rocketmq_py.server.monitoring.health import Checks
from rocketmq_py.server.monitoring.settings import places


class MonitoringConfig(Protocol):
    """The settings that say where health and metrics are served."""

    @property
    def metrics_prom_exporter_host(self) -> str: ...

    @property
    def metrics_prom_exporter_port(self) -> int: ...

    @property
    def health_host(self) -> str: ...

    @property
    def health_port(self) -> int: ...


class ServerMonitor(ABC):
    """Serves health and metrics of a server, if its configuration asks for them.

    :param exporter: whether metrics are served, as ``metricsExporterType``.
    :param host: where both are served if the configuration names no host.
    :param target: the lines about the server itself, as :func:`target_info` returns them.
    :raises ConfigError: another exporter than PROM or DISABLE, or a port out of range.
    """

    def __init__(self, config: MonitoringConfig, exporter: str, host: str, target: bytes) -> None:
        host = config.metrics_prom_exporter_host or host
        metrics, health = places(
            exporter, host, config.metrics_prom_exporter_port, config.health_port, config.health_host or host
        )
        self._serves_metrics = metrics is not None
        self._endpoint: MonitoringEndpoint | None = None
        if metrics is not None or health is not None:
            self._endpoint = MonitoringEndpoint(metrics, health, self._checks, self._collect, target)

    @property
    def ports(self) -> dict[str, int]:
        """The ports that are listened on, by ``metrics`` and ``health``."""
        return self._endpoint.ports if self._endpoint is not None else {}

    async def start(self) -> None:
        """Serve health, before the server is ready.

        :raises ConfigError: a port cannot be listened on.
        """
        if self._endpoint is not None:
            await self._endpoint.start()

    def started(self) -> None:
        """Report that the server serves requests."""
        if self._endpoint is not None:
            self._endpoint.started()

    def draining(self) -> None:
        """Report that the server is about to stop."""
        if self._endpoint is not None:
            self._endpoint.draining()

    async def stop(self) -> None:
        """Stop serving. Does nothing if stopped already."""
        if self._endpoint is not None:
            await self._endpoint.stop()

    def _checks(self) -> Checks:
        """Return the checks of readiness."""
        return {}

    @abstractmethod
    async def _collect(self, wanted: frozenset[str]) -> list[bytes]:
        """Return the exposition of some metrics, in pieces; of all if the set of names is empty."""
