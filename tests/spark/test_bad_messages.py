"""Undecodable messages in the broker's log: what each mode of a read does with them.

The source as Spark calls it, without a session.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructField, StructType

from rocketmq_py import Message, Producer
from rocketmq_py.arrow.source.corrupt_records import whole_record
from rocketmq_py.client.admin.blocking import Admin
from rocketmq_py.errors import ConfigError, CorruptRecord
from rocketmq_py.spark.datasource import RocketMQDataSource
from rocketmq_py.spark.schema import READ_TYPES
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.record import FIXED_SIZE, SYS_FLAG_AT
from tests.server.cli import Cli, eventually
from tests.spark.conftest import Topic

NUMBER, BAD = 60, (17, 18, 41)
COLUMNS = "queueId queueOffset body tags _corrupt_record _corrupt_reason"
Damage = tuple[int, bytes, str]
"""Where a record is overwritten, with what, and the words of the reason."""
SIZE: Damage = (0, pack(">i", 0x01000000), "bytes more than there are")
SHORT: Damage = (0, pack(">i", 60), "claims 60 bytes")
MAGIC: Damage = (4, b"\0\0\0\0", "no record at byte 0")
COMPRESSION: Damage = (SYS_FLAG_AT, pack(">i", 1), "does not decompress")
KIND: Damage = (SYS_FLAG_AT, pack(">i", 0x701), "unknown compression type 7")
LENGTH: Damage = (FIXED_SIZE - 4, pack(">i", 900), "record")
BODY: Damage = (FIXED_SIZE, b"\xff", "checksum of its body")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(enable_property_filter=True) as running:
        yield running


class Damaged:
    """A topic of one queue and ``NUMBER`` messages, some of them damaged where they are stored."""

    def __init__(self, cluster: Cluster, damage: Damage) -> None:
        at, new, self.reason = damage
        self.topic = Topic(cluster.namesrv, queues=1)
        self.topic.send(NUMBER)
        (log,) = cluster.directory.glob("*/commitlog/*")
        with Admin(cluster.namesrv) as admin:
            (queue,) = admin.queues(self.topic.name)
            messages = list(admin.read(queue))
        self.records: dict[int, bytes] = {}
        for message in messages:
            if message.queue_offset in BAD:
                self._overwrite(log, message.commit_log_offset + at, new)
                with log.open("rb") as file:
                    file.seek(message.commit_log_offset)
                    self.records[message.queue_offset] = file.read(message.store_size)
        self.good = {m.queue_offset: m.body for m in messages if m.queue_offset not in BAD}

    def _overwrite(self, log: Path, at: int, new: bytes) -> None:
        with log.open("r+b") as file:
            file.seek(at)
            file.write(new)

    def read(self, columns: str, *, batch: bool = False, **options: str) -> list[dict[str, Any]]:
        """What the tasks of one micro-batch, or of a batch read, give Spark."""
        start = {"startingOffsets": "earliest"} | options
        source = RocketMQDataSource({"namesrv": self.topic.namesrv, "subscribe": self.topic.name} | start)
        schema = schema_of(columns)
        if batch:
            return _rows(source.reader(schema).partitions(), source.reader(schema))
        reader = source.streamReader(schema)
        try:
            begin = reader.initialOffset()
            (queues,) = begin.values()
            end = {self.topic.name: {broker: {"0": NUMBER} for broker in queues}}
            return _rows(reader.partitions(begin, end), reader)
        finally:
            reader.stop()


def _rows(partitions: Iterable[InputPartition], reader: Any) -> list[dict[str, Any]]:
    return [row for one in partitions for found in reader.read(one) for row in found.to_pylist()]


def schema_of(columns: str, not_null: str = "") -> StructType:
    fields = [StructField(name, READ_TYPES[name], nullable=name not in not_null.split()) for name in columns.split()]
    return StructType(fields)


@pytest.mark.parametrize("damage", [SIZE, SHORT, MAGIC, COMPRESSION, KIND, LENGTH])
def test_an_undecodable_message_is_a_row_with_its_bytes_and_the_reason(cluster: Cluster, damage: Damage) -> None:
    damaged = Damaged(cluster, damage)
    rows = damaged.read(COLUMNS)
    assert [row["queueOffset"] for row in rows] == list(range(NUMBER)), "each offset once, in order"
    assert {row["queueOffset"]: row["body"] for row in rows if row["_corrupt_reason"] is None} == damaged.good
    bad = {row["queueOffset"]: row for row in rows if row["_corrupt_reason"] is not None}
    assert {offset: row["_corrupt_record"] for offset, row in bad.items()} == damaged.records
    assert all(damaged.reason in row["_corrupt_reason"] and row["body"] is None for row in bad.values())


def test_a_body_over_the_limit_is_a_message_that_cannot_be_decoded(cluster: Cluster) -> None:
    topic = cluster.create_topic("limited", 1)
    sizes = [10, 5000, 6000, 10, 5000]
    with Producer("sender", cluster.namesrv) as producer:
        for size in sizes:
            producer.send(Message(topic, bytes(size)))
    options = {"namesrv": cluster.namesrv, "subscribe": topic, "mode": "PERMISSIVE", "maxDecompressedBody": "5500"}
    columns = "queueOffset body _corrupt_reason"
    reader = RocketMQDataSource(options | {"maxDecompressedBatch": "7000"}).reader(schema_of(columns))
    rows = _rows(reader.partitions(), reader)
    assert [row["queueOffset"] for row in rows] == list(range(len(sizes)))
    assert [None if row["body"] is None else len(row["body"]) for row in rows] == [10, 5000, None, 10, 5000]
    assert "more than 5500 bytes" in rows[2]["_corrupt_reason"]
    failing = RocketMQDataSource(options | {"mode": "FAILFAST"}).reader(schema_of(columns))
    with pytest.raises(CorruptRecord, match=r"offset 2 of .*limited.* cannot be decoded"):
        _rows(failing.partitions(), failing)


def test_checksums_are_compared_unless_configured(cluster: Cluster) -> None:
    damaged = Damaged(cluster, BODY)
    assert all(row["_corrupt_reason"] is None for row in damaged.read(COLUMNS, checkCrc="false"))
    rows = damaged.read(COLUMNS)
    assert [row["queueOffset"] for row in rows if row["_corrupt_reason"] is not None] == list(BAD)
    assert len(rows) == NUMBER


def test_without_that_column_undecodable_messages_are_skipped_with_a_warning(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = Damaged(cluster, SIZE)
    with caplog.at_level(logging.WARNING, "rocketmq_py.arrow.bad_records"):
        rows = damaged.read("body")
    assert [row["body"] for row in rows] == list(damaged.good.values())
    told = [text for text in caplog.messages if "is left out" in text]
    assert [text.partition("offset ")[2].split()[0] for text in told] == [str(offset) for offset in BAD]
    assert all(damaged.topic.name in text and damaged.reason in text for text in told)


def test_a_batch_read_fails_and_names_the_position(cluster: Cluster) -> None:
    damaged = Damaged(cluster, COMPRESSION)
    with pytest.raises(CorruptRecord, match=rf"offset 17 of .*{damaged.topic.name}.* cannot be decoded") as failed:
        damaged.read(COLUMNS, batch=True)
    assert "mode=PERMISSIVE" in failed.value.__notes__[0]
    rows = damaged.read(COLUMNS, batch=True, mode="PERMISSIVE")
    assert [row["queueOffset"] for row in rows if row["_corrupt_reason"] is not None] == list(BAD)


@pytest.mark.parametrize("wanted", [{"tags": "B"}, {"sql": "TAGS = 'B'"}])
def test_under_a_filter_undecodable_messages_are_logged(cluster: Cluster, wanted: dict[str, str]) -> None:
    damaged = Damaged(cluster, SHORT)
    rows = damaged.read(COLUMNS, **wanted)
    assert [row["body"] for row in rows if row["_corrupt_reason"] is None] == [
        body for body in damaged.good.values() if int(body) % 2
    ]
    bad = [row["queueOffset"] for row in rows if row["_corrupt_reason"] is not None]
    assert {17, 41} <= set(bad) <= set(BAD), "18 is of another tag, which a broker need not see"
    assert len(bad) == len(set(bad))


class Task:
    """What Spark tells a task of a streaming query."""

    def __init__(self, **properties: str) -> None:
        self._properties = properties

    def getLocalProperty(self, name: str) -> str:  # noqa: N802 - PySpark's name
        return self._properties[name.replace(".", "_")]

    def partitionId(self) -> int:  # noqa: N802
        return 3


def test_dead_letters_name_their_origin_and_can_be_resent(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(sql_streaming_queryId="q-1", streaming_sql_batchId="7")
    monkeypatch.setattr(TaskContext, "get", lambda: task)
    damaged = Damaged(cluster, COMPRESSION)
    group, topic = f"g-{damaged.topic.name}", damaged.topic
    assert len(damaged.read("body", mode="DLQ", groupId=group)) == NUMBER - len(BAD)
    cli = Cli(topic.namesrv)
    shown = eventually(lambda: cli.dead_letters(group), lambda rows: len(rows) == len(BAD))
    letters = {int(row["properties"]["SPARK_SOURCE_OFFSET"]): row for row in shown}
    assert letters.keys() == {*BAD}
    letter = letters[17]
    assert (letter["body"], letter["origin"], letter["keys"], letter["tags"]) == ("17", topic.name, "k17", "B")
    assert damaged.reason in letter["properties"]["SPARK_BAD_REASON"]
    assert letter["properties"]["SPARK_SOURCE_QUEUE"] == "0"
    assert (letter["properties"]["SPARK_QUERY_ID"], letter["properties"]["SPARK_BATCH_ID"]) == ("q-1", "7")
    assert letter["properties"]["SPARK_ROW_KEY"].endswith("-0-17")
    cli.ok("dlq", "resend", group, "--yes")
    rows = eventually(lambda: damaged.read("body", batch=True, mode="PERMISSIVE"), lambda rows: len(rows) == NUMBER)
    assert sorted(int(row["body"]) for row in rows) == topic.bodies, "all are there, those that were bad once more"


def test_the_dead_letter_of_a_torn_record_contains_its_bytes(cluster: Cluster) -> None:
    damaged = Damaged(cluster, LENGTH)
    damaged.read("body", mode="DLQ", dlqTopic="torn")
    with Admin(cluster.namesrv) as admin:
        letters = [message for queue in admin.queues("torn") for message in admin.read(queue)]
    found = {int(message.properties["SPARK_SOURCE_OFFSET"]): message.body for message in letters}
    assert found == damaged.records


def test_a_row_of_an_undecodable_message_needs_nullable_columns(cluster: Cluster) -> None:
    source = RocketMQDataSource({"namesrv": cluster.namesrv, "subscribe": "t"})
    columns = "queueOffset body _corrupt_record"
    source.streamReader(schema_of(columns, not_null="queueOffset"))
    with pytest.raises(ConfigError, match="column body may be null"):
        source.streamReader(schema_of(columns, not_null="body"))


def test_the_first_of_several_undecodable_records_is_reported() -> None:
    one = pack(">i", 100) + bytes(96)
    assert whole_record(one + b"another") == one
    assert whole_record(pack(">i", 1000) + bytes(96)) == pack(">i", 1000) + bytes(96)
    assert whole_record(b"xy") == b"xy"
