"""Addresses as people write them."""

import pytest

from rocketmq_py.core.address import parse_address
from rocketmq_py.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"), [("h:1", ("h", 1)), ("[::1]:9876", ("::1", 9876)), (" h:65535 ", ("h", 65535))]
)
def test_addresses_are_parsed(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "h", ":1", "h:", "h:0", "h:65536", "h:x"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="host:port is expected"):
        parse_address(text)
