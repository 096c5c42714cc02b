"""Sends that wait for the disk and for slaves: which, how long, and what is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.send.ack_waiter import ACK_WAIT, AckWaiter, WaitingSends
from rocketmq_py.core.broker.put_times import PutTimes
from rocketmq_py.errors import BrokerError
from rocketmq_py.server import Hold, Peer, Reply, Responder

NO_WAIT = "A\x011\x02WAIT\x01false\x02"


class Site:
    """A store whose flushes and slaves are in the test's hands."""

    def __init__(self, flush: str = "SYNC_FLUSH", wanted: int | None = 0, **config: Any) -> None:
        self.config = BrokerConfig(broker_role="SYNC_MASTER", **config)
        self.now = 1_000
        self.flushed = 0
        self.wanted = wanted
        self.acknowledged: dict[int, int] = {}
        self.flushes: list[tuple[int, asyncio.Future[None]]] = []
        self.store: Any = SimpleNamespace(
            config=SimpleNamespace(flush_disk_type=flush), flushed=self.flush, flushed_offset=0
        )
        self.waiter = AckWaiter(self.store, self.config, lambda: self.wanted, lambda: self.now)
        self.times = PutTimes(0)
        self.sends = WaitingSends(
            self.store, self.config, lambda: self.now, lambda count: self.acknowledged[count], self.times
        )

    def flush(self, offset: int) -> asyncio.Future[None] | None:
        if offset <= self.store.flushed_offset:
            return None
        self.flushes.append((offset, asyncio.get_running_loop().create_future()))
        return self.flushes[-1][1]

    async def flush_done(self, end: int) -> None:
        _, future = self.flushes.pop(0)
        self.store.flushed_offset = end
        future.set_result(None)
        await asyncio.sleep(0)

    def keep(self, end: int) -> list[tuple[int, str | None]]:
        """A send that waits; what is answered is added to the list."""
        hold = self.waiter.answer(Reply(remark=f"up to {end}", ext={"queueId": "1"}), end, None)
        assert isinstance(hold, Hold)
        heard: list[tuple[int, str | None]] = []
        self.sends.keep(hold, Recorder(heard))
        return heard


class Recorder(Responder):
    """Notes replies instead of sending them."""

    __slots__ = ("heard",)

    def __init__(self, heard: list[tuple[int, str | None]]) -> None:
        super().__init__(Peer(("127.0.0.1", 1), ("127.0.0.1", 2), lambda _: None), 7)
        self.heard = heard

    def encode(self, reply: Reply) -> bytes:
        self.heard.append((int(reply.code), reply.remark))
        return super().encode(reply)


def played(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


# -- which sends wait


@pytest.mark.parametrize(
    ("flush", "role", "needed"),
    [
        ("ASYNC_FLUSH", "ASYNC_MASTER", False),
        ("SYNC_FLUSH", "ASYNC_MASTER", True),
        ("ASYNC_FLUSH", "SYNC_MASTER", True),
    ],
)
def test_only_some_brokers_have_sends_that_wait(flush: str, role: str, needed: bool) -> None:
    store: Any = SimpleNamespace(config=SimpleNamespace(flush_disk_type=flush))
    assert (AckWaiter.of(store, BrokerConfig(broker_role=role), lambda: 0, lambda: 0) is not None) is needed


@pytest.mark.parametrize(
    ("flush", "wanted", "properties", "waits"),
    [
        ("SYNC_FLUSH", 0, None, True),
        ("SYNC_FLUSH", 0, "A\x011\x02", True),
        ("SYNC_FLUSH", 0, NO_WAIT, False),
        ("ASYNC_FLUSH", 1, None, True),
        ("ASYNC_FLUSH", 1, NO_WAIT, False),
        ("ASYNC_FLUSH", 0, None, False),
        ("ASYNC_FLUSH", None, None, True),
    ],
)
def test_a_send_waits_for_what_is_asked(flush: str, wanted: int | None, properties: str | None, waits: bool) -> None:
    site = Site(flush, wanted, in_sync_replicas=3, sync_flush_timeout=50, slave_timeout=70)
    reply = Reply()
    answer = site.waiter.answer(reply, 100, properties)
    if not waits:
        assert answer is reply
        return
    assert isinstance(answer, Hold)
    assert (answer.key, answer.deadline_ms) == (ACK_WAIT, 1_070)
    slaves = 2 if wanted is None else wanted
    assert (answer.payload.reply, answer.payload.end, answer.payload.since_ms, answer.payload.slaves) == (
        reply, 100, 1_000, slaves,
    )  # fmt: skip
    assert answer.payload.late is None


def test_records_of_the_broker_itself_are_answered_the_same_when_late() -> None:
    reply = Reply()
    hold = Site().waiter.answer_regardless(reply, 100)
    assert isinstance(hold, Hold)
    assert hold.payload.late is reply
    assert Site("ASYNC_FLUSH").waiter.answer_regardless(reply, 100) is reply


@pytest.mark.parametrize(
    ("wanted", "properties", "refused"),
    [(None, None, True), (None, NO_WAIT, False), (0, None, False), (2, None, False)],
)
def test_a_send_without_enough_replicas_is_refused(wanted: int | None, properties: str | None, refused: bool) -> None:
    site = Site(wanted=wanted)
    if refused:
        with pytest.raises(BrokerError) as error:
            site.waiter.check(properties)
        assert (error.value.code, error.value.remark) == (1, "in-sync replicas not enough")
    else:
        site.waiter.check(properties)


# -- waiting


def test_sends_are_answered_when_they_are_on_disk() -> None:
    async def test() -> None:
        site = Site()
        first = site.keep(100)
        second, third = site.keep(200), site.keep(300)
        assert [offset for offset, _ in site.flushes] == [100]
        assert len(site.sends) == 3
        await site.flush_done(200)
        assert (first, second, third) == ([(0, "up to 100")], [(0, "up to 200")], [])
        assert [offset for offset, _ in site.flushes] == [300]
        await site.flush_done(300)
        assert (third, len(site.sends), site.flushes) == ([(0, "up to 300")], 0, [])

    played(test)


def test_what_is_on_disk_already_is_answered_at_once() -> None:
    async def test() -> None:
        site = Site()
        site.store.flushed_offset = 100
        assert site.keep(100) == [(0, "up to 100")]

    played(test)


def test_a_send_waits_for_the_disk_and_for_its_slaves() -> None:
    async def test() -> None:
        site = Site(wanted=2)
        site.acknowledged = {1: 100, 2: 50}
        two = site.keep(100)
        site.wanted = 1
        one = site.keep(100)
        await site.flush_done(100)
        assert (one, two) == ([(0, "up to 100")], [])
        site.acknowledged[2] = 99
        site.sends.release()
        assert two == []
        site.acknowledged[2] = 100
        site.sends.release()
        assert two == [(0, "up to 100")]

    played(test)


def test_slaves_that_have_it_do_not_replace_the_disk() -> None:
    async def test() -> None:
        site = Site(wanted=1)
        site.acknowledged = {1: 1_000}
        heard = site.keep(100)
        site.sends.release()
        assert heard == []
        await site.flush_done(100)
        assert heard == [(0, "up to 100")]

    played(test)


def test_a_flush_that_fails_is_an_answer() -> None:
    async def test() -> None:
        site = Site()
        heard = site.keep(100)
        site.flushes.pop(0)[1].set_exception(OSError("the disk is gone"))
        await asyncio.sleep(0)
        assert heard == [(10, "the disk is gone")]
        assert len(site.sends) == 0

    played(test)


@pytest.mark.parametrize(
    ("wanted", "flushed", "acknowledged", "after_ms", "code"),
    [
        (0, False, 0, 50, 10),
        (1, False, 0, 70, 12),
        (1, False, 1_000, 70, 10),
        (1, True, 0, 70, 12),
    ],
)
def test_a_send_that_is_late_is_answered_with_what_it_lacks(
    wanted: int, flushed: bool, acknowledged: int, after_ms: int, code: int
) -> None:
    async def test() -> None:
        site = Site(wanted=wanted, sync_flush_timeout=50, slave_timeout=70)
        site.acknowledged = {1: acknowledged}
        heard = site.keep(100)
        if flushed:
            await site.flush_done(100)
        site.now += after_ms - 1
        site.sends._expire()
        assert heard == []
        site.now += 1
        site.sends._expire()
        assert heard == [(code, None)]

    played(test)


def test_a_timer_answers_late_sends() -> None:
    async def test() -> None:
        site = Site(sync_flush_timeout=5_000)
        heard = site.keep(100)
        assert site.sends._timer is not None
        site.now += 5_000
        await asyncio.sleep(0.9)
        assert heard == []
        await asyncio.sleep(0.2)
        assert heard == [(10, None)], "the clock is looked at every second"
        assert site.sends._timer is None
        site.keep(200)
        assert site.sends._timer is not None

    played(test)


def test_how_long_sends_waited_is_counted() -> None:
    async def main() -> None:
        site = Site(sync_flush_timeout=5_000)
        site.keep(10)
        hold = site.waiter.answer_regardless(Reply(), 10)
        assert isinstance(hold, Hold)
        site.sends.keep(hold, Recorder([]))  # a record of the broker's own
        site.now += 60
        await site.flush_done(10)
        site.times.tick(60_000)
        assert "[50~100ms]:1 [100~200ms]:0 " in (site.times.distribution() or "")
        assert site.times.longest_ms == 60
        site.keep(20)
        site.now += 5_000
        site.sends._expire()
        site.times.tick(120_000)
        assert "[50~100ms]:0 " in (site.times.distribution() or "")
        assert "[5~10s]:1 " in (site.times.distribution() or "")

    played(main)


def test_sends_of_a_run_wait_together() -> None:
    async def main() -> None:
        site = Site(sync_flush_timeout=5_000)
        heard: list[tuple[int, str | None]] = []
        for end, sends in ((100, 3), (200, 4), (300, 5)):
            hold = site.waiter.hold_run(end, sends)
            assert hold is not None
            assert (hold.key, hold.deadline_ms) == (ACK_WAIT, 6_000)
            site.sends.keep(hold, Recorder(heard))
        assert len(site.sends) == 12
        site.now += 60
        await site.flush_done(100)
        assert (heard, len(site.sends)) == ([(0, None)], 9)
        site.now += 4_940
        site.sends._expire()
        assert (heard[1:], len(site.sends)) == ([(10, None)] * 2, 0)
        site.times.tick(60_000)
        assert "[50~100ms]:3 " in (site.times.distribution() or "")
        assert "[5~10s]:9 " in (site.times.distribution() or "")
        await site.flush_done(300)
        hold = site.waiter.hold_run(400, 6)
        assert hold is not None
        site.sends.keep(hold, Recorder(heard))
        site.flushes.pop(0)[1].set_exception(OSError("the disk is gone"))
        await asyncio.sleep(0)
        assert (heard[3:], len(site.sends)) == ([(10, "the disk is gone")], 0)

    played(main)


def test_a_run_need_not_wait_where_nothing_is_waited_for() -> None:
    assert Site("ASYNC_FLUSH").waiter.hold_run(100, 2) is None
    assert Site("ASYNC_FLUSH", 1).waiter.hold_run(100, 2) is not None
    assert Site(wanted=None).waiter.lacks_replicas()
    assert not Site(wanted=0).waiter.lacks_replicas()
