"""The Spark source and sink on static topics, called as Spark calls them; no session."""

from __future__ import annotations

import uuid
from contextlib import closing
from itertools import count
from typing import Any

import pytest

pytest.importorskip("pyspark")

from rocketmq_py import Admin, ConsumeFromWhere, LitePullConsumer
from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode
from rocketmq_py.arrow.remoting.cluster import Cluster as View
from rocketmq_py.arrow.sink.rows import RowMessage
from rocketmq_py.arrow.sink.sender import BatchSender
from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT
from rocketmq_py.spark.datasource import RocketMQDataSource
from rocketmq_py.spark.sink.end_transactions import TransactionEnds
from rocketmq_py.spark.sink.half_sender import HalfSender
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.side import WAIT_SECONDS, group
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
    pair.await_forwarding(topic)
    options = {"namesrv": pair.namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    source = RocketMQDataSource(options)
    reader = source.reader(source.schema())
    partitions = reader.partitions()
    pair.remap(topic, "broker-a")  # between the plan and the tasks
    pair.await_forwarding(topic)
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
        pair.await_forwarding(topic)
        assert view.latest(queues) == dict.fromkeys(expected, BLOCK)
        assert view.committed(name, queues) == dict.fromkeys(expected, 0)
        assert {at.broker for at in queues.addresses.values()} == {"broker-b"}


def test_exactly_once_ends_at_the_brokers_that_have_the_halves(pair: Pair) -> None:
    """Half messages of one task are at both brokers: their queue moves in between, and again before they are ended.

    A Java broker answers the offset of a half message as if it were one of the logical queue, so that only those in
    its first physical queue, where both are the same, can be ended before it checks them.
    """
    moves = ("broker-b", "broker-a") if pair.kind == "both ours" else ("broker-b",)
    topic = f"static-{uuid.uuid4().hex[:8]}"
    pair.create(topic, "broker-a")
    settings = SendSettings(
        namesrv=(pair.namesrv,), producer_group=group(), timeout=30, retries=7, in_flight=4, max_batch_bytes=1 << 20
    )
    keys = count()
    with closing(HalfSender(settings, lambda: f"K{next(keys)}", BadRecordPolicy(Mode.FAILFAST, "%DLQ%g"))) as sender:
        for part, broker in enumerate(moves):
            for number in range(part * NUMBER, (part + 1) * NUMBER):
                own = f"UNIQ_KEY\x01U{number}\x02SPARK_ROW_KEY\x01{number}\x02".encode()
                sender.send(RowMessage(topic, b"%d" % number, own, None, number % QUEUES, str(number), f"U{number}"))
                sender.flush()
            pair.remap(topic, broker)
        halves = sender.halves()
    assert {half.broker for half in halves} == {"broker-a", "broker-b"}.difference(moves[:1] if len(moves) == 1 else ())
    with closing(View((pair.namesrv,), 30, 7)) as view:
        masters = view.masters(topic)
    with closing(TransactionEnds(settings, masters)) as ends:
        assert not len(ends.end(halves, TRANSACTION_COMMIT)), "none is left open"
    name = group()
    with LitePullConsumer(name, pair.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as member:
        member.subscribe(topic)
        found: list[int] = []
        while len(found) < len(moves) * NUMBER:
            messages = member.poll(WAIT_SECONDS)
            assert messages, f"{len(found)} messages"
            found += (int(one.body) for one in messages)
    assert sorted(found) == list(range(len(moves) * NUMBER))
