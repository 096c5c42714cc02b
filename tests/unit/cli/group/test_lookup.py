"""A group that a command names."""

import asyncio

import pytest

from rocketmq_py.cli.group.lookup import existing_group
from rocketmq_py.cli.output.failures import CommandFailure
from tests.unit.cli.memory_admin import MemoryAdmin


def test_a_group_is_looked_up_on_all_brokers():
    admin = MemoryAdmin()
    admin.add_group("g")
    admin.add_group("g", "broker-b", retry_max_times=1)
    found = asyncio.run(existing_group(admin, "g"))
    assert {broker: config.retry_max_times for broker, config in found.items()} == {"broker-a": 16, "broker-b": 1}
    with pytest.raises(CommandFailure) as refused:
        asyncio.run(existing_group(admin, "h"))
    assert refused.value.exit_code == 3
