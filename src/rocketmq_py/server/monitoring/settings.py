"""Settings of health and metrics, which brokers and name servers share; keys are Apache RocketMQ's where it has one."""

from __future__ import annotations

import re
from typing import NamedTuple

from rocketmq_py.errors import ConfigError

DISABLE, PROM, LOG = "DISABLE", "PROM", "LOG"
_BY_NUMBER = {"0": DISABLE, "1": "OTLP_GRPC", "2": PROM, "3": LOG}
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OWN = frozenset({"cluster", "node_type", "node_id", "otel_scope_name", "le"})


class Place(NamedTuple):
    """Where to listen; port 0 picks a free one."""

    host: str
    port: int


def is_logged(exporter: str) -> bool:
    """Return True if metrics go to the log: ``LOG``, or Java's number 3."""
    return _kind(exporter) == LOG


def _kind(exporter: str) -> str:
    return _BY_NUMBER.get(exporter.strip(), exporter.strip().upper())


def metrics_place(exporter: str, host: str, port: int) -> Place | None:
    """Return where to serve metrics, None if they are off.

    :param exporter: ``DISABLE`` or ``PROM``, or Java's numbers 0 and 2 for them.
    :raises ConfigError: another exporter, or a port out of range.
    """
    kind = _kind(exporter)
    if kind == DISABLE:
        return None
    if kind != PROM:
        raise ConfigError(
            f"metricsExporterType is {exporter!r}: PROM or DISABLE is expected, of brokers also LOG; OpenTelemetry "
            "collectors read PROM"
        )
    return _place("metricsPromExporterPort", host, port)


def health_place(port: int, host: str) -> Place | None:
    """Return where to serve health alone; None for port -1.

    :raises ConfigError: the port is out of range.
    """
    return None if port == -1 else _place("healthPort", host, port)


def places(
    exporter: str, metrics_host: str, metrics_port: int, health_port: int, health_host: str
) -> tuple[Place | None, Place | None]:
    """Return where to serve metrics, and where to serve health alone; None for what is off.

    If both name the same port, that one serves both.

    :raises ConfigError: as of :func:`metrics_place` and :func:`health_place`.
    """
    metrics = metrics_place(exporter, metrics_host, metrics_port)
    health = health_place(health_port, health_host)
    return metrics, None if health is not None and health == metrics and health.port else health


def _place(key: str, host: str, port: int) -> Place:
    if not 0 <= port <= 65535:
        raise ConfigError(f"{key} is {port}: 0 to 65535 is expected")
    return Place(host, port)


def extra_labels(text: str) -> dict[str, str]:
    """Parse ``metricsLabel``: ``key:value,key:value``.

    :raises ConfigError: it has another form, or names a label that metrics have anyway.
    """
    found = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, value = pair.partition(":")
        if not colon or not _LABEL.fullmatch(name) or name in _OWN or name.startswith("__"):
            raise ConfigError(f"metricsLabel is {text!r}: name:value,name:value is expected, with names of Prometheus")
        found[name] = value
    return found
