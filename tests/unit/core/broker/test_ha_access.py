"""The allow list of the HA port."""

from __future__ import annotations

import pytest

from rocketmq_py.core.broker.ha_access import is_allowed_slave, parse_allowed_slaves
from rocketmq_py.errors import ConfigError


@pytest.mark.parametrize(
    ("allowed", "host", "expected"),
    [
        ("", "203.0.113.9", True),
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.8", False),
        ("10.0.0.0/24, 192.168.1.1", "10.0.0.255", True),
        ("10.0.0.0/24;192.168.1.1", "192.168.1.1", True),
        ("10.0.0.5/24", "10.0.0.200", True),
        ("10.0.0.0/24", "10.0.1.0", False),
        ("10.0.0.0/24", "::ffff:10.0.0.9", True),
        ("10.0.0.0/24", "fe80::1", False),
        ("fe80::/10", "fe80::1%eth0", True),
        ("0.0.0.0/0", "::1", False),
    ],
)
def test_addresses_are_matched_with_the_list(allowed: str, host: str, expected: bool) -> None:
    assert is_allowed_slave(host, parse_allowed_slaves(allowed)) is expected


@pytest.mark.parametrize("text", ["localhost", "10.0.0.0/33", "10.0.0", "10.0.0.1-10.0.0.9"])
def test_an_invalid_address_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse_allowed_slaves(f"10.0.0.1, {text}")
