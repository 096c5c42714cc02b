"""A Java broker's answers about offsets without messages: in a compacted topic, and under a filter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("pyarrow")

from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.cluster import Cluster
from rocketmq_py.arrow.remoting.fetch import Fetcher, FetchSettings
from rocketmq_py.arrow.remoting.filters import message_filter
from rocketmq_py.core.consumer.pull_window import Pull, Segment
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.interop.javapeer import JavaPeer

PLAIN, COMPACTED = "gaps-plain", "gaps-compacted"
N = 20


@pytest.fixture(scope="module")
def namesrv(java: JavaPeer) -> Iterator[str]:
    """A Java cluster with a plain and a compacted topic of one queue, and N messages with tag A in the first."""
    address = java.namesrv().address
    java.broker(address)
    one_queue = ("-n", address, "-c", "DefaultCluster", "-r", "1", "-w", "1")
    java.admin("updateTopic", *one_queue, "-t", PLAIN)
    java.admin("updateTopic", *one_queue, "-t", COMPACTED, "-a", "+cleanup.policy=COMPACTION")
    java.produce(address, PLAIN, N, tags="A")
    return address


def fetcher(namesrv: str, topic: str, tags: tuple[str, ...] = ()) -> Fetcher:
    queue = MessageQueue(topic, "broker-a", 0)
    settings = FetchSettings(
        namesrv=(namesrv,),
        timeout=30,
        retries=7,
        in_flight=8,
        fail_on_data_loss=True,
        wanted=message_filter(tags, None),
    )
    with closing(Cluster((namesrv,), 30, 7)) as cluster:
        addresses = cluster.readable([topic]).addresses[queue]
    return Fetcher(QueueRange(queue, 0, N), addresses, settings)


def test_compacted_topics_are_recognised(namesrv: str) -> None:
    for topic, is_compacted in ((PLAIN, False), (COMPACTED, True)):
        with closing(fetcher(namesrv, topic)) as one:
            assert one.is_compacted() is is_compacted


def test_a_read_without_matches_differs_from_unreadable_messages(namesrv: str) -> None:
    with closing(fetcher(namesrv, PLAIN, ("nobody-has-this",))) as one:
        assert [chunk for chunks in one.chunks() for chunk in chunks] == []
        connection = one.connect()
        with closing(connection):
            (_,) = connection.send([(RequestCode.PULL_MESSAGE, one._fields(Pull(0, N, Segment(0, N))), b"")])
            answer = connection.receive()
        assert (answer.code, answer.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")


def test_every_message_of_a_range_is_fetched(namesrv: str) -> None:
    with closing(fetcher(namesrv, PLAIN)) as one:
        chunks = [chunk for chunks in one.chunks() for chunk in chunks]
    assert (chunks[0].start, chunks[-1].stop) == (0, N)
