"""Settings of health and metrics, which brokers and name servers share; keys are Apache RocketMQ's where it has one."""

from __future__ import annotations

import re
from typing import NamedTuple

from rocketmq_py.errors import ConfigError

DISABLE, OTLP_GRPC, PROM, LOG = "DISABLE", "OTLP_GRPC", "PROM", "LOG"
_BY_NUMBER = {"0": DISABLE, "1": OTLP_GRPC, "2": PROM, "3": LOG}
_HEADER = re.compile(r"[a-z0-9_.-]+")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OWN = frozenset({"cluster", "node_type", "node_id", "otel_scope_name", "aggregation", "le"})


class Place(NamedTuple):
    """Where to listen; port 0 picks a free one."""

    host: str
    port: int


class OtlpCollector(NamedTuple):
    """Where an OpenTelemetry collector listens for gRPC."""

    address: str
    is_tls: bool
    headers: tuple[tuple[str, str], ...]
    """Sent with each request; their values may be secrets."""


def exporter_kind(exporter: str) -> str:
    """Return the exporter a setting names: ``DISABLE``, ``OTLP_GRPC``, ``PROM``, ``LOG``, or what else is there.

    :param exporter: the value of ``metricsExporterType``: one of these names in any case, or Java's number of it.
    """
    return _BY_NUMBER.get(exporter.strip(), exporter.strip().upper())


def otlp_collector(target: str, headers: str) -> OtlpCollector:
    """Parse ``metricsGrpcExporterTarget`` and ``metricsGrpcExporterHeader``.

    :param target: ``http://host:port`` or ``https://host:port``; without a scheme it is https, as of Java.
    :param headers: ``name:value,name:value``, or empty.
    :raises ConfigError: one of them has another form.
    """
    text = target.strip()
    found = re.fullmatch(r"(?:(https?)://)?((?:[\w.-]+|\[[0-9a-fA-F:]+\]):(\d{1,5}))/?", text)
    if found is None or not 0 < int(found[3]) <= 65535:
        raise ConfigError(
            f"metricsGrpcExporterTarget is {_without_user(target)!r}: http://host:port or https://host:port is expected"
        )
    pairs = []
    for part in filter(None, (part.strip() for part in headers.split(","))):
        name, colon, value = part.partition(":")
        name, value = name.strip().lower(), value.strip()
        if not colon or not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
            raise ConfigError("metricsGrpcExporterHeader has another form than name:value,name:value")
        pairs.append((name, value))
    return OtlpCollector(found[2], found[1] != "http", tuple(pairs))


def _without_user(target: str) -> str:
    """Return an address with asterisks for everything before its host that may be a name and a password."""
    scheme, colon, rest = target.rpartition("://") if "://" in target else ("", "", target)
    _, at, host = rest.rpartition("@")
    return f"{scheme}{colon}******@{host}" if at else target


def without_values(headers: str) -> str:
    """Return ``metricsGrpcExporterHeader`` with asterisks for its values."""
    names = (part.partition(":")[0].strip() for part in headers.split(",") if part.strip())
    return ",".join(f"{name}:******" for name in names)


def metrics_place(exporter: str, host: str, port: int) -> Place | None:
    """Return where to serve metrics, None if they are off.

    :param exporter: ``DISABLE`` or ``PROM``, or Java's numbers 0 and 2 for them.
    :raises ConfigError: another exporter, or a port out of range.
    """
    kind = exporter_kind(exporter)
    if kind == DISABLE:
        return None
    if kind != PROM:
        raise ConfigError(
            f"metricsExporterType is {exporter!r}: PROM or DISABLE is expected, of brokers also LOG and OTLP_GRPC"
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
