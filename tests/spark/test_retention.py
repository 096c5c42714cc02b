"""A stream whose unread messages are removed by retention: its readers, called as Spark calls them."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.arrow.ranges import DataLossError
from rocketmq_py.spark.datasource import RocketMQDataSource
from rocketmq_py.spark.source.stream import SUPPORTS_ADMISSION
from rocketmq_py.testing import Cluster
from tests.retention import trim
from tests.spark.conftest import Topic

pytestmark = pytest.mark.skipif(not SUPPORTS_ADMISSION, reason="needs PySpark 4.2")

READ, UNREAD = 40, 200
SIZES = {
    "mapped_file_size_commit_log": 16 * 1024, "mapped_file_size_consume_queue": 4000, "max_hash_slot_num": 100,
    "max_index_num": 400,
}  # fmt: skip
GONE = r"offsets \d+ to \d+ of .* have been removed by retention"


class Query:
    """A query, started or started again.

    :ivar at: where it stands; it comes out of a checkpoint.
    """

    def __init__(self, topic: Topic, **options: object) -> None:
        source = source_of(topic, offsetLookupIntervalMs=0, **options)
        self.reader: Any = source.streamReader(source.schema())
        self.at: Any = None

    def plan(self, at: Any = None) -> list[Any]:
        """The next micro-batch."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        start = json.loads(json.dumps(self.reader.initialOffset() if at is None else at))
        self.at = self.reader.latestOffset(start, ReadAllAvailable())
        return list(self.reader.partitions(start, self.at))

    def bodies(self, partitions: list[Any]) -> list[int]:
        return bodies_of(self.reader, partitions)

    def close(self) -> None:
        self.reader.stop()


def source_of(topic: Topic, **options: object) -> RocketMQDataSource:
    given = {"namesrv": topic.namesrv, "subscribe": topic.name, "columns": "body"} | options
    return RocketMQDataSource({name: str(value) for name, value in given.items()})


def bodies_of(reader: Any, partitions: Any) -> list[int]:
    found = [int(body) for one in partitions for batch in reader.read(one) for body in batch.column("body").to_pylist()]
    return sorted(found)


def test_removed_messages_fail_a_query_or_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(store_dir=tmp_path, **SIZES) as cluster, ExitStack() as queries:
        topic = Topic(cluster.namesrv, queues=2)

        def query(**options: object) -> Query:
            return queries.enter_context(closing(Query(topic, **options)))

        topic.send(READ, padding="x" * 300)
        first = query(startingOffsets="earliest")
        assert first.bodies(first.plan()) == list(range(READ))
        stands = first.at

        topic.send(UNREAD, padding="x" * 300)
        strict, lenient = query(), query(failOnDataLoss=False)
        planned = strict.plan(stands), lenient.plan(stands)
        cluster.stop_broker()
        trim(tmp_path / "broker-a", **SIZES)
        cluster.start_broker()
        batch = source_of(topic)
        left = bodies_of(reader := batch.reader(batch.schema()), reader.partitions())
        assert 0 < len(left) < UNREAD
        assert left == list(range(READ + UNREAD - len(left), READ + UNREAD))

        with pytest.raises(DataLossError, match=GONE):
            strict.bodies(planned[0])
        assert lenient.bodies(planned[1]) == left

        with pytest.raises(DataLossError, match=GONE + ".*set failOnDataLoss=false"):
            query().plan(stands)
        caplog.clear()
        again = query(failOnDataLoss=False)
        assert again.bodies(again.plan(stands)) == left
        assert "have been removed by retention; going on, since failOnDataLoss is false" in caplog.text
        topic.send(10)
        assert again.bodies(again.plan(again.at)) == list(range(READ + UNREAD, READ + UNREAD + 10))
