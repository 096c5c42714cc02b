"""The settings of a running broker: read them, change them, and store the changes.

The parts of a broker share the two configuration objects and read most settings when they need them, so a change is
made in these objects. Some settings take effect at the next start only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from rocketmq_py.broker.config.broker_config import BrokerConfig, configure, java_key, java_settings
from rocketmq_py.broker.config.java_keys import JAVA_DEFAULTS, UNSET
from rocketmq_py.core.java_config import (
    PATH_KEYS,
    decode_text,
    escape_controls,
    read_properties,
    split_lines,
    write_properties,
)
from rocketmq_py.errors import BrokerError, ConfigError
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.server.monitoring.settings import without_values
from rocketmq_py.store import FileSystem, OsFileSystem, StoreConfig

_log = logging.getLogger(__name__)

_LOCAL_KEYS = PATH_KEYS | {"configBlackList"}


def is_kept_from(key: str, black_list: str) -> bool:
    """True if requests cannot change a setting, such as paths of files that the broker reads and writes.

    :param black_list: further keys, separated by semicolons.
    """
    return key in _LOCAL_KEYS or "path" in key.lower() or key in black_list.split(";")


AT_START = frozenset({
    "broker_name", "broker_cluster_name", "broker_role", "broker_id", "broker_ip2",
    "ha_listen_port", "ha_master_address", "total_replicas", "enable_slave_acting_master", "broker_heartbeat_interval",
    "sync_broker_member_group_period",
    "listen_port", "bind_address", "broker_ip1",
    "region_id", "trace_on", "default_topic_queue_nums", "cluster_topic_enable",
    "broker_topic_enable", "trace_topic_enable", "msg_trace_topic_name", "revive_queue_num",
    "filter_data_clean_time_span", "consumer_offset_update_version_step", "delay_offset_update_version_step",
    "flush_consumer_offset_interval", "flush_delay_offset_interval", "register_name_server_period",
    "server_channel_max_idle_time_seconds", "mapped_file_size_commit_log", "mapped_file_size_consume_queue",
    "store_path_commit_log",
    "max_hash_slot_num", "max_index_num", "message_index_enable", "message_delay_level",
    "flush_disk_type", "check_crc_on_recover", "access_message_in_memory_max_ratio", "clean_resource_interval",
    "accept_loss", "max_open_queue_files", "rebuild_bytes_before_start",
    "timer_wheel_enable", "timer_precision_ms", "timer_roll_window_slot", "timer_flush_interval_ms",
    "mapped_file_size_timer_log",
    "metrics_exporter_type", "metrics_prom_exporter_port", "metrics_prom_exporter_host", "metrics_label",
    "metrics_in_delta", "metrics_otel_cardinality_limit", "metrics_queue_level", "enable_stats_metrics",
    "enable_request_metrics", "enable_connection_metrics", "enable_lag_and_dlq_metrics", "enable_transaction_metrics",
    "enable_remoting_metrics", "enable_message_store_metrics", "enable_pop_metrics", "health_port", "health_host",
    "figures_log_seconds", "metric_logging_exporter_interval_in_mills", "metrics_grpc_exporter_target",
    "metrics_grpc_exporter_header", "metric_grpc_exporter_time_out_in_mills", "metric_grpc_exporter_interval_in_mills",
    "metrics_export_batch_max_data_points",
    "grpc_server_port", "proxy_protocol_sources",
})  # fmt: skip
"""Fields that are read only at the start; a change takes effect at the next start."""

_HEADERS = "metricsGrpcExporterHeader"
"""The key whose values may be secrets."""


class LiveSettings:
    """Reads and changes the settings of a running broker.

    :param broker: the configuration of the broker; changed in place.
    :param store: the configuration of its store; changed in place.
    :param port: the port that the broker listens on.
    :param clock: returns the time in milliseconds, for the version of the settings.
    :param on_change: called with the changed keys, except those whose change waits for the next start.
    """

    def __init__(
        self,
        broker: BrokerConfig,
        store: StoreConfig,
        port: int,
        clock: Callable[[], int],
        fs: FileSystem | None = None,
        *,
        on_change: Callable[[frozenset[str]], None] = lambda _: None,
    ) -> None:
        self._broker = broker
        self._store = store
        self._port = port
        self._clock = clock
        self._fs = fs or OsFileSystem()
        self._waiting: dict[str, str] = {}
        self.version = DataVersion(timestamp=clock())
        self._on_change = on_change

    @property
    def path(self) -> Path:
        """The file to which changes are written."""
        return kept_in(self._broker.broker_config_path, self._broker.store_root)

    def table(self) -> dict[str, str]:
        """Return all keys of Java's broker and of this one with their values as text.

        A changed key of ``AT_START`` has its new value, which takes effect at the next start. A key without effect has
        Java's default, whatever the broker.conf says. Headers for a collector of metrics have no values.
        """
        config = self._broker
        found = {
            "listenPort": str(self._port), "haListenPort": str(config.ha_listen_port or self._port + 1),
            "brokerIP2": config.broker_ip2 or config.broker_ip1,
            "storePathCommitLog": str(self._store.commit_log_directory or config.store_root / "commitlog"),
        }  # fmt: skip
        shown = {**JAVA_DEFAULTS, **self._own(), **found}
        optional = {"brokerConfigPath": config.broker_config_path, "haMasterAddress": config.ha_master_address}
        given = {key for key, value in optional.items() if value}
        table = {key: value for key, value in (shown | self._waiting).items() if key not in UNSET or key in given}
        return table | {_HEADERS: without_values(table[_HEADERS])}

    def _own(self) -> dict[str, str]:
        return {**java_settings(self._broker), **java_settings(self._store)}

    def update(self, text: str) -> frozenset[str]:
        """Apply the settings of ``key=value`` lines, and write them to :attr:`path`.

        :returns: the keys whose change takes effect at the next start.
        :raises BrokerError: NO_PERMISSION, one of the keys cannot be changed by requests; INVALID_PARAMETER, an unknown
            key or an invalid value. Nothing is changed then.
        """
        changes = read_properties(split_lines(text), strict=False)
        if any(is_kept_from(key, self._broker.config_black_list) for key in changes):
            raise BrokerError.of(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        broker, store = self._checked(changes)
        later = self._take_over(self._broker, broker, changes) | self._take_over(self._store, store, changes)
        self._broker.ignored = broker.ignored
        self._waiting |= {key: changes[key] for key in later}
        self.version = self.version.bump(self._clock())
        self._keep(changes)
        shown = ", ".join(escape_controls(f"{key}={changes[key]}") for key in sorted(changes))
        _log.info(
            "settings changed: %s%s", shown, f"; from the next start on: {', '.join(sorted(later))}" if later else ""
        )
        self._on_change(frozenset(changes.keys() - later))
        return frozenset(later)

    def _checked(self, changes: Mapping[str, str]) -> tuple[BrokerConfig, StoreConfig]:
        try:
            return configure({**self._broker.ignored, **self._own(), **self._waiting, **changes})
        except ConfigError as e:
            raise BrokerError.of(ResponseCode.INVALID_PARAMETER, str(e)) from e

    @staticmethod
    def _take_over(target: msgspec.Struct, source: msgspec.Struct, changes: Mapping[str, str]) -> set[str]:
        """Copy the fields whose keys are in ``changes`` from ``source`` to ``target``, except fields of ``AT_START``.

        Returns the broker.conf keys of the fields that were left out: they take effect at the next start.
        """
        later = set()
        for name in target.__struct_fields__:
            if java_key(name) not in changes:
                continue
            if name in AT_START:
                later.add(java_key(name))
            else:
                setattr(target, name, getattr(source, name))
        return later

    def _keep(self, changes: Mapping[str, str]) -> None:
        try:
            before, encoding = decode_text(self._fs.read(self.path) or b"")
            after = write_properties(before, changes)
            self._fs.write(self.path, after.encode(encoding, "backslashreplace"))  # Java's escapes, too
        except OSError as e:
            _log.error("%s cannot be written, the changed settings hold until the broker ends: %s", self.path, e)


def kept_in(config_path: str, store_root: Path) -> Path:
    """Return the file of the settings that administrators have changed; by default in the store."""
    return Path(config_path).expanduser() if config_path else store_root / "config" / "broker.properties"
