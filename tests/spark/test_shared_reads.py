"""Tasks that read several queues of a micro-batch, as Spark calls them, without a Spark session."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pyspark.sql.types import StructField, StructType

from rocketmq_py.arrow.ranges import DataLossError, QueueRange
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.spark.datasource import RocketMQDataSource
from rocketmq_py.spark.schema import READ_TYPES
from rocketmq_py.spark.source.partitions import SharedPartition
from rocketmq_py.wire.command import Command
from tests.spark.conftest import Topic
from tests.unit.arrow.scripted import answer, scripted

SCHEMA = StructType([StructField(name, READ_TYPES[name]) for name in ("body", "queueId", "queueOffset", "tags")])
NUMBER = 30


def micro_batch(topic: Topic, **options: str) -> list[list[Any]]:
    """The record batches each task of the micro-batch from the beginning to now gives Spark."""
    given = {"namesrv": topic.namesrv, "subscribe": topic.name, "startingOffsets": "earliest"}
    reader = RocketMQDataSource(given | options).streamReader(SCHEMA)
    try:
        partitions = reader.partitions(reader.initialOffset(), reader.reportLatestOffset())
        return [list(reader.read(one)) for one in partitions]
    finally:
        reader.stop()


def rows(tasks: list[list[Any]]) -> list[dict[str, Any]]:
    return [row for batches in tasks for batch in batches for row in batch.to_pylist()]


def test_few_messages_of_many_queues_are_one_task_and_one_batch(topic: Topic) -> None:
    topic.send(NUMBER)
    tasks = micro_batch(topic)
    assert [len(batches) for batches in tasks] == [1]
    found = rows(tasks)
    assert sorted(int(row["body"]) for row in found) == list(range(NUMBER))
    places = [(row["queueId"], row["queueOffset"]) for row in found]
    assert places == sorted(set(places)), "queue after queue, each in the order of its offsets"
    assert len({queue for queue, _ in places}) > 1


def test_a_task_for_each_queue_reads_the_same(topic: Topic) -> None:
    topic.send(NUMBER)
    apart = micro_batch(topic, minPartitions="100")
    assert len(apart) > 1
    assert rows(apart) == rows(micro_batch(topic))


def test_a_filter_removes_queues_from_a_shared_task(topic: Topic) -> None:
    topic.send(NUMBER)
    found = rows(micro_batch(topic, tags="A"))
    assert sorted(int(row["body"]) for row in found) == list(range(0, NUMBER, 2))
    assert rows(micro_batch(topic, tags="nobody-has-this")) == []


def test_removed_messages_are_queried_once_for_a_shared_task(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing comes of queues 1 and 2, and the beginning of queue 2 has moved; the other queues were not read."""

    def respond(request: Command) -> Command:
        if request.code == RequestCode.GET_MIN_OFFSET:
            return answer(offset=7 if request.ext["queueId"] == "2" else 0)
        end = {"suggestWhichBrokerId": 0, "nextBeginOffset": 10, "minOffset": 0, "maxOffset": 10}
        return answer(ResponseCode.PULL_RETRY_IMMEDIATELY, remark="NO_MATCHED_MESSAGE", **end)

    with scripted(respond, queues=4) as peer:
        at = Addresses(peer.address)
        ranges = [QueueRange(MessageQueue("t", "broker-a", number), 0, 10) for number in (1, 2)]
        task = SharedPartition([LocatedRange(one, at) for one in ranges])

        def read(fail_on_data_loss: str) -> list[Any]:
            given = {"namesrv": peer.address, "subscribe": "t", "tags": "A", "failOnDataLoss": fail_on_data_loss}
            return list(RocketMQDataSource(given).streamReader(SCHEMA).read(task))

        with pytest.raises(DataLossError) as lost:
            read("true")
        assert lost.value.losses == ("offsets of t@broker-a:2 below 7 have been removed by retention while being read",)
        asked = [request.ext["queueId"] for request in peer.asked(RequestCode.GET_MIN_OFFSET)]
        assert asked == ["1", "2"]
        assert len(peer.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1
        with caplog.at_level(logging.WARNING):
            assert read("false") == []
    assert "offsets of t@broker-a:2 below 7" in caplog.text
