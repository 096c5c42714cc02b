"""One connection does not keep the event loop of a broker busy, and long turns have a name."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from rocketmq_py import Admin
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.command import Command, encode_command
from tests.server.rawpeer import RawPeer


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(enable_property_filter=True) as running:
        running.create_topic("T", 1)
        yield running


EXPRESSIONS = 40
"""In one write; all of them in one turn would take some hundreds of milliseconds."""


def pull(expression: str) -> dict[str, str]:
    return PullMessage(
        consumer_group="g", topic="T", queue_id=0, queue_offset=0, max_msg_nums=32, sys_flag=4, commit_offset=0,
        suspend_timeout_millis=0, sub_version=0, subscription=expression, expression_type="SQL92",
    ).to_ext()  # fmt: skip


def expression(number: int) -> str:
    """A new expression of nearly 64 KiB with as many parts as are allowed."""
    part = f"property{number} = 1 OR "
    return part * min(65_000 // len(part), 1_300) + "a = 1"


def test_many_new_expressions_do_not_block_other_connections(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turns of the loop are counted, not timed: how long one takes is up to the machine."""
    dispatcher = cluster.brokers[0]._server.dispatcher  # type: ignore[union-attr]
    route = dispatcher._routes[int(Code.PULL_MESSAGE)]
    serve, slices = dispatcher.serve, [0]

    def counted(*request: object) -> object:
        slices[-1] += 1
        return route.method(*request)  # type: ignore[arg-type]

    def sliced(*read: object) -> object:
        slices.append(0)
        return serve(*read)  # type: ignore[arg-type]

    monkeypatch.setitem(dispatcher._routes, int(Code.PULL_MESSAGE), route._replace(method=counted))  # type: ignore[arg-type]
    monkeypatch.setattr(dispatcher, "serve", sliced)
    frames = [encode_command(Command(Code.PULL_MESSAGE, opaque=n, ext=pull(expression(n)))) for n in range(EXPRESSIONS)]
    with RawPeer(cluster.addresses[0]) as greedy, RawPeer(cluster.addresses[0]) as other:
        greedy.send(b"".join(frames))
        for _ in range(20):
            assert other.ask(Code.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}).code == 0
        assert [greedy.receive().opaque for _ in frames] == list(range(EXPRESSIONS))
    assert sum(slices) == EXPRESSIONS
    assert max(slices) <= EXPRESSIONS // 4, slices


@pytest.fixture
def fresh_cluster() -> Iterator[Cluster]:
    """A cluster of its own: on a slow machine the other test's expressions may have caused a long turn already."""
    with Cluster() as running:
        running.create_topic("T", 1)
        yield running


def test_a_long_turn_is_counted_in_the_runtime_information(
    fresh_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def long() -> None:
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass

    router = fresh_cluster.brokers[0]._server.dispatcher._routes  # type: ignore[union-attr]
    route = router[int(Code.GET_MAX_OFFSET)]

    def slow(*request: object) -> object:
        long()
        return route.method(*request)  # type: ignore[arg-type]

    monkeypatch.setitem(router, int(Code.GET_MAX_OFFSET), route._replace(method=slow))  # type: ignore[arg-type]
    with RawPeer(fresh_cluster.addresses[0]) as peer, Admin(fresh_cluster.namesrv) as admin:
        peer.ask(Code.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
        end = time.monotonic() + 60
        while (info := admin.broker_state(fresh_cluster.addresses[0]))["slowTurns"] == "0":
            assert time.monotonic() < end, info
    assert info["slowestTurn"].startswith("GET_MAX_OFFSET (30) of 127.0.0.1:")
    assert int(info["slowestTurnMillis"]) >= 150
