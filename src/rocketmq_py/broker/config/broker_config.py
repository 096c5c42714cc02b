"""The settings of a broker under Apache RocketMQ's own names (BrokerConfig), and reading them from a broker.conf."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

import msgspec

from rocketmq_py.broker.config.bounds import range_faults
from rocketmq_py.broker.config.java_keys import CONTROLLER_KEYS, JAVA_DEFAULTS, TIERED_STORE_KEYS
from rocketmq_py.broker.config.unsupported import unsupported_settings
from rocketmq_py.core import java_config
from rocketmq_py.core.address import parse_address
from rocketmq_py.core.broker.ha_access import parse_allowed_slaves
from rocketmq_py.core.java_config import read_properties
from rocketmq_py.core.networks import parse_networks
from rocketmq_py.core.queue_limits import MAX_QUEUES
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.sys_flag import PERM_RW
from rocketmq_py.server.monitoring.settings import (
    LOG,
    OTLP_GRPC,
    exporter_kind,
    extra_labels,
    health_place,
    metrics_place,
    otlp_collector,
)
from rocketmq_py.store import StoreConfig

DEFAULT_STORE = "~/store"

ASYNC_MASTER, SYNC_MASTER, SLAVE = ROLES = ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE")

_ODD_KEYS = {
    "broker_ip1": "brokerIP1", "broker_ip2": "brokerIP2", "check_crc_on_recover": "checkCRCOnRecover",
    "skip_when_ck_re_put_reach_max_times": "skipWhenCKRePutReachMaxTimes",
}  # fmt: skip
"""Keys of fields that :func:`java_key` cannot derive from the field's name, by field."""

_METRIC_NUMBERS = {
    "metric_logging_exporter_interval_in_mills": 1_000, "metric_grpc_exporter_time_out_in_mills": 1,
    "metric_grpc_exporter_interval_in_mills": 1_000, "metrics_export_batch_max_data_points": 1,
}  # fmt: skip
"""The least value of fields about metrics that are exported in an interval."""

OTHER_KEYS = TIERED_STORE_KEYS | CONTROLLER_KEYS
"""Keys of other parts of Java's broker in the same file; they have no effect here."""

_SECRET = re.compile("secret|password|credential|accessKey", re.IGNORECASE)


class BrokerConfig(msgspec.Struct, kw_only=True):
    """Settings of a broker. Intervals and timeouts are in milliseconds.

    The parts of a broker share one object; only ``broker.config.live_settings`` changes it while they run.

    :param broker_role: ``ASYNC_MASTER``, ``SYNC_MASTER`` (sends wait for slaves) or ``SLAVE``.
    :param broker_id: id of a slave, 1 or more; the id of a master is always 0.
    :param ha_listen_port: port of replication; 0 is the port after ``listen_port``.
    :param ha_allowed_slaves: IP addresses and CIDR blocks of the slaves that may connect to the HA port, separated by
        commas; empty for all, as in Java.
    :param ha_master_address: replication address of the master, for a slave; empty: the one the name servers return.
    :param slave_read_enable: a slave answers pulls, and a master sends consumers with a large lag to slaves.
    :param offset_check_in_slave: a slave corrects pulls outside its queues. Off by default, since a slave may lag.
    :param slave_sync_interval: interval at which a slave copies topics, groups and offsets of its master (not a key of
        Java's, which uses 60 s).
    :param enable_split_metadata: return topics and groups to slaves in pages of at most ``split_metadata_size``, if
        they request pages.
    :param slave_keep_larger_offset: a slave never replaces a group's offset by a smaller one of its master, so commits
        to the slave during an absence of the master are kept (not a key of Java's).
    :param ha_max_gap_not_in_sync: lag in bytes from which on a slave is not in sync.
    :param max_ha_transfer_byte_in_second: replication limit in bytes per second, if ``ha_flow_control_enable``.
    :param in_sync_replicas: number of brokers, including the SYNC_MASTER, that must have a message before its send is
        answered; after ``slave_timeout`` the answer is FLUSH_SLAVE_TIMEOUT. With ``enable_slave_acting_master`` sends
        are refused while fewer brokers are alive.
    :param enable_auto_in_sync_replicas: require fewer brokers while fewer are alive, at least
        ``min_in_sync_replicas``.
    :param total_replicas: number of brokers of this name, used until a name server has returned it.
    :param broker_ip2: advertised address of replication; empty: ``broker_ip1``.
    :param listen_port: 0 picks a free port.
    :param bind_address: the address to listen on; ``broker_ip1`` is advertised to clients.
    :param namesrv_addr: name servers, separated by ``;``; empty for none.
    :param store_path_root_dir: folder of messages and configuration.
    :param enable_single_topic_register: register a changed topic alone instead of all topics; required if name servers
        have ``deleteTopicWithBrokerRegistration``.
    :param broker_fast_failure_enable: refuse requests with SYSTEM_BUSY while turns of the event loop take longer than
        requests may wait (``wait_time_mills_in_*``).
    :param os_page_cache_busy_time_out_mills: duration of a log write from which on sends are refused.
    :param pull_thread_pool_queue_capacity: maximum number of pulls that wait for messages.
    :param send_thread_pool_queue_capacity: maximum number of sends that wait for the disk, with SYNC_FLUSH.
    :param broker_permission: 4 read, 2 write; without write permission order topics refuse messages.
    :param enable_shutdown_gracefully: when stopping, first send producers to other brokers, for at most
        ``shutdown_wait_time_seconds``.
    :param enable_slave_acting_master: the slave with the smallest id acts as master while the master is missing. The
        broker sends heartbeats to name servers every ``broker_heartbeat_interval`` and queries the brokers of its name
        every ``sync_broker_member_group_period``. Set it for masters and slaves, and ``supportActingMaster`` for name
        servers.
    :param enable_remote_escape: an acting master sends due delayed, transactional and popped messages to masters of
        other names; otherwise they wait for the master.
    :param skip_when_ck_re_put_reach_max_times: drop a pop whose messages are at another broker that was unreachable for
        hours; by default it is retried every two hours.
    :param broker_not_active_timeout_millis: time without a heartbeat after which name servers remove this broker, with
        ``enable_slave_acting_master``.
    :param broker_config_path: the file to which changes by administrators are written; empty:
        ``config/broker.properties`` in the store.
    :param config_black_list: keys that requests cannot change, separated by ``;``.
    :param enable_topic_message_type_check: refuse messages that don't match their topic's ``message.type``. This is a
        key of Java's proxy, which checks by default; a Java broker does not check.
    :param metrics_exporter_type: ``PROM`` serves metrics for Prometheus, and the pages of health, on
        ``metrics_prom_exporter_port``; 0 picks a free port.
        ``LOG`` writes them to the log, ``OTLP_GRPC`` sends them to an OpenTelemetry collector (extra ``otlp``).
    :param metric_logging_exporter_interval_in_mills: the interval of ``LOG``, in milliseconds.
    :param metrics_grpc_exporter_target: the collector, ``http://host:port`` or ``https://host:port`` (also without a
        scheme).
    :param metrics_grpc_exporter_header: ``name:value,name:value``, sent with each request to the collector; answers to
        administrators do not show the values.
    :param metric_grpc_exporter_time_out_in_mills: time for the answer of the collector, in milliseconds.
    :param metric_grpc_exporter_interval_in_mills: the interval of ``OTLP_GRPC``, in milliseconds.
    :param metrics_export_batch_max_data_points: maximum number of data points of one request to the collector.
    :param metrics_prom_exporter_host: the address to serve metrics on; empty: ``broker_ip1``.
    :param metrics_in_delta: ``LOG`` and ``OTLP_GRPC`` export what was counted since the last export; all series have
        the label ``aggregation="delta"``.
    :param metrics_label: ``key:value,key:value``, labels added to every series.
    :param metrics_otel_cardinality_limit: maximum number of series of one metric.
    :param metrics_queue_level: also serve the lag of each queue (not a key of Java's).
    :param health_port: a port for ``/livez``, ``/readyz`` and ``/startupz`` alone; -1 for none, 0 picks a free one (not
        a key of Java's).
    :param health_host: the address of that port; empty: the address of the metrics.
    :param figures_log_seconds: log a line with rates and sizes in this interval, at level info; 0 for none (not a key
        of Java's).
    :param grpc_server_port: one more port for clients, under the name of the setting of Java's proxy; -1 for none, 0
        picks a free one. All ports of the broker serve gRPC and remoting.
    :param proxy_protocol_sources: IP addresses and CIDR blocks of load balancers, separated by commas: what their PROXY
        headers say is the address of the client; empty: connections with such a header are closed (no key of Java's).
    :param ignored: settings of a broker.conf that have no effect here.
    :param transaction_check_interval: interval between checks of open transactions; 30 s as in Apache RocketMQ from
        5.1.4 on (60 s in earlier versions).
    :param transaction_time_out: age from which on a half message without an immunity time of its own is checked.
    :param transaction_check_max: number of checks after which a half message is dropped.
    :param transaction_op_batch_interval: interval at which commits and rollbacks of transactions are recorded together;
        0 records each immediately. After a crash in between, the broker checks these transactions again.
    :param transaction_op_msg_max_size: maximum size in bytes of such a write.
    :raises ConfigError: a value is invalid.
    """

    broker_name: str = "broker-a"
    broker_cluster_name: str = "DefaultCluster"
    broker_role: str = ASYNC_MASTER
    broker_id: int = 0
    listen_port: int = 10911
    bind_address: str = "0.0.0.0"  # noqa: S104 - as Java's
    broker_ip1: str = "127.0.0.1"
    broker_ip2: str = ""
    ha_listen_port: int = 0
    ha_allowed_slaves: str = ""
    ha_master_address: str = ""
    ha_send_heartbeat_interval: int = 5_000
    ha_housekeeping_interval: int = 20_000
    ha_transfer_batch_size: int = 32 * 1024
    ha_max_gap_not_in_sync: int = 256 * 1024 * 1024
    ha_flow_control_enable: bool = False
    max_ha_transfer_byte_in_second: int = 100 * 1024 * 1024
    in_sync_replicas: int = 1
    min_in_sync_replicas: int = 1
    enable_auto_in_sync_replicas: bool = False
    total_replicas: int = 1
    slave_timeout: int = 3_000
    namesrv_addr: str = ""
    store_path_root_dir: str = DEFAULT_STORE
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    broker_permission: int = PERM_RW

    auto_create_topic_enable: bool = True
    default_topic_queue_nums: int = 8
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    validate_system_topic_when_update_topic: bool = True
    clear_retry_topic_when_delete_topic: bool = True
    revive_queue_num: int = 8
    skip_when_ck_re_put_reach_max_times: bool = False
    enable_retry_topic_v2: bool = False
    retrieve_message_from_pop_retry_topic_v1: bool = True
    pop_from_retry_probability: int = 20
    pop_from_retry_probability_for_priority: int = 0
    priority_order_asc: bool = True
    pop_response_return_actual_retry_topic: bool = False
    init_pop_offset_by_check_msg_in_mem: bool = True
    pop_polling_size: int = 1_024
    max_pop_polling_size: int = 100_000
    enable_notify_after_pop_order_lock_release: bool = True
    default_message_request_mode: str = "PULL"
    default_pop_share_queue_num: int = -1
    server_load_balancer_enable: bool = True
    load_balance_poll_name_server_interval: int = 30_000

    auto_create_subscription_group: bool = True
    notify_consumer_ids_changed_enable: bool = True
    channel_expired_timeout: int = 120_000
    enable_property_filter: bool = False
    filter_support_retry: bool = False
    filter_data_clean_time_span: int = 86_400_000
    lite_pull_message_enable: bool = True
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1_000
    slave_read_enable: bool = False
    offset_check_in_slave: bool = False
    slave_sync_interval: int = 60_000
    enable_split_metadata: bool = True
    split_metadata_size: int = 2_000
    slave_keep_larger_offset: bool = False
    use_server_side_reset_offset: bool = True
    consumer_offset_update_version_step: int = 500
    delay_offset_update_version_step: int = 200
    flush_consumer_offset_interval: int = 5_000
    flush_delay_offset_interval: int = 10_000
    sync_flush_timeout: int = 5_000

    recall_message_enable: bool = False
    allow_recall_when_broker_not_writeable: bool = True
    append_topic_for_timer_delete_key: bool = False

    store_reply_message_enable: bool = True

    reject_transaction_message: bool = False
    transaction_time_out: int = 6_000
    transaction_check_max: int = 15
    transaction_check_interval: int = 30_000
    transaction_op_msg_max_size: int = 4096
    transaction_op_batch_interval: int = 3_000

    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 24_000
    enable_single_topic_register: bool = False
    start_accept_send_request_time_stamp: int = 0
    server_channel_max_idle_time_seconds: int = 120
    enable_slave_acting_master: bool = False
    enable_remote_escape: bool = False
    broker_heartbeat_interval: int = 1_000
    send_heartbeat_timeout_millis: int = 1_000
    broker_not_active_timeout_millis: int = 10_000
    sync_broker_member_group_period: int = 1_000
    enable_shutdown_gracefully: bool = False
    shutdown_wait_time_seconds: int = 30

    broker_fast_failure_enable: bool = True
    wait_time_mills_in_send_queue: int = 200
    wait_time_mills_in_pull_queue: int = 5_000
    wait_time_mills_in_ack_queue: int = 3_000
    wait_time_mills_in_heartbeat_queue: int = 31_000
    wait_time_mills_in_transaction_queue: int = 3_000
    wait_time_mills_in_admin_broker_queue: int = 5_000
    os_page_cache_busy_time_out_mills: int = 1_000
    send_thread_pool_queue_capacity: int = 10_000
    pull_thread_pool_queue_capacity: int = 100_000
    ack_thread_pool_queue_capacity: int = 100_000
    heartbeat_thread_pool_queue_capacity: int = 50_000
    end_transaction_pool_queue_capacity: int = 100_000
    admin_broker_thread_pool_queue_capacity: int = 10_000
    query_thread_pool_queue_capacity: int = 20_000
    reply_thread_pool_queue_capacity: int = 10_000
    client_manager_thread_pool_queue_capacity: int = 1_000_000
    consumer_manager_thread_pool_queue_capacity: int = 1_000_000

    broker_config_path: str = ""
    config_black_list: str = "configBlackList;brokerConfigPath"
    enable_mixed_message_type: bool = False
    enable_topic_message_type_check: bool = False

    metrics_exporter_type: str = "DISABLE"
    metrics_prom_exporter_port: int = 5557
    metrics_prom_exporter_host: str = ""
    metrics_label: str = ""
    metrics_in_delta: bool = False
    metrics_otel_cardinality_limit: int = 50_000
    enable_stats_metrics: bool = True
    enable_request_metrics: bool = True
    enable_connection_metrics: bool = True
    enable_lag_and_dlq_metrics: bool = True
    enable_transaction_metrics: bool = True
    enable_remoting_metrics: bool = True
    enable_message_store_metrics: bool = True
    enable_pop_metrics: bool = True
    metrics_queue_level: bool = False
    metric_logging_exporter_interval_in_mills: int = 10_000
    metrics_grpc_exporter_target: str = ""
    metrics_grpc_exporter_header: str = ""
    metric_grpc_exporter_time_out_in_mills: int = 3_000
    metric_grpc_exporter_interval_in_mills: int = 60_000
    metrics_export_batch_max_data_points: int = 1_000
    health_port: int = -1
    health_host: str = ""
    figures_log_seconds: int = 0
    grpc_server_port: int = -1
    proxy_protocol_sources: str = ""

    ignored: dict[str, str] = {}

    def __post_init__(self) -> None:
        if not 0 <= self.listen_port <= 65535:
            raise ConfigError(f"listenPort is {self.listen_port}: 0 to 65535 is expected")
        if self.transaction_check_interval < 1:
            raise ConfigError(f"transactionCheckInterval is {self.transaction_check_interval}: at least 1 is expected")
        for name, least in (("default_topic_queue_nums", 0), ("revive_queue_num", 1)):
            if not least <= getattr(self, name) <= MAX_QUEUES:
                said = f"{java_key(name)} is {getattr(self, name)}: {least} to {MAX_QUEUES} is expected"
                raise ConfigError(said)
        self._check_role()
        for key, name in (("brokerName", self.broker_name), ("brokerClusterName", self.broker_cluster_name)):
            if not re.fullmatch(r"[%|a-zA-Z0-9_-]+", name):
                raise ConfigError(f"{key} is {name!r}: letters, digits, '-', '_', '%' and '|' are allowed")
        for address in self.namesrv_addresses:
            parse_address(address)
        parse_networks(self.proxy_protocol_sources, "proxyProtocolSources")
        self._check_metrics()

    def _check_metrics(self) -> None:
        kind = exporter_kind(self.metrics_exporter_type)
        if kind == OTLP_GRPC:
            otlp_collector(self.metrics_grpc_exporter_target, self.metrics_grpc_exporter_header)
        elif kind != LOG:
            metrics_place(self.metrics_exporter_type, self.broker_ip1, self.metrics_prom_exporter_port)
        health_place(self.health_port, self.broker_ip1)
        extra_labels(self.metrics_label)
        for name, least in _METRIC_NUMBERS.items():
            if not least <= getattr(self, name) <= 86_400_000:
                raise ConfigError(f"{java_key(name)} is {getattr(self, name)}: {least} to 86400000 is expected")
        if not 0 <= self.figures_log_seconds <= 86_400:
            raise ConfigError(f"figuresLogSeconds is {self.figures_log_seconds}: 0 to 86400 is expected")

    def _check_role(self) -> None:
        if self.broker_role not in ROLES:
            raise ConfigError(f"brokerRole is {self.broker_role!r}: {', '.join(ROLES)} are there")
        if not 0 <= self.ha_listen_port <= 65535:
            raise ConfigError(f"haListenPort is {self.ha_listen_port}: 0 to 65535 is expected")
        at_least_1 = (
            "slave_sync_interval", "split_metadata_size", "ha_send_heartbeat_interval", "ha_housekeeping_interval",
            "ha_transfer_batch_size", "max_ha_transfer_byte_in_second", "in_sync_replicas", "min_in_sync_replicas",
            "total_replicas",
        )  # fmt: skip
        for name in at_least_1:
            if getattr(self, name) < 1:
                raise ConfigError(f"{java_key(name)} is {getattr(self, name)}: at least 1 is expected")
        parse_allowed_slaves(self.ha_allowed_slaves)
        if self.ha_master_address:
            parse_address(self.ha_master_address)
        if self.broker_role != SLAVE:
            self.broker_id = 0
        elif self.broker_id < 1:
            raise ConfigError(f"brokerId is {self.broker_id}: a SLAVE needs one of its own, 1 or more")

    @property
    def is_slave(self) -> bool:
        return self.broker_role == SLAVE

    @property
    def namesrv_addresses(self) -> tuple[str, ...]:
        """The addresses of the name servers, as ``host:port``."""
        return tuple(filter(None, (part.strip() for part in re.split("[;,]", self.namesrv_addr))))

    @property
    def store_root(self) -> Path:
        return Path(self.store_path_root_dir).expanduser()

    def ignored_text(self) -> str:
        """Return the settings without effect for a log line, sorted by key; values of secrets are left out."""
        return ", ".join(
            java_config.escape_controls(key if _SECRET.search(key) else f"{key}={text}")
            for key, text in sorted(self.ignored.items())
        )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str] | Iterable[str], **overrides: Any) -> Self:
        """Build the broker's configuration from a broker.conf as a mapping or as lines; see :func:`configure`."""
        broker, _ = configure(properties, **overrides)
        return typing.cast("Self", broker)


def configure(properties: Mapping[str, str] | Iterable[str], **overrides: Any) -> tuple[BrokerConfig, StoreConfig]:
    """Build the configurations of the broker and of its store from a broker.conf, given as a mapping or as lines.

    Keys of Apache RocketMQ that have no meaning here are accepted without effect; they are in ``BrokerConfig.ignored``.

    :param overrides: fields by their Python names; they take precedence over the broker.conf.
    :raises ConfigError: unknown keys, each with the nearest known one; values of the wrong type or out of range;
        settings that select a storage or a durability feature which this broker does not have (:mod:`~.unsupported`).
    """
    settings = dict(properties) if isinstance(properties, Mapping) else read_properties(properties)
    faults = [fault for key, text in settings.items() if (fault := setting_fault(key, text))]
    faults += unsupported_settings(settings)
    faults = faults or range_faults(settings, own_keys())
    if faults:
        raise ConfigError("; ".join(faults))
    broker = {name: _value(BrokerConfig, name, key, settings[key]) for key, name in _known(BrokerConfig, settings)}
    store = {name: _value(StoreConfig, name, key, settings[key]) for key, name in _known(StoreConfig, settings)}
    broker["ignored"] = {key: text for key, text in settings.items() if key not in own_keys()}
    names = StoreConfig.__struct_fields__
    broker |= {name: value for name, value in overrides.items() if name not in names}
    store |= {name: value for name, value in overrides.items() if name in names}
    return _build(BrokerConfig, broker), _build(StoreConfig, store)


def setting_fault(key: str, text: str) -> str | None:
    """Return an error message if a key is unknown or its value has the wrong type, otherwise None."""
    kind = own_keys().get(key)
    if kind is None:
        if key in OTHER_KEYS:
            return None
        default = JAVA_DEFAULTS.get(key)
        if default is None:
            return java_config.unknown_key(key, {*JAVA_DEFAULTS, *own_keys()})
        kind = java_config.value_type(default)
    return java_config.value_fault(key, text, kind)


def is_known(key: str) -> bool:
    """True if Apache RocketMQ's broker or this one has a setting of that name."""
    return key in own_keys() or key in JAVA_DEFAULTS or key in OTHER_KEYS


@cache
def own_keys() -> dict[str, type]:
    """Return the keys that have an effect here, with the types of their values."""
    return {key: _types(cls)[name] for cls in (BrokerConfig, StoreConfig) for key, name in _fields(cls).items()}


def java_key(field: str) -> str:
    """Return the broker.conf key of a field of ``BrokerConfig`` or ``StoreConfig``."""
    return _ODD_KEYS.get(field) or re.sub("_([a-z0-9])", lambda found: found[1].upper(), field)


def java_settings(config: msgspec.Struct) -> dict[str, str]:
    """Return all fields of a configuration as keys of a broker.conf and values as text."""
    return {key: _text(getattr(config, name)) for key, name in _fields(type(config)).items()}


@cache
def _fields(cls: type[msgspec.Struct]) -> dict[str, str]:
    return {java_key(name): name for name in cls.__struct_fields__ if name != "ignored"}


def _known(cls: type[msgspec.Struct], settings: Mapping[str, str]) -> list[tuple[str, str]]:
    fields = _fields(cls)
    return [(key, fields[key]) for key in settings if key in fields]


@cache
def _types(cls: type[msgspec.Struct]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _value(cls: type[msgspec.Struct], field: str, key: str, text: str) -> Any:
    wanted = _types(cls)[field]
    try:
        return msgspec.convert(text.lower() if wanted is bool else text, wanted, strict=False)
    except msgspec.ValidationError as e:
        raise ConfigError(f"{key} is {text!r}: {e}") from e


def _build(cls: type[Any], values: dict[str, Any]) -> Any:
    odd = values.keys() - set(cls.__struct_fields__)
    if odd:
        raise ConfigError(java_config.unknown_key(min(odd), cls.__struct_fields__))
    return cls(**values)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
