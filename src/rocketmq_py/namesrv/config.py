"""The settings of a name server under Apache RocketMQ's own names (NamesrvConfig), and their text form."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from rocketmq_py.core import java_config
from rocketmq_py.core.networks import parse_networks
from rocketmq_py.errors import ConfigError
from rocketmq_py.namesrv.java_keys import CONTROLLER_KEYS, JAVA_DEFAULTS
from rocketmq_py.server.monitoring.settings import extra_labels, health_place, metrics_place

UNSUPPORTED: dict[str, tuple[str, str]] = {
    "enableControllerInNamesrv": ("false", "this name server is no controller: run Apache RocketMQ's controller"),
}
"""Keys of features that this name server does not have: the accepted value, and the reason for refusing others."""


class NamesrvConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of a name server. Intervals are in milliseconds unless the name says seconds.

    :param listen_port: 0 picks a free port.
    :param bind_address: the address to listen on.
    :param kv_config_path: the file of the key-value table; empty keeps the table in memory only.
    :param config_store_path: the file to which settings that requests change are written; empty: changes are lost
        when the name server stops.
    :param metrics_exporter_type: ``PROM`` serves metrics for Prometheus, and the pages of health, on
        ``metrics_prom_exporter_port``; 0 picks a free port.
    :param metrics_prom_exporter_host: the address to serve metrics on; empty: ``bind_address``.
    :param metrics_label: ``key:value,key:value``, labels added to every series.
    :param health_port: a port for ``/livez``, ``/readyz`` and ``/startupz`` alone; -1 for none, 0 picks a free one (not
        a key of Java's).
    :param health_host: the address of that port; empty: the address of the metrics.
    :param proxy_protocol_sources: IP addresses and CIDR blocks of load balancers, separated by commas: what their PROXY
        headers say is the address of the client; empty: connections with such a header are closed; read at the start
        only (not a key of Java's).
    :param ignored: settings of a namesrv.conf that have no effect here.
    :param need_wait_for_service: answer no routes in the first ``wait_seconds_for_service``, while brokers register.
    :raises ConfigError: a value is out of range.
    """

    listen_port: int = 9876
    bind_address: str = "0.0.0.0"  # noqa: S104 - as Java's
    kv_config_path: str = ""
    config_store_path: str = ""
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"

    order_message_enable: bool = False
    return_order_topic_config_to_broker: bool = True
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    support_acting_master: bool = False
    delete_topic_with_broker_registration: bool = False
    notify_min_broker_id_changed: bool = False
    need_wait_for_service: bool = False
    wait_seconds_for_service: int = 45
    scan_not_active_broker_interval: int = 5_000
    server_channel_max_idle_time_seconds: int = 120

    metrics_exporter_type: str = "DISABLE"
    metrics_prom_exporter_port: int = 5557
    metrics_prom_exporter_host: str = ""
    metrics_label: str = ""
    health_port: int = -1
    health_host: str = ""
    proxy_protocol_sources: str = ""

    ignored: dict[str, str] = {}

    def __post_init__(self) -> None:
        if not 0 <= self.listen_port <= 65535:
            raise ConfigError(f"listenPort is {self.listen_port}: 0 to 65535 is expected")
        metrics_place(self.metrics_exporter_type, self.bind_address, self.metrics_prom_exporter_port)
        health_place(self.health_port, self.bind_address)
        extra_labels(self.metrics_label)
        parse_networks(self.proxy_protocol_sources, "proxyProtocolSources")
        least = {"scan_not_active_broker_interval": 1, "server_channel_max_idle_time_seconds": 1,
                 "wait_seconds_for_service": 0}  # fmt: skip
        for name, bound in least.items():
            value = getattr(self, name)
            if not bound <= value < 2**63:
                raise ConfigError(f"{_key(name)} is {value}: at least {bound} is expected")

    @classmethod
    def keys(cls) -> frozenset[str]:
        """All keys that have an effect here, in the spelling of namesrv.conf and of requests."""
        return frozenset(_kinds())

    @classmethod
    def is_known(cls, key: str) -> bool:
        """True if Apache RocketMQ's name server, the controller in it, or this one has a setting of that name."""
        return key in JAVA_DEFAULTS or key in CONTROLLER_KEYS or key in _kinds()

    @classmethod
    def checked(cls, settings: Mapping[str, str]) -> NamesrvConfig:
        """Build a configuration from the settings of a namesrv.conf; Java's keys without effect go to ``ignored``.

        :raises ConfigError: unknown keys, each with the nearest known one; values of the wrong kind; a setting that
            requires a feature this name server does not have.
        """
        known = {**JAVA_DEFAULTS, **dict.fromkeys(_kinds(), "")}
        faults = [java_config.unknown_key(key, known) for key in settings if not cls.is_known(key)]
        faults += [
            f"{key} is {settings[key]!r}: {why}"
            for key, (accepted, why) in UNSUPPORTED.items()
            if settings.get(key, accepted).strip().lower() != accepted
        ]
        if faults:
            raise ConfigError(f"name server: {'; '.join(faults)}")
        return cls().updated(settings)

    def updated(self, settings: Mapping[str, str]) -> NamesrvConfig:
        """Return a copy with these settings changed; unknown keys are skipped, as in Java.

        :raises ConfigError: a value of the wrong kind.
        """
        kinds = {
            **dict.fromkeys(CONTROLLER_KEYS, str),
            **{key: java_config.value_type(value) for key, value in JAVA_DEFAULTS.items()},
            **_kinds(),
        }
        faults = [java_config.value_fault(key, text, kinds[key]) for key, text in settings.items() if key in kinds]
        if any(faults):
            raise ConfigError(f"name server: {'; '.join(filter(None, faults))}")
        now: dict[str, Any] = msgspec.to_builtins(self)
        now["ignored"] |= {key: text for key, text in settings.items() if key in kinds and key not in now}
        now |= {key: _parsed(text, kinds[key]) for key, text in settings.items() if key in _kinds()}
        try:
            return msgspec.convert(now, NamesrvConfig)
        except msgspec.ValidationError as e:
            raise ConfigError(f"name server: {e}") from e

    def forbidden(self, settings: Mapping[str, str]) -> set[str]:
        """Return which of these keys requests cannot change."""
        return settings.keys() & {"configBlackList", *java_config.PATH_KEYS, *self._black_list()}

    def _black_list(self) -> list[str]:
        return self.config_black_list.split(";")

    def lines(self) -> str:
        """Return a ``key=value`` line for each key that has an effect."""
        settings = msgspec.to_builtins(self)
        return "".join(f"{key}={_text(settings[key])}\n" for key in _kinds())

    def table(self) -> dict[str, str]:
        """Return all keys of Java's name server with their values as text, and others that are set."""
        settings, defaults = msgspec.to_builtins(self), msgspec.to_builtins(NamesrvConfig())
        own = {key for key in _kinds() if key in JAVA_DEFAULTS or settings[key] != defaults[key]}
        return {**JAVA_DEFAULTS, **self.ignored, **{key: _text(settings[key]) for key in _kinds() if key in own}}


def _key(name: str) -> str:
    return next(field.encode_name for field in msgspec.structs.fields(NamesrvConfig) if field.name == name)


@cache
def _kinds() -> dict[str, type]:
    types = typing.get_type_hints(NamesrvConfig)
    fields = msgspec.structs.fields(NamesrvConfig)
    return {field.encode_name: types[field.name] for field in fields if field.name != "ignored"}


def read_lines(lines: Iterable[str]) -> dict[str, str]:
    """Parse ``key=value`` lines as java.util.Properties does; return the settings by key."""
    return java_config.read_properties(lines, strict=False)


def _parsed(text: str, kind: type) -> object:
    return text.lower() == "true" if kind is bool else kind(text)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
