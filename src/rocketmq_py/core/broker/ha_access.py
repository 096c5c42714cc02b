"""The setting ``haAllowedSlaves``: addresses from which slaves may connect to a master's HA port."""

from __future__ import annotations

from rocketmq_py.core.networks import Network, is_in_networks, parse_networks


def parse_allowed_slaves(text: str) -> tuple[Network, ...]:
    """Parse the setting.

    :raises ConfigError: an entry is neither an IP address nor a CIDR block.
    """
    return parse_networks(text, "haAllowedSlaves")


def is_allowed_slave(host: str, allowed: tuple[Network, ...]) -> bool:
    """Return True if a slave at the IP address ``host`` may connect; an empty ``allowed`` allows every address."""
    return not allowed or is_in_networks(host, allowed)
