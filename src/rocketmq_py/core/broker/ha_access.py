"""The setting ``haAllowedSlaves``: addresses from which slaves may connect to a master's HA port."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from rocketmq_py.errors import ConfigError

Network = IPv4Network | IPv6Network


def parse_allowed_slaves(text: str) -> tuple[Network, ...]:
    """Parse a list of IP addresses and CIDR blocks, separated by commas, semicolons or white space.

    :raises ConfigError: an entry is neither an address nor a CIDR block.
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
    """Return True if a slave at the IP address ``host`` may connect; an empty ``allowed`` allows every address."""
    if not allowed:
        return True
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address.version == network.version and address in network for network in allowed)
