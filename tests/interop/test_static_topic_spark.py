"""The Spark source and sink on static topics, called as Spark calls them; no session."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("pyspark")

from rocketmq_py import Admin
from rocketmq_py.errors import SystemError_
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.datasource import RocketMQDataSource
from rocketmq_py.spark.remoting.cluster import Cluster as View
from rocketmq_py.spark.sink.rows import RowMessage
from rocketmq_py.spark.sink.sender import BatchSender
from rocketmq_py.spark.sink.targets import SendSettings
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.side import eventually, group
from tests.interop.static_pairs import BLOCK, MOCK, QUEUES, Pair, start_pair

pytestmark = pytest.mark.spark

NUMBER = 40
COLUMNS = ("body", "brokerName", "queueId", "queueOffset")


@pytest.fixture(scope="module", params=["both ours", "both java"])
def pair(request: pytest.FixtureRequest, java: JavaPeer, servers: OurServers) -> Pair:
    return start_pair(request.param, java, servers)


def send(sender: BatchSender, topic: str, start: int) -> None:
    """Each message in a batch of its own, all queues in turn."""
    for number in range(start, start + NUMBER):
        sender.send(RowMessage(topic, b"%d" % number, b"", None, number % QUEUES))
        sender.flush()


def await_forwarding(pair: Pair, topic: str) -> None:
    """Until the leader finds the broker of the first physical queues; a Java broker looks for it every 10 s."""

    def known() -> bool:
        with Admin(pair.namesrv) as admin:
            try:
                return all(admin.min_offset(MessageQueue(topic, MOCK, number)) == 0 for number in range(QUEUES))
            except SystemError_:
                return False

    eventually(known, bool)


def read(reader: Any, partitions: Any) -> list[tuple[int, str, int, int]]:
    found: list[tuple[int, str, int, int]] = []
    for partition in partitions:
        for batch in reader.read(partition):
            body, *places = (batch.column(name).to_pylist() for name in COLUMNS)
            found += zip(map(int, body), *places, strict=True)
    return found


def test_a_static_topic_is_written_and_read_while_its_queues_move(pair: Pair) -> None:
    topic = f"static-{uuid.uuid4().hex[:8]}"
    pair.create(topic, "broker-a")
    settings = SendSettings(
        namesrv=(pair.namesrv,), producer_group="p", timeout=30, retries=7, in_flight=4, max_batch_bytes=1 << 20
    )
    with closing(BatchSender(settings)) as sender:
        send(sender, topic, 0)
        pair.remap(topic, "broker-b")
        send(sender, topic, NUMBER)
    await_forwarding(pair, topic)
    options = {"namesrv": pair.namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    source = RocketMQDataSource(options)
    reader = source.reader(source.schema())
    partitions = reader.partitions()
    pair.remap(topic, "broker-a")  # between the plan and the tasks
    await_forwarding(pair, topic)
    found = read(reader, partitions)
    assert sorted(row[0] for row in found) == list(range(2 * NUMBER)), "each one once"
    each = NUMBER // QUEUES
    offsets = {*range(each), *range(BLOCK, BLOCK + each)}
    assert {row[1:] for row in found} == {(MOCK, queue, offset) for queue in range(QUEUES) for offset in offsets}


def test_the_driver_follows_a_queue_that_moves(pair: Pair) -> None:
    topic = f"static-{uuid.uuid4().hex[:8]}"
    pair.create(topic, "broker-a")
    name = group()
    with closing(View((pair.namesrv,), 30, 7)) as view:
        queues = view.readable([topic])
        expected = [MessageQueue(topic, MOCK, number) for number in range(QUEUES)]
        assert sorted(queues.addresses) == expected
        with Admin(pair.namesrv) as admin:
            admin.create_group(name)
        view.commit(name, dict.fromkeys(expected, 0), queues)
        pair.remap(topic, "broker-b")
        await_forwarding(pair, topic)
        assert view.latest(queues) == dict.fromkeys(expected, BLOCK)
        assert view.committed(name, queues) == dict.fromkeys(expected, 0)
        assert {at.broker for at in queues.addresses.values()} == {"broker-b"}
