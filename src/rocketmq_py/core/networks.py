"""Settings that list networks, such as ``haAllowedSlaves``: which addresses they contain."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from rocketmq_py.errors import ConfigError

Network = IPv4Network | IPv6Network


def parse_networks(text: str, key: str) -> tuple[Network, ...]:
    """Parse a list of IP addresses and CIDR blocks, separated by commas, semicolons or white space.

    :param key: the name of the setting, for the error.
    :raises ConfigError: an entry is neither an address nor a CIDR block.
    """
    networks: list[Network] = []
    for entry in filter(None, re.split(r"[,;\s]+", text)):
        try:
            networks.append(ip_network(entry, strict=False))
        except ValueError:
            raise ConfigError(
                f"{key} contains {entry!r}: IP addresses and CIDR blocks such as 10.0.0.0/24 are expected"
            ) from None
    return tuple(networks)


def is_in_networks(host: str, networks: tuple[Network, ...]) -> bool:
    """Return True if one of the networks contains the IP address ``host``."""
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address.version == network.version and address in network for network in networks)
