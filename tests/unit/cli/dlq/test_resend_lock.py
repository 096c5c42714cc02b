"""The lock of ``rocketmq dlq resend``."""

import asyncio

import pytest

from rocketmq_py.cli.dlq.resend_lock import ResendLock
from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.errors import ConnectError
from rocketmq_py.model import MessageQueue
from tests.unit.cli.memory_admin import MemoryAdmin

Q0, Q1 = MessageQueue("%DLQ%g", "broker-a", 0), MessageQueue("%DLQ%g", "broker-a", 1)
LOCK, UNLOCK = (
    [(f"{verb}_queue", "TOOLS_CONSUMER", queue) for queue in (Q0, Q1)] for verb in ("lock", "unlock")
)  # fmt: skip


@pytest.fixture
def admin():
    return MemoryAdmin()


@pytest.fixture
def now():
    return [100.0]


@pytest.fixture
def lock(admin, now):
    return ResendLock(admin, [Q1, Q0], lambda: now[0])


def test_queues_are_locked_in_order_and_released(admin, lock):
    asyncio.run(lock.acquire())
    assert admin.changes == LOCK
    asyncio.run(lock.release())
    assert admin.changes == LOCK + UNLOCK
    asyncio.run(lock.release())
    assert admin.changes == LOCK + UNLOCK, "a lock that is free is not released again"


def test_a_lock_is_renewed_after_twenty_seconds(admin, lock, now):
    asyncio.run(lock.acquire())
    now[0] += 19.9
    asyncio.run(lock.acquire())
    assert admin.changes == LOCK
    now[0] += 0.1
    asyncio.run(lock.acquire())
    assert admin.changes == LOCK * 2
    now[0] += 19.9
    asyncio.run(lock.acquire())
    assert admin.changes == LOCK * 2
    asyncio.run(lock.release())
    assert admin.changes == LOCK * 2 + UNLOCK, "renewed locks are released once"


def test_another_run_refuses_this_one(admin, lock):
    admin.locked_elsewhere.add(Q1)
    with pytest.raises(CommandFailure, match=r"another run is sending the dead letters of %DLQ%g\. Wait for it") as e:
        asyncio.run(lock.acquire())
    assert e.value.exit_code == 1
    asyncio.run(lock.release())
    assert admin.changes == [*LOCK, UNLOCK[0]], "the lock of another run stays"


def test_a_broker_that_cannot_be_reached_does_not_keep_the_other_locks(admin, lock, capsys, monkeypatch):
    asyncio.run(lock.acquire())
    unlock = admin.unlock_queue

    async def unlock_queue(group, queue):
        await unlock(group, queue)
        if queue == Q0:
            raise ConnectError("refused")

    monkeypatch.setattr(admin, "unlock_queue", unlock_queue)
    asyncio.run(lock.release())
    assert admin.changes == LOCK + UNLOCK
    assert capsys.readouterr().err == f"{Q0} stays locked for a minute: refused\n"
