"""The load of pops at a broker: everything comes once and is done afterwards, and what is wrong is no figure."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from benchmarks.errors import BenchError
from benchmarks.frames import send_requests
from benchmarks.load import Load
from benchmarks.pops import Pops
from rocketmq_py.testing import Cluster

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmarks run on Linux")

QUEUES, EACH, BACKLOG = 4, 8, 256


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With a backlog that lies evenly in the queues of the topic."""
    with Cluster() as running:
        running.create_topic("bench", QUEUES)
        with Load(running.addresses[0]) as load:
            load.drive(send_requests("bench", QUEUES, 64, BACKLOG), BACKLOG, 64)
        yield running


@pytest.fixture
def pops(cluster: Cluster) -> Iterator[Pops]:
    with Pops(cluster.addresses[0], "bench", QUEUES, EACH) as load:
        yield load


def test_a_backlog_is_popped_and_acked(cluster: Cluster, pops: Pops) -> None:
    for group in ("one", "two"):
        assert pops.drive(group, BACKLOG) > 0
    (broker,) = cluster.brokers
    ends = [broker.services.offsets.query("two", "bench", queue) for queue in range(QUEUES)]
    assert ends == [BACKLOG // QUEUES] * QUEUES
    assert len(broker.services.pop.revive_log.inflight) == 0
    assert pops.cpu_seconds > 0


def test_a_group_that_has_popped_before_is_refused(pops: Pops) -> None:
    pops.drive("again", BACKLOG // 2)
    with pytest.raises(BenchError, match="was to bring 8 messages from 0 on"):
        pops.drive("again", BACKLOG // 2)


def test_a_pop_with_missing_messages_gives_no_figure(cluster: Cluster) -> None:
    with Pops(cluster.addresses[0], "bench", QUEUES, 32) as load, pytest.raises(BenchError):
        load.drive("greedy", 2 * BACKLOG)
