"""Allocation equals the tables recorded from Java's strategies."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.core.consumer.allocation import Allocation, Average, Circle, ConsistentHash
from rocketmq_py.model import MessageQueue
from tests.golden import files

STRATEGIES: dict[str, Allocation] = {s.name: s for s in (Average(), Circle(), ConsistentHash())}


def table(fact: dict[str, Any]) -> str:
    return f"{fact['strategy']}-{fact['queues']}-{fact['members']}"


@pytest.mark.parametrize("fact", files.facts("allocation"), ids=table)
def test_shares_equal_the_recorded_java_allocation(fact: dict[str, Any]) -> None:
    queues = [MessageQueue("t", "broker-a", i) for i in range(fact["queues"])]
    members = [f"c{i}" for i in range(fact["members"])]
    strategy = STRATEGIES[fact["strategy"]]
    owned = [[queue.queue_id for queue in strategy.allocate(me, queues, members)] for me in members]
    assert owned == fact["owned"]
