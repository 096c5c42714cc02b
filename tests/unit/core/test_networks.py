"""Lists of networks in settings."""

from __future__ import annotations

import pytest

from rocketmq_py.core.networks import is_in_networks, parse_networks
from rocketmq_py.errors import ConfigError


@pytest.mark.parametrize(
    ("networks", "host", "expected"),
    [
        ("", "203.0.113.9", False),
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.0/24, 192.168.1.1", "192.168.1.1", True),
        ("10.0.0.0/24;192.168.1.1", "10.0.1.0", False),
        ("10.0.0.5/24", "10.0.0.9", True),
        ("10.0.0.0/24", "::ffff:10.0.0.9", True),
        ("fe80::/10", "fe80::1%eth0", True),
        ("0.0.0.0/0", "::1", False),
    ],
)
def test_addresses_are_matched_with_the_list(networks: str, host: str, expected: bool) -> None:
    assert is_in_networks(host, parse_networks(networks, "aKey")) is expected


def test_an_entry_that_is_no_network_is_named_with_its_key() -> None:
    with pytest.raises(ConfigError, match=r"^aKey contains 'localhost': IP addresses and CIDR blocks such as"):
        parse_networks("10.0.0.1, localhost", "aKey")
