"""The state of a consumer, as operators see it."""

from __future__ import annotations

import asyncio
from time import time
from typing import Any

import pytest

from rocketmq_py.aio import ClientInstance
from rocketmq_py.client.consumer import running_info
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup, ConsumerState
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.model import MessageExt, MessageQueue

QUEUE = MessageQueue("t", "b", 0)


def messages(*offsets: int, size: int = 1) -> list[MessageExt]:
    heads = ((0, 0, 0, 0, 0, offset, offset, 0, 0, b"", 0, b"", 0, 0, size) for offset in offsets)
    return [MessageExt(head, "t", bytes(size), b"", "b") for head in heads]


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> ConsumerGroup:
    """A running group that owns a queue; its clock stands at 1,000 seconds."""

    async def make() -> ConsumerGroup:
        made = ConsumerGroup("g", ClientInstance("ns:1"), PushOptions())
        monkeypatch.setattr(made, "now", lambda: 1_000.0)
        made.state = ConsumerState.RUNNING
        made.queues[QUEUE] = made.make_queue(QUEUE)
        return made

    return asyncio.run(make())


def test_a_queue_is_described_as_in_java(group: ConsumerGroup) -> None:
    process = group.queues[QUEUE]
    process.put(messages(5, 6, 7, size=1 << 20))
    process.pulled_at, process.consumed_at = 990.0, 980.0
    [found] = running_info.running_info(group)["mqTable"].values()
    now = time() * 1000
    assert abs(found.pop("lastPullTimestamp") - (now - 10_000)) < 5_000
    assert abs(found.pop("lastConsumeTimestamp") - (now - 20_000)) < 5_000
    assert found == {
        "commitOffset": 0, "cachedMsgMinOffset": 5, "cachedMsgMaxOffset": 7, "cachedMsgCount": 3,
        "cachedMsgSizeInMiB": 3, "transactionMsgMinOffset": 0, "transactionMsgMaxOffset": 0, "transactionMsgCount": 0,
        "locked": False, "tryUnlockTimes": 0, "lastLockTimestamp": 0, "droped": False,
    }  # fmt: skip


def test_an_empty_queue_is_described_as_in_java(group: ConsumerGroup) -> None:
    [found] = running_info.running_info(group)["mqTable"].values()
    assert (found["cachedMsgMinOffset"], found["cachedMsgMaxOffset"], found["cachedMsgCount"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("change", "ok"),
    [
        ({}, True),
        ({"pulled_at": 940.1}, True),
        ({"pulled_at": 940.0}, False),
        ({"state": ConsumerState.CLOSING}, False),
        ({"state": ConsumerState.STARTING}, False),
        ({"problem": "a broker is gone"}, False),
    ],
)
def test_a_consumer_is_well_if_it_pulls_without_problems(
    group: ConsumerGroup, change: dict[str, Any], ok: bool
) -> None:
    group.queues[QUEUE].pulled_at = change.get("pulled_at", 999.0)
    group.state = change.get("state", group.state)
    if "problem" in change:
        group.problems["key"] = change["problem"]
    found = running_info.health(group)
    assert (found.ok, found.state, found.group) == (ok, group.state.value, "g")
    [queue] = found.queues
    assert (queue.queue, queue.held, queue.commit_offset) == (QUEUE, 0, None)
    assert queue.since_pull == 1_000.0 - group.queues[QUEUE].pulled_at
    assert found.problems == ([change["problem"]] if "problem" in change else [])


class Offsets:
    def __init__(self, known: int | None, stored: int | None) -> None:
        self.known, self.stored = known, stored

    def get(self, _: MessageQueue) -> int | None:
        return self.known

    async def fetch(self, _: MessageQueue) -> int | None:
        return self.stored

    async def min_offset(self, _: MessageQueue) -> int:
        return 2

    async def max_offset(self, _: MessageQueue) -> int:
        return 10


@pytest.mark.parametrize(
    ("known", "stored", "lag"), [(None, None, 8), (None, 4, 6), (7, 4, 3), (0, 4, 10), (None, 0, 10), (12, 4, 0)]
)
def test_lag_is_counted_from_memory_else_from_the_broker(
    group: ConsumerGroup, known: int | None, stored: int | None, lag: int
) -> None:
    group.offsets = Offsets(known, stored)  # type: ignore[assignment]
    assert asyncio.run(running_info.lag(group)) == {QUEUE: lag}
