"""Which addresses may connect to the HA port: the setting ``haAllowedSlaves``."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from rocketmq_py.errors import ConfigError

Network = IPv4Network | IPv6Network


def parse_allowed_slaves(text: str) -> tuple[Network, ...]:
    """The networks of a list of addresses and CIDR blocks, separated by commas, semicolons or spaces.

    :raises ConfigError: an entry is neither an address nor a block.
    """
    networks: list[Network] = []
    for entry in filter(None, re.split(r"[,;\s]+", text)):
        try:
            networks.append(ip_network(entry, strict=False))
        except ValueError:
            raise ConfigError(
                f"haAllowedSlaves contains {entry!r}: IP addresses and CIDR blocks such as 10.0.0.0/24 are expected"
            ) from None
    return tuple(networks)


def is_allowed_slave(host: str, allowed: tuple[Network, ...]) -> bool:
    """True if a slave at this IP address may connect; an empty list allows every address."""
    if not allowed:
        return True
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address.version == network.version and address in network for network in allowed)
