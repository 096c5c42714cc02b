"""Addresses as people write them."""

from __future__ import annotations

from rocketmq_py.errors import ConfigError


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; an IPv6 address stands in brackets.

    :raises ConfigError: it is not of that form.
    """
    host, _, port = address.strip().rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{address!r} is no address: host:port is expected, for example 127.0.0.1:9876")
    return host.strip("[]"), int(port)
