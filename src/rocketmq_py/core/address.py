"""Parsing of addresses ``host:port``."""

from __future__ import annotations

from rocketmq_py.errors import ConfigError


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of ``host:port``; an IPv6 address is in brackets.

    :raises ConfigError: the text has another form.
    """
    host, _, port = address.strip().rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{address!r} is not an address: host:port is expected, for example 127.0.0.1:9876")
    return host.strip("[]"), int(port)
