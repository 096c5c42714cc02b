"""The settings of a name server under Apache RocketMQ's own names (NamesrvConfig), and their text form.

Knows keys, defaults and which may be changed from afar. Refuses to know what the settings do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rocketmq_py.errors import ConfigError


class NamesrvConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Intervals are milliseconds unless a name says seconds.

    :param listen_port: 0 picks a free port.
    :param bind_address: the address to listen on.
    :param kv_config_path: where the key-value table is kept; empty keeps it in memory only.
    :param config_store_path: where settings changed from afar are written; empty forgets them at the end.
    :param need_wait_for_service: answer no routes in the first ``wait_seconds_for_service``, while brokers register.
    :raises ConfigError: a value that can never work.
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
    need_wait_for_service: bool = False
    wait_seconds_for_service: int = 45
    scan_not_active_broker_interval: int = 5_000
    server_channel_max_idle_time_seconds: int = 120

    def __post_init__(self) -> None:
        if not 0 <= self.listen_port <= 65535:
            raise ConfigError(f"listenPort is {self.listen_port}: 0 to 65535 is expected")
        if self.scan_not_active_broker_interval < 1:
            raise ConfigError("scanNotActiveBrokerInterval must be at least 1")

    @classmethod
    def keys(cls) -> frozenset[str]:
        """All keys, as they are written in files and requests."""
        return frozenset(cls.__struct_encode_fields__)

    def updated(self, settings: Mapping[str, str]) -> NamesrvConfig:
        """This configuration with some keys changed; keys that are not known are ignored, as Java ignores them.

        :raises ConfigError: a value of the wrong kind.
        """
        now: dict[str, Any] = msgspec.to_builtins(self)
        now |= {key: value for key, value in settings.items() if key in now}
        try:
            return msgspec.convert(now, NamesrvConfig, strict=False)
        except msgspec.ValidationError as e:
            raise ConfigError(f"name server: {e}") from e

    def forbidden(self, settings: Mapping[str, str]) -> set[str]:
        """Those of the keys that nobody may change from afar."""
        return settings.keys() & {"configBlackList", "configStorePath", "kvConfigPath", *self._black_list()}

    def _black_list(self) -> list[str]:
        return self.config_black_list.split(";")

    def lines(self) -> str:
        """The text form: ``key=value`` lines."""
        settings = msgspec.to_builtins(self)
        return "".join(f"{key}={_text(value)}\n" for key, value in settings.items())


def read_lines(lines: Iterable[str]) -> dict[str, str]:
    """The settings of ``key=value`` lines, as java.util.Properties reads them where no escapes are used."""
    pairs = (re.split(r"\s*[=:]\s*", line.strip(), maxsplit=1) for line in lines if not re.match(r"\s*([#!]|$)", line))
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
