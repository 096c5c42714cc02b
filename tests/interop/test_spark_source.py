"""The readers of the Spark source, called as Spark calls them, against a Java master and its slave; no session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from rocketmq_py.arrow.remoting.cluster import Cluster as View
from rocketmq_py.spark.datasource import RocketMQDataSource
from rocketmq_py.spark.source.stream import SUPPORTS_ADMISSION
from tests.interop.javapeer import JavaPeer, JavaServer
from tests.interop.side import Side, await_readable, group
from tests.replicas import caught_up, topic_on_all

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

CONF = {"enablePropertyFilter": "true", "slaveReadEnable": "true"}
N = 400


class Pair:
    """A Java master and its slave, and a topic with N numbers: those that are even have tag A, the others B."""

    def __init__(self, java: JavaPeer) -> None:
        self._java = java
        self.namesrv = java.namesrv().address
        self.master: JavaServer = java.broker(self.namesrv, conf=CONF)
        self.topic = Side("java", self.namesrv, self.master.address).topic(java)
        self.sent = 0
        self.send(N)
        java.broker(self.namesrv, conf=CONF, role="SLAVE", id=1)
        asyncio.run(topic_on_all(self.namesrv, self.topic))
        self.wait_for_slave()

    def send(self, number: int) -> None:
        self._java.produce(
            self.namesrv, self.topic, number, start=self.sent, tags="A,B", body="{i}", prop=["number={i}"]
        )
        self.sent += number
        await_readable(self.namesrv, self.topic, self.sent)

    def wait_for_slave(self) -> None:
        asyncio.run(caught_up(self.namesrv))

    def source(self, **options: object) -> RocketMQDataSource:
        given = {"namesrv": self.namesrv, "subscribe": self.topic, "startingOffsets": "earliest", **options}
        return RocketMQDataSource({name: str(value) for name, value in given.items()})

    def rows(self, **options: object) -> dict[int, Any]:
        """The numbers of a batch read, and when each was stored."""
        source = self.source(**options)
        reader = source.reader(source.schema())
        return rows(reader, reader.partitions())

    def committed(self, who: str) -> int:
        """How far a group is, all queues together."""
        with closing(View((self.namesrv,), 10, 7)) as view:
            return sum(view.committed(who, view.readable([self.topic])).values())


def rows(reader: DataSourceReader | DataSourceStreamReader, partitions: Sequence[InputPartition]) -> dict[int, Any]:
    found: list[tuple[int, Any]] = []
    for partition in partitions:
        for batch in reader.read(partition):
            bodies, times = (batch.column(name).to_pylist() for name in ("body", "storeTimestamp"))
            found += zip(map(int, bodies), times, strict=True)
    assert len(found) == len(dict(found)), "a message was read twice"
    return dict(found)


@pytest.fixture(scope="module")
def pair(java: JavaPeer) -> Iterator[Pair]:
    made = Pair(java)
    yield made
    made.master.process.kill()


def test_a_java_broker_filters_by_tags_and_sql(pair: Pair) -> None:
    assert pair.rows().keys() == set(range(N))
    assert pair.rows(tags="B").keys() == set(range(1, N, 2))
    assert pair.rows(tags="A || B").keys() == set(range(N))
    chosen = pair.rows(sql="number BETWEEN 100 AND 109 AND TAGS = 'A'")
    assert chosen.keys() == {100, 102, 104, 106, 108}


def test_a_java_broker_finds_offsets_by_time(pair: Pair) -> None:
    everything = pair.rows()
    middle = sorted(everything.values())[N // 2]
    ms = round(middle.timestamp() * 1000)
    later = {number for number, stored in everything.items() if stored >= middle}
    assert pair.rows(startingTimestamp=ms).keys() == later
    assert pair.rows(endingTimestamp=ms).keys() == everything.keys() - later
    assert pair.rows(startingTimestamp=ms, tags="B").keys() == {number for number in later if number % 2}


def test_a_read_starts_at_the_offsets_of_a_java_group(java: JavaPeer, pair: Pair) -> None:
    who, before = group(), pair.sent
    java.consume(pair.namesrv, pair.topic, who, before, from_="first")
    pair.send(50)
    new = pair.rows(startingOffsets="group", groupId=who)
    assert new.keys() == set(range(before, before + 50))


@pytest.mark.skipif(not SUPPORTS_ADMISSION, reason="needs PySpark 4.2")
def test_a_stream_continues_from_the_slave_when_the_master_is_down(java: JavaPeer, pair: Pair) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    who, before = group(), pair.sent
    source = pair.source(groupId=who, offsetLookupIntervalMs=0)
    reader: Any = source.streamReader(source.schema())

    def micro_batch(start: Any) -> tuple[Any, set[int]]:
        end = reader.latestOffset(start, ReadAllAvailable())
        return end, set(rows(reader, reader.partitions(start, end)))

    at, numbers = micro_batch(reader.initialOffset())
    assert numbers == set(range(before))
    assert micro_batch(at) == (at, set())
    assert pair.committed(who) == before
    assert "Diff Total: 0" in java.admin("consumerProgress", "-n", pair.namesrv, "-g", who)

    pair.send(100)
    pair.wait_for_slave()
    pair.master.process.kill()
    at, numbers = micro_batch(at)
    assert numbers == set(range(before, before + 100))
    assert micro_batch(at) == (at, set()), "that offsets cannot be committed at a slave does not stop the query"
    assert pair.rows().keys() == set(range(before + 100)), "a batch read goes to the slave, too"
    reader.stop()
