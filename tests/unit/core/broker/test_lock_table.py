from __future__ import annotations

import pytest

from rocketmq_py.core.broker.lock_table import LockTable
from rocketmq_py.model import MessageQueue

Q0, Q1 = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


@pytest.fixture
def table() -> LockTable:
    return LockTable(max_live_ms=60_000)


def test_the_first_client_gets_the_lock_and_may_renew_it(table: LockTable) -> None:
    assert table.lock("g", "me", [Q0, Q1], 0) == [Q0, Q1]
    assert table.lock("g", "you", [Q0], 1) == []
    assert table.lock("g", "me", [Q0], 2) == [Q0]


def test_groups_have_separate_locks(table: LockTable) -> None:
    table.lock("g", "me", [Q0], 0)
    assert table.lock("h", "you", [Q0], 0) == [Q0]


def test_a_lock_that_is_not_renewed_expires(table: LockTable) -> None:
    table.lock("g", "me", [Q0], 0)
    assert table.lock("g", "you", [Q0], 60_000) == []
    assert table.lock("g", "you", [Q0], 60_001) == [Q0]
    assert table.lock("g", "me", [Q0], 60_002) == []


def test_a_renewed_lock_does_not_expire(table: LockTable) -> None:
    table.lock("g", "me", [Q0], 0)
    table.lock("g", "me", [Q0], 50_000)
    assert table.lock("g", "you", [Q0], 100_000) == []


def test_only_the_owner_can_unlock(table: LockTable) -> None:
    table.lock("g", "me", [Q0], 0)
    table.unlock("g", "you", [Q0])
    assert table.lock("g", "you", [Q0], 1) == []
    table.unlock("g", "me", [Q0, Q1])
    assert table.lock("g", "you", [Q0], 2) == [Q0]
    table.unlock("nobody", "me", [Q0])


def test_a_group_with_a_live_lock_consumes_in_order(table: LockTable) -> None:
    assert not table.is_ordered("g", 0)
    table.lock("g", "me", [Q0], 0)
    assert table.is_ordered("g", 60_000)
    assert not table.is_ordered("g", 60_001)
    table.unlock("g", "me", [Q0])
    assert not table.is_ordered("g", 0)
