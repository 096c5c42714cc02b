"""Sends that wait for the disk or for slaves: how long, what they are answered, and which need not wait."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.send.ack_waiter import AckWaiter, WaitingSends
from rocketmq_py.core.broker.put_times import PutTimes
from rocketmq_py.errors import BrokerError, StoreNotWritable
from rocketmq_py.server import Hold, Peer, Reply, Responder
from rocketmq_py.store import MessageStore, StoreConfig
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import FrameDecoder

DISK_TIMEOUT, SLAVE_TIMEOUT, SYSTEM_ERROR = 10, 12, 1


class Log:
    """The part of a store that sends wait for; ``flushed`` returns a future that the test completes."""

    def __init__(self, flush: str) -> None:
        self.config = StoreConfig(flush_disk_type=flush)
        self.flushed_offset = 0
        self.requests: list[int] = []
        self.futures: list[asyncio.Future[None]] = []

    def flushed(self, end: int) -> asyncio.Future[None] | None:
        self.requests.append(end)
        if self.flushed_offset >= end:
            return None
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    def flush(self, end: int) -> None:
        self.flushed_offset = end
        self.futures.pop(0).set_result(None)


class Bench:
    """``ends`` are the ends of the slaves' logs; ``wanted`` is how many a send needs, None if too few are there."""

    def __init__(self, flush: str = "SYNC_FLUSH", wanted: int | None = 0, **settings: Any) -> None:
        self.log = Log(flush)
        self.wanted = wanted
        self.ends: list[int] = []
        self.config = BrokerConfig(**{"broker_role": "SYNC_MASTER", "in_sync_replicas": 3} | settings)
        self._since = asyncio.get_running_loop().time()
        store = cast("MessageStore", self.log)
        self.waiter = AckWaiter(store, self.config, lambda: self.wanted, self.clock)
        self.sends = WaitingSends(store, self.config, self.clock, self._acknowledged, PutTimes(0))
        self.heard: list[Command] = []
        self._frames = FrameDecoder()
        self._peer = Peer(("127.0.0.1", 1), ("127.0.0.1", 2), self._hear)

    def clock(self) -> int:
        return 5_000 + round((asyncio.get_running_loop().time() - self._since) * 1000)

    def _acknowledged(self, slaves: int) -> int:
        return sorted(self.ends, reverse=True)[slaves - 1] if len(self.ends) >= slaves else -1

    def _hear(self, data: bytes) -> None:
        self.heard += map(decode_command, self._frames.feed(data))

    def keep(self, end: int, opaque: int = 0, *, regardless: bool = False) -> None:
        """A send whose record ends there is stored."""
        reply = Reply(0, ext={"msgId": str(end)})
        held = self.waiter.answer_regardless(reply, end) if regardless else self.waiter.answer(reply, end, None)
        assert isinstance(held, Hold)
        self.sends.keep(held, Responder(self._peer, opaque))

    def answered(self) -> list[tuple[int, int]]:
        found = [(heard.opaque, heard.code) for heard in self.heard]
        self.heard.clear()
        return found


# -- who waits


@pytest.mark.parametrize(
    ("flush", "role", "waits"),
    [
        ("SYNC_FLUSH", "ASYNC_MASTER", True), ("ASYNC_FLUSH", "SYNC_MASTER", True),
        ("SYNC_FLUSH", "SYNC_MASTER", True), ("ASYNC_FLUSH", "ASYNC_MASTER", False),
    ],
)  # fmt: skip
def test_sends_wait_for_the_disk_or_for_slaves(flush: str, role: str, waits: bool) -> None:
    store = cast("MessageStore", SimpleNamespace(config=StoreConfig(flush_disk_type=flush)))
    found = AckWaiter.of(store, BrokerConfig(broker_role=role), lambda: 0, lambda: 0)
    assert (found is not None) is waits


async def test_a_send_without_a_disk_and_slaves_to_wait_for_is_answered_at_once() -> None:
    bench = Bench("ASYNC_FLUSH", 0)
    reply = Reply(0)
    assert bench.waiter.answer(reply, 10, None) is reply
    assert bench.waiter.answer_regardless(reply, 10) is reply
    bench.wanted = 1
    assert isinstance(bench.waiter.answer(reply, 10, None), Hold)
    bench.wanted = None
    assert isinstance(bench.waiter.answer(reply, 10, None), Hold), "as many as are configured"
    bench.config.in_sync_replicas = 1
    assert bench.waiter.answer(reply, 10, None) is reply


@pytest.mark.parametrize(
    ("properties", "waits"),
    [(None, True), ("", True), ("WAIT\x01true\x02", True), ("A\x01b\x02WAIT\x01false\x02", False)],
)
async def test_a_message_may_ask_not_to_wait(properties: str | None, waits: bool) -> None:
    bench = Bench(wanted=None)
    assert isinstance(bench.waiter.answer(Reply(0), 10, properties), Hold) is waits
    if waits:
        with pytest.raises(BrokerError) as caught:
            bench.waiter.check(properties)
        assert caught.value.code == SYSTEM_ERROR
    else:
        bench.waiter.check(properties)
    bench.wanted = 0
    bench.waiter.check(properties)


@pytest.mark.parametrize(("disk", "slave", "longest"), [(5_000, 3_000, 5_000), (2_000, 3_000, 3_000)])
async def test_a_hold_lasts_as_long_as_the_longer_timeout(disk: int, slave: int, longest: int) -> None:
    bench = Bench(sync_flush_timeout=disk, slave_timeout=slave)
    waiter = AckWaiter(cast("MessageStore", bench.log), bench.config, lambda: 0, lambda: 5_000)
    held = waiter.answer(Reply(0), 10, None)
    assert isinstance(held, Hold)
    assert held.deadline_ms == 5_000 + longest


# -- the disk


async def test_sends_are_answered_when_the_disk_has_them() -> None:
    bench = Bench()
    bench.keep(100, 1)
    bench.keep(200, 2)
    assert (len(bench.sends), bench.log.requests) == (2, [100]), "one flush at a time"
    bench.log.flush(100)
    await asyncio.sleep(0)
    assert bench.answered() == [(1, 0)]
    assert bench.log.requests == [100, 200], "up to the last one that waits"
    bench.keep(150, 3)
    bench.log.flush(200)
    await asyncio.sleep(0)
    assert sorted(bench.answered()) == [(2, 0), (3, 0)]
    assert (len(bench.sends), bench.log.requests) == (0, [100, 200])


async def test_what_is_on_disk_already_is_answered_at_once() -> None:
    bench = Bench()
    bench.log.flushed_offset = 100
    bench.keep(100, 1)
    assert bench.answered() == [(1, 0)]
    assert len(bench.sends) == 0


async def test_no_more_is_flushed_when_nobody_waits() -> None:
    """Even if the log has grown: the schedule of flushes decides then."""
    bench = Bench(sync_flush_timeout=100, slave_timeout=100)
    bench.keep(100, 1)
    await asyncio.sleep(1)
    assert bench.answered() == [(1, DISK_TIMEOUT)]
    bench.log.flush(50)
    await asyncio.sleep(0)
    assert bench.log.requests == [100]


async def test_a_disk_that_fails_fails_all_that_wait() -> None:
    bench = Bench()
    for opaque in (1, 2):
        bench.keep(100 * opaque, opaque)
    bench.keep(300, 3, regardless=True)
    bench.log.futures[0].set_exception(StoreNotWritable("the disk fails"))
    await asyncio.sleep(0)
    assert [(heard.opaque, heard.code, heard.remark) for heard in bench.heard] == [
        (1, DISK_TIMEOUT, "the disk fails"), (2, DISK_TIMEOUT, "the disk fails"), (3, 0, None),
    ]  # fmt: skip
    assert bench.heard[0].ext["msgId"] == "100"
    assert len(bench.sends) == 0


@pytest.mark.parametrize(("regardless", "code"), [(False, DISK_TIMEOUT), (True, 0)])
async def test_a_slow_disk_is_a_timeout_after_five_seconds(regardless: bool, code: int) -> None:
    bench = Bench(slave_timeout=1_000)
    bench.keep(100, 1, regardless=regardless)
    await asyncio.sleep(4)  # real time passes, too, while other processes have the processor
    assert bench.answered() == []
    await asyncio.sleep(1.1)
    assert bench.heard[0].ext["msgId"] == "100"
    assert bench.answered() == [(1, code)]


# -- slaves


async def test_sends_are_answered_when_enough_slaves_have_them() -> None:
    bench = Bench("ASYNC_FLUSH", 2)
    bench.keep(100, 1)
    bench.wanted = 1
    bench.keep(200, 2)
    assert bench.log.requests == []
    bench.ends = [150, 90]
    bench.sends.release()
    assert bench.answered() == []
    bench.ends = [200, 90]
    bench.sends.release()
    assert bench.answered() == [(2, 0)]
    bench.ends = [200, 100]
    bench.sends.release()
    assert bench.answered() == [(1, 0)]


async def test_sends_that_need_both_wait_for_both() -> None:
    bench = Bench(wanted=1)
    bench.keep(100, 1)
    bench.ends = [100]
    bench.sends.release()
    assert bench.answered() == []
    bench.log.flush(100)
    await asyncio.sleep(0)
    assert bench.answered() == [(1, 0)]
    bench.keep(200, 2)
    bench.log.flush(200)
    await asyncio.sleep(0)
    assert bench.answered() == []
    bench.ends = [200]
    bench.sends.release()
    assert bench.answered() == [(2, 0)]


@pytest.mark.parametrize(
    ("flushed", "ends", "seconds", "code"),
    [
        (0, [100], 5.0, DISK_TIMEOUT),
        (0, [99], 5.0, SLAVE_TIMEOUT),
        (100, [99], 3.0, SLAVE_TIMEOUT),
        (100, [], 3.0, SLAVE_TIMEOUT),
    ],
)
async def test_a_timeout_names_what_is_missing(flushed: int, ends: list[int], seconds: float, code: int) -> None:
    """Once the disk has the message, the timeout is the slaves'; before, the longer one."""
    bench = Bench(wanted=1)
    bench.log.flushed_offset = flushed
    bench.ends = ends
    bench.keep(100, 1)
    await asyncio.sleep(seconds - 0.1)
    assert bench.answered() == []
    await asyncio.sleep(0.25)
    assert bench.answered() == [(1, code)]


async def test_timeouts_of_slaves_are_longer_if_so_configured() -> None:
    bench = Bench(wanted=1, slave_timeout=8_000)
    bench.keep(100, 1)
    await asyncio.sleep(7.9)
    assert bench.answered() == []
    await asyncio.sleep(0.25)
    assert bench.answered() == [(1, SLAVE_TIMEOUT)]


async def test_only_those_that_have_waited_long_enough_time_out() -> None:
    bench = Bench("ASYNC_FLUSH", 1)
    bench.keep(100, 1)
    await asyncio.sleep(1)
    bench.keep(200, 2)
    await asyncio.sleep(2.1)
    assert bench.answered() == [(1, SLAVE_TIMEOUT)]
    assert len(bench.sends) == 1
    await asyncio.sleep(1)
    assert bench.answered() == [(2, SLAVE_TIMEOUT)]
    assert bench.sends._timer is None
    bench.keep(300, 3)
    await asyncio.sleep(3.1)
    assert bench.answered() == [(3, SLAVE_TIMEOUT)]


async def test_a_flush_that_is_cancelled_answers_what_is_safe() -> None:
    """As at the end of the loop: nothing is raised, and what waits is asked for again."""
    bench = Bench()
    bench.keep(100, 1)
    bench.keep(200, 2)
    bench.log.flushed_offset = 100
    bench.log.futures.pop(0).cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert bench.answered() == [(1, 0)]
    assert bench.log.requests == [100, 200]
