"""What a broker takes at a time, under Java's keys."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from rocketmq_py.broker.config import BrokerConfig, configure
from rocketmq_py.broker.lanes import lane_limits
from rocketmq_py.broker.syncflush import FLUSH, Unflushed, UnflushedSends
from rocketmq_py.errors import StoreNotWritable
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.server import Hold, LaneLimit, Peer, Reply, Responder, Route
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


def test_without_fast_failure_requests_wait_as_long_as_it_takes() -> None:
    limits = lane_limits(BrokerConfig(broker_fast_failure_enable=False))
    assert {limit.wait_ms for limit in limits.values()} == {None}
    assert limits["send"].in_flight == 10_000


def test_every_handler_is_in_a_lane_that_has_limits(running: InProcess) -> None:
    routes: tuple[Route, ...] = running.services.router().routes
    assert {route.lane for route in routes} <= lane_limits(BrokerConfig()).keys()


def test_pulls_beyond_the_limit_are_refused_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with broker(tmp_path, pull_thread_pool_queue_capacity=2) as running:
        client, other = running.connect(), running.connect()
        client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
        held = [client.call(Code.PULL_MESSAGE, pull(offset=1, **WAIT)) for _ in range(4)]
        assert held == [None] * 4
        assert [(answer.code, answer.remark) for answer in client.heard] == [(2, OVERLOAD)] * 2
        assert [record.getMessage() for record in caplog.records] == [
            "2 pulls wait for messages (pullThreadPoolQueueCapacity): more are refused"
        ]
        client.leave()
        assert len(running.services.holds) == 0
        other.call(Code.PULL_MESSAGE, pull(offset=1, **WAIT))
        assert len(running.services.holds) == 1
        assert other.heard == []


class Disk:
    """A store whose flush is in the test's hands."""

    def __init__(self) -> None:
        self.flushes: list[asyncio.Future[None]] = []

    def flushed(self, _: int) -> asyncio.Future[None]:
        self.flushes.append(asyncio.get_running_loop().create_future())
        return self.flushes[-1]


def test_sends_that_wait_for_the_disk_are_counted_until_it_has_them() -> None:
    async def scenario() -> None:
        disk, written = Disk(), []
        sends = UnflushedSends(disk, lambda: 0)  # type: ignore[arg-type]
        peer = Peer(write=written.append)
        for opaque in range(3):
            sends.keep(Hold(FLUSH, 60_000, Unflushed(Reply(), 1)), Responder(peer, opaque))
        assert len(sends) == 3
        disk.flushes[0].set_result(None)
        disk.flushes[1].set_exception(StoreNotWritable("lost"))
        disk.flushes[2].cancel()
        await asyncio.sleep(0)
        assert len(sends) == 0
        assert len(written) == 3

    asyncio.run(scenario())


def test_too_many_unflushed_sends_fill_their_lane(tmp_path: Path) -> None:
    with broker(tmp_path, send_thread_pool_queue_capacity=0) as running:
        assert running.services.full_lanes() == ("send",)
    with broker(tmp_path, send_thread_pool_queue_capacity=1) as running:
        assert running.services.full_lanes() == ()
