"""Timed messages that other masters do not take: what is tried again when, and what is logged."""

from __future__ import annotations

import asyncio
import itertools
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketmq_py.broker.acting.timer_escape import TimerEscape
from rocketmq_py.broker.cluster.escape_bridge import EscapeBridge
from rocketmq_py.broker.pop.slave import SlaveReviveLog
from rocketmq_py.broker.timer.slave_timers import SlaveTimers
from rocketmq_py.errors import BrokerError, ConnectionLost, NoRouteError, RocketMQError

REVIVE = "revive"


class Timers:
    """Entries are names; their topic is the first letter. A name that ends with "-" has no message any more."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.untried: list[str] = []
        self.taken: list[tuple[str, str | None]] = []
        self.later: dict[str, int] = {}
        self.put: list[set[str]] = []
        self.acts: list[bool] = []

    def due(self, now: int, most: int) -> list[str]:
        del now
        found, self.waiting = self.waiting[:most], self.waiting[most:]
        return found

    def untaken(self) -> list[str]:
        return list(self.later)

    def escaped_message(self, entry: str, now: int) -> Any:
        del now
        topic = REVIVE if entry.startswith("revive") else entry[0]
        record = SimpleNamespace(topic=topic, body=entry.encode(), properties=b"TAGS\x01ck\x02")
        return None if entry.endswith("-") else SimpleNamespace(record=record, key=entry, queue_offset=7)

    def mark_taken(self, entry: str, topic: str | None, now: int) -> None:
        assert now == 1_000
        self.later.pop(entry, None)
        self.taken.append((entry, topic))

    def mark_untaken(self, entry: str, again: int) -> None:
        self.later[entry] = again

    def put_back(self, entries: set[str]) -> None:
        self.put.append(set(entries))

    def start_acting(self) -> None:
        self.acts.append(True)

    def stop_acting(self) -> None:
        self.acts.append(False)


class Bench:
    """``faults`` are raised for messages by their names; revive entries are done if they are in ``done``."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.faults: dict[str, RocketMQError] = {}
        self.sent: list[str] = []
        self.applied: list[tuple[str, bytes, int]] = []
        self.done: set[bytes] = set()
        log = SimpleNamespace(topic=REVIVE, apply_timer_entry=self._apply)
        self.subject = TimerEscape(
            cast("SlaveTimers", self.timers), cast("EscapeBridge", self), cast("SlaveReviveLog", log), lambda: 1_000
        )

    def _apply(self, tag: str, body: bytes, offset: int) -> bool:
        self.applied.append((tag, body, offset))
        return body in self.done

    async def put(self, record: Any, key: str) -> None:
        self.sent.append(key)
        await asyncio.sleep(0)
        if key in self.faults:
            raise self.faults[key]

    async def send(self, *entries: str, now: int = 1_000) -> bool:
        self.timers.waiting += entries
        return await self.subject.send_due(now)


async def test_messages_are_sent_and_marked() -> None:
    bench = Bench()
    assert await bench.send("a1", "b1", "a2", "c-") is False
    assert sorted(bench.sent) == ["a1", "a2", "b1"]
    assert sorted(bench.timers.taken, key=str) == [("a1", "a"), ("a2", "a"), ("b1", "b"), ("c-", None)]
    assert bench.timers.put == [set()]


@pytest.mark.parametrize(("count", "more"), [(63, False), (64, True), (65, True)])
async def test_at_most_sixty_four_are_sent_at_once(count: int, more: bool) -> None:
    bench = Bench()
    assert await bench.send(*(f"a{n}" for n in range(count))) is more
    assert len(bench.sent) == min(count, 64)


@pytest.mark.parametrize("fault", [NoRouteError("nobody has it"), ConnectionLost("it has gone")])
async def test_a_topic_that_nobody_takes_is_tried_once(fault: RocketMQError) -> None:
    bench = Bench()
    bench.faults["a1"] = fault
    await bench.send("a1", "a2", "b1")
    assert sorted(bench.sent) == ["a1", "b1"]
    assert bench.timers.later == {"a1": 2_000, "a2": 2_000}
    assert bench.timers.taken == [("b1", "b")]


async def test_a_message_that_is_refused_does_not_stop_its_topic() -> None:
    bench = Bench()
    bench.faults["a1"] = BrokerError.of(13, "too large")
    await bench.send("a1", "a2")
    assert sorted(bench.sent) == ["a1", "a2"]
    assert bench.timers.later == {"a1": 2_000}
    assert bench.timers.taken == [("a2", "a")]


async def test_untaken_messages_are_tried_again_once_a_second() -> None:
    bench = Bench()
    bench.faults["a1"] = NoRouteError("nobody has it")
    await bench.send("a1")
    assert bench.sent == ["a1"]
    for now in (1_001, 1_999):
        await bench.send(now=now)
    assert bench.sent == ["a1"]
    await bench.send(now=2_000)
    assert bench.sent == ["a1", "a1"]
    bench.faults.clear()
    await bench.send(now=3_000)
    assert (bench.sent, bench.timers.later) == (["a1"] * 3, {})


async def test_a_failure_is_logged_once_until_all_are_taken(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    with caplog.at_level(logging.WARNING):
        await bench.send("b1")
        assert not caplog.records
        bench.faults = {"a1": NoRouteError("nobody has a"), "c1": NoRouteError("nobody has c")}
        await bench.send("a1", "c1", now=2_000)
        await bench.send(now=3_000)
        del bench.faults["a1"]
        await bench.send(now=4_000)
        assert len(caplog.records) == 1
        bench.faults.clear()
        await bench.send(now=5_000)
        await bench.send(now=6_000)
        bench.faults["d1"] = NoRouteError("nobody has d")
        await bench.send("d1", now=7_000)
    said = [record.message for record in caplog.records]
    assert said[0].startswith("timed messages wait, no other master accepts them: nobody has")
    assert said[1:] == [
        "other masters accept all timed messages again",
        "timed messages wait, no other master accepts them: nobody has d",
    ]


async def test_entries_of_the_revive_log_are_applied_here() -> None:
    bench = Bench()
    bench.done = {b"revive1"}
    await bench.send("revive1", "revive2")
    assert bench.sent == []
    assert bench.applied == [("ck", b"revive1", 7), ("ck", b"revive2", 7)]
    assert bench.timers.taken == [("revive1", REVIVE)]
    assert bench.timers.later == {"revive2": 2_000}
    assert bench.timers.put == [set()]


async def test_what_is_under_way_at_a_stop_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    never = asyncio.Event()

    async def put(record: Any, key: str) -> None:
        del record
        bench.sent.append(key)
        if key == "a1":
            await never.wait()

    monkeypatch.setattr(bench, "put", put)
    bench.timers.waiting = ["a1", "a2", "b1"]
    task = asyncio.create_task(bench.subject.run())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.timers.put == [{"a1", "a2"}]
    assert bench.timers.acts == [True, False]


async def test_it_looks_for_due_messages_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    looks: list[float] = []
    loop = asyncio.get_running_loop()
    due = bench.timers.due

    def look(now: int, most: int) -> list[str]:
        looks.append(loop.time())
        return due(now, most)

    monkeypatch.setattr(bench.timers, "due", look)
    bench.timers.waiting = [f"a{n}" for n in range(130)]
    task = asyncio.create_task(bench.subject.run())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(bench.sent) == 130
    waits = [after - before for before, after in itertools.pairwise(looks)]
    assert min(waits[2:]) >= 0.02
    assert len(looks) > 10
