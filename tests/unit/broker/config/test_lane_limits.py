"""Limits of concurrent requests, under Java's keys."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.config.broker_config import SYNC_MASTER, BrokerConfig, configure
from rocketmq_py.broker.config.lane_limits import lane_limits
from rocketmq_py.broker.send.ack_waiter import ACK_WAIT, AckWaiter, WaitingSend, WaitingSends
from rocketmq_py.core.broker.put_times import PutTimes
from rocketmq_py.errors import StoreNotWritable
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode as Response
from rocketmq_py.server import Hold, LaneLimit, Peer, Reply, Responder, Route
from rocketmq_py.store import StoreConfig
from rocketmq_py.store.settings import SYNC_FLUSH
from rocketmq_py.wire.command import decode_command
from rocketmq_py.wire.frame import FrameDecoder
from tests.unit.broker.harness import InProcess, broker
from tests.unit.broker.requests import pull, send

WAIT = {"sys_flag": 2 | 4}
OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"


def test_limits_have_java_s_keys_and_defaults() -> None:
    limits = lane_limits(BrokerConfig())
    waits = {lane: limit.wait_ms for lane, limit in limits.items() if limit.wait_ms is not None}
    assert waits == {
        "send": 200, "pull": 5_000, "ack": 3_000, "heartbeat": 31_000, "transaction": 3_000, "admin": 5_000,
    }  # fmt: skip
    config, _ = configure({"waitTimeMillsInSendQueue": "700", "sendThreadPoolQueueCapacity": "9"})
    assert lane_limits(config)["send"] == LaneLimit(9, 700)


def test_without_fast_failure_requests_have_no_wait_limit() -> None:
    limits = lane_limits(BrokerConfig(broker_fast_failure_enable=False))
    assert {limit.wait_ms for limit in limits.values()} == {None}
    assert limits["send"].in_flight == 10_000


def test_every_handler_is_in_a_lane_that_has_limits(running: InProcess) -> None:
    routes: tuple[Route, ...] = running.services.router().routes
    assert {route.lane for route in routes} <= lane_limits(BrokerConfig()).keys()


def test_pulls_beyond_the_limit_are_refused_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with broker(tmp_path, pull_thread_pool_queue_capacity=2) as running:
        client, other = running.connect(), running.connect()
        client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
        held = [client.call(Code.PULL_MESSAGE, pull(offset=1, **WAIT)) for _ in range(4)]
        assert held == [None] * 4
        assert [(answer.code, answer.remark) for answer in client.heard] == [(2, OVERLOAD)] * 2
        assert [record.getMessage() for record in caplog.records] == [
            "2 pulls are on hold (pullThreadPoolQueueCapacity): more are refused"
        ]
        client.leave()
        running.turn()
        assert len(running.services.pull_request_hold) == 0
        other.call(Code.PULL_MESSAGE, pull(offset=1, **WAIT))
        assert len(running.services.pull_request_hold) == 1
        assert other.heard == []


class Disk:
    """A store whose flush is in the test's hands."""

    config = StoreConfig(flush_disk_type=SYNC_FLUSH)

    def __init__(self) -> None:
        self.flushes: list[asyncio.Future[None]] = []
        self.flushed_offset = 0

    def flushed(self, _: int) -> asyncio.Future[None]:
        self.flushes.append(asyncio.get_running_loop().create_future())
        return self.flushes[-1]

    async def has(self, end: int) -> None:
        self.flushed_offset = end
        self.flushes.pop(0).set_result(None)
        await asyncio.sleep(0)


class Waiting:
    """Sends that wait, and what is answered to them."""

    def __init__(self, **settings: Any) -> None:
        self.disk = Disk()
        self.now = 0
        self.acknowledged = -1
        self.answers: list[list[tuple[int, int]]] = []
        self._frames = FrameDecoder()
        self._heard = asyncio.Event()
        config = BrokerConfig(**settings)
        self.slaves = config.in_sync_replicas - 1
        self.sends = WaitingSends(self.disk, config, lambda: self.now, lambda _: self.acknowledged, PutTimes(0))  # type: ignore[arg-type]
        self._peer = Peer(write=self._written)

    def _written(self, data: bytes) -> None:
        self.answers.append([(a.opaque, a.code) for a in map(decode_command, self._frames.feed(data))])
        self._heard.set()

    def send(self, *ends: int) -> None:
        """Sends whose messages end there; the number of a send is where its message ends."""
        for end in ends:
            self.sends.keep(
                Hold(ACK_WAIT, 60_000, WaitingSend(Reply(), end, self.now, self.slaves)), self.responder(end)
            )

    def responder(self, number: int) -> Responder:
        """Who answers the request of that number."""
        return Responder(self._peer, number)

    async def answered(self, count: int) -> None:
        """Until so many have been answered."""
        while sum(map(len, self.answers)) < count:
            self._heard.clear()
            await self._heard.wait()

    def slaves_have(self, end: int) -> None:
        self.acknowledged = end
        self.sends.release()


async def test_sends_that_wait_for_the_disk_are_answered_together() -> None:
    waiting = Waiting()
    waiting.send(1, 2, 3)
    assert len(waiting.disk.flushes) == 1, "one watch serves all"
    await waiting.disk.has(2)
    assert waiting.answers == [[(1, 0), (2, 0)]]
    assert len(waiting.sends) == 1
    await waiting.disk.has(3)
    assert waiting.answers[1:] == [[(3, 0)]]
    assert len(waiting.sends) == 0
    assert waiting.disk.flushes == []


async def test_sends_fail_when_the_flush_fails() -> None:
    waiting = Waiting()
    waiting.send(1, 2)
    waiting.disk.flushes.pop(0).set_exception(StoreNotWritable("lost"))
    await asyncio.sleep(0)
    assert waiting.answers == [[(1, Response.FLUSH_DISK_TIMEOUT), (2, Response.FLUSH_DISK_TIMEOUT)]]


async def test_sends_wait_for_disk_and_slaves() -> None:
    waiting = Waiting(broker_role=SYNC_MASTER, in_sync_replicas=2)
    waiting.send(10, 20, 30)
    waiting.slaves_have(20)
    assert waiting.answers == []
    await waiting.disk.has(30)
    assert waiting.answers == [[(10, 0), (20, 0)]]
    waiting.slaves_have(29)
    assert len(waiting.sends) == 1
    waiting.slaves_have(30)
    assert waiting.answers[1:] == [[(30, 0)]]


async def test_a_timeout_names_what_the_send_waited_for() -> None:
    waiting = Waiting(broker_role=SYNC_MASTER, in_sync_replicas=2, slave_timeout=1, sync_flush_timeout=2)
    waiting.send(10, 20, 30)
    waiting.slaves_have(20)
    waiting.disk.flushed_offset = 10
    waiting.now = 5
    await waiting.answered(3)
    assert [one for answers in waiting.answers for one in answers] == [
        (10, 0), (20, Response.FLUSH_DISK_TIMEOUT), (30, Response.FLUSH_SLAVE_TIMEOUT)
    ]  # fmt: skip


async def test_records_of_the_broker_itself_are_answered_after_a_timeout_too() -> None:
    """A pop whose notes are not safe in time brings its messages: they were marked as popped."""
    waiting = Waiting(broker_role=SYNC_MASTER, in_sync_replicas=2, slave_timeout=1, sync_flush_timeout=1)
    confirming = AckWaiter(waiting.disk, BrokerConfig(), lambda: 1, lambda: waiting.now)  # type: ignore[arg-type]
    for number, hold in enumerate(
        (confirming.answer(Reply(), 10, None), confirming.answer_regardless(Reply(remark="FOUND"), 10))
    ):
        assert isinstance(hold, Hold)
        waiting.sends.keep(hold, waiting.responder(number))
    waiting.now = 5
    await waiting.answered(2)
    assert waiting.answers == [[(0, Response.FLUSH_SLAVE_TIMEOUT), (1, 0)]]


def test_too_many_unflushed_sends_fill_their_lane(tmp_path: Path) -> None:
    with broker(tmp_path, send_thread_pool_queue_capacity=0) as running:
        assert running.services.full_lanes() == ("send",)
    with broker(tmp_path, send_thread_pool_queue_capacity=1) as running:
        assert running.services.full_lanes() == ()
