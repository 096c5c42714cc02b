"""The settings of a broker under Apache RocketMQ's own names (BrokerConfig), and how a broker.conf becomes them.

Knows keys, defaults and which values can never work. Refuses to know what the settings do.
"""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

import msgspec

from rocketmq_py.broker.javakeys import JAVA_KEYS
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.sysflag import PERM_RW
from rocketmq_py.store import StoreConfig

DEFAULT_STORE = "~/store"


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals and timeouts are milliseconds.

    :param broker_id: 0 is the master.
    :param listen_port: 0 picks a free port.
    :param bind_address: the address to listen on; ``broker_ip1`` is the one clients are told.
    :param namesrv_addr: name servers, separated by ``;``; empty for none.
    :param store_path_root_dir: where messages and configuration are kept.
    :param broker_permission: 4 read, 2 write; without write permission order topics refuse messages.
    :param transaction_check_interval: between checks of open transactions; 30 s as in Apache RocketMQ from 5.1.4 on,
        where earlier versions, and much that is written about them, have 60 s.
    :param transaction_time_out: how old a half message without an immunity time of its own must be to be checked.
    :param transaction_check_max: so many checks without an end, and a half message is given up.
    :param transaction_op_batch_interval: how long the ends of transactions are gathered before they are written down
        together; 0 writes each at once. A crash meanwhile makes the broker ask again.
    :param transaction_op_msg_max_size: so many bytes of them are written down at once.
    :raises ConfigError: a value that can never work.
    """

    broker_name: str = "broker-a"
    broker_cluster_name: str = "DefaultCluster"
    broker_id: int = 0
    listen_port: int = 10911
    bind_address: str = "0.0.0.0"  # noqa: S104 - as Java's
    broker_ip1: str = "127.0.0.1"
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
    use_server_side_reset_offset: bool = True
    consumer_offset_update_version_step: int = 500
    delay_offset_update_version_step: int = 200
    flush_consumer_offset_interval: int = 5_000
    flush_delay_offset_interval: int = 10_000
    sync_flush_timeout: int = 5_000

    reject_transaction_message: bool = False
    transaction_time_out: int = 6_000
    transaction_check_max: int = 15
    transaction_check_interval: int = 30_000
    transaction_op_msg_max_size: int = 4096
    transaction_op_batch_interval: int = 3_000

    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 24_000
    start_accept_send_request_time_stamp: int = 0
    server_channel_max_idle_time_seconds: int = 120

    def __post_init__(self) -> None:
        if not 0 <= self.listen_port <= 65535:
            raise ConfigError(f"listenPort is {self.listen_port}: 0 to 65535 is expected")
        if self.transaction_check_interval < 1:
            raise ConfigError(f"transactionCheckInterval is {self.transaction_check_interval}: at least 1 is expected")
        if self.broker_id < 0:
            raise ConfigError(f"brokerId is {self.broker_id}: 0 (master) or more is expected")
        for key, name in (("brokerName", self.broker_name), ("brokerClusterName", self.broker_cluster_name)):
            if not re.fullmatch(r"[%|a-zA-Z0-9_-]+", name):
                raise ConfigError(f"{key} is {name!r}: letters, digits, '-', '_', '%' and '|' are allowed")
        for address in self.namesrv_addresses:
            parse_address(address)

    @property
    def namesrv_addresses(self) -> tuple[str, ...]:
        """The name servers one by one."""
        return tuple(filter(None, (part.strip() for part in re.split("[;,]", self.namesrv_addr))))

    @property
    def store_root(self) -> Path:
        return Path(self.store_path_root_dir).expanduser()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str] | Iterable[str], **overrides: Any) -> Self:
        """The broker's part of a broker.conf, given as a mapping or as lines. See :func:`read_properties`."""
        broker, _ = configure(properties, **overrides)
        return typing.cast("Self", broker)


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``.

    :raises ConfigError: it is not of that form.
    """
    host, _, port = address.strip().rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{address!r} is no address: host:port is expected, for example 127.0.0.1:9876")
    return host.strip("[]"), int(port)


def read_properties(lines: Iterable[str]) -> dict[str, str]:
    """Keys and values of the lines of a properties file: ``key=value``; ``#`` and ``!`` start a comment.

    :raises ConfigError: a line is neither.
    """
    found: dict[str, str] = {}
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        if not line or line[0] in "#!":
            continue
        key, separator, value = line.partition("=")
        if not separator:
            raise ConfigError(f"line {number}: {line!r} is no setting: key=value is expected")
        found[key.strip()] = value.strip()
    return found


def configure(properties: Mapping[str, str] | Iterable[str], **overrides: Any) -> tuple[BrokerConfig, StoreConfig]:
    """Both configurations of a broker.conf, given as a mapping or as lines.

    Keys of Apache RocketMQ that have no meaning here are accepted without effect.

    :param overrides: fields by their Python names, which win.
    :raises ConfigError: an unknown key, named with the nearest known one, or a value of the wrong kind.
    """
    settings = dict(properties) if isinstance(properties, Mapping) else read_properties(properties)
    for key in settings:
        if key not in JAVA_KEYS and key not in _fields(BrokerConfig) and key not in _fields(StoreConfig):
            raise ConfigError(f"unknown setting {key!r}{_nearest(key)}")
    broker = {name: _value(BrokerConfig, name, key, settings[key]) for key, name in _known(BrokerConfig, settings)}
    store = {name: _value(StoreConfig, name, key, settings[key]) for key, name in _known(StoreConfig, settings)}
    names = StoreConfig.__struct_fields__
    broker |= {name: value for name, value in overrides.items() if name not in names}
    store |= {name: value for name, value in overrides.items() if name in names}
    return _build(BrokerConfig, broker), _build(StoreConfig, store)


def java_key(field: str) -> str:
    """The key of a field in a broker.conf."""
    return {"broker_ip1": "brokerIP1"}.get(field) or re.sub("_([a-z0-9])", lambda found: found[1].upper(), field)


def java_lines(config: msgspec.Struct) -> list[str]:
    """A configuration as ``key=value`` lines."""
    return [f"{java_key(name)}={_text(getattr(config, name))}" for name in config.__struct_fields__]


@cache
def _fields(cls: type[msgspec.Struct]) -> dict[str, str]:
    return {java_key(name): name for name in cls.__struct_fields__}


def _known(cls: type[msgspec.Struct], settings: Mapping[str, str]) -> list[tuple[str, str]]:
    fields = _fields(cls)
    return [(key, fields[key]) for key in settings if key in fields]


def _nearest(key: str) -> str:
    known = sorted(JAVA_KEYS | _fields(BrokerConfig).keys() | _fields(StoreConfig).keys())
    lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(key.lower(), lower, n=1, cutoff=0.6)
    return f"; did you mean {lower[near[0]]!r}?" if near else ""


@cache
def _types(cls: type[msgspec.Struct]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _value(cls: type[msgspec.Struct], field: str, key: str, text: str) -> Any:
    wanted = _types(cls)[field]
    try:
        return msgspec.convert(text.lower() if wanted is bool else text, wanted, strict=False)
    except msgspec.ValidationError as e:
        kind = {int: "a whole number", bool: "true or false"}.get(wanted, "a text")
        raise ConfigError(f"{key} is {text!r}: {kind} is expected") from e


def _build(cls: type[Any], values: dict[str, Any]) -> Any:
    unknown = values.keys() - set(cls.__struct_fields__)
    if unknown:
        raise ConfigError(f"unknown setting {min(unknown)!r}{_nearest(java_key(min(unknown)))}")
    return cls(**values)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
