"""The batch and streaming sinks: at least once by default, exactly once for streams that set ``deliveryGuarantee``.

``blocks`` (Arrow batches) and ``rows`` encode messages, ``sender`` sends them. A task that fails and is repeated sends
its messages again; properties ``SPARK_QUERY_ID``, ``SPARK_BATCH_ID`` and ``SPARK_ROW_KEY`` identify a row. Exactly-once
streams write in two phases (``exactly_once``).

What only tasks use is imported in their methods: the writers are also made or loaded in two processes that Spark starts
for every batch write and every micro-batch, where Arrow and NumPy would take half of the time.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, IntegerType, MapType, StringType, StructType, TimestampType

from rocketmq_py.arrow.bad_records import BadRecordPolicy
from rocketmq_py.arrow.options.compression import BodyCompression
from rocketmq_py.arrow.sink.rows import RowStamp, RowWriter, check_columns
from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import dlq_topic
from rocketmq_py.spark.decision_store import stores
from rocketmq_py.spark.decision_store.decisions import Decisions
from rocketmq_py.spark.options.write import Guarantee, WriteOptions
from rocketmq_py.spark.runtime.workers import keep_imports
from rocketmq_py.spark.sink.exactly_once import Committer, Preparation, Prepared

if TYPE_CHECKING:
    from rocketmq_py.arrow.sink.sender import BatchSender
    from rocketmq_py.arrow.sink.task_keys import TaskKeys

try:  # PySpark 4.1 and later
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:
    SUPPORTS_ARROW_STREAMS = False
else:
    SUPPORTS_ARROW_STREAMS = True

_TYPES: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "body": (BinaryType(), StringType()),
    "tags": (StringType(),),
    "keys": (StringType(),),
    "properties": (MapType(StringType(), StringType()), MapType(StringType(), StringType(), valueContainsNull=False)),
    "flag": (IntegerType(),),
    "shardingKey": (StringType(),),
    "queueId": (IntegerType(),),
    "delayLevel": (IntegerType(),),
    "deliverAt": (TimestampType(),),
}


@dataclass
class Written(WriterCommitMessage):
    """The result of a task that Spark sends to the driver: the number of stored rows."""

    rows: int


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """Check the columns of a DataFrame that is to be written.

    :raises ConfigError: a column is unknown, missing, contradictory or of the wrong type.
    """
    exactly_once = options.delivery_guarantee is Guarantee.EXACTLY_ONCE
    check_columns(schema.fieldNames(), options.topic, exactly_once=exactly_once)
    for column in schema.fields:
        allowed = _TYPES[column.name]
        if column.dataType not in allowed:
            names = " or ".join(kind.simpleString() for kind in allowed[:2] if not isinstance(kind, MapType))
            raise ConfigError(
                f"column {column.name} must be {names or 'map<string,string>'}, it is {column.dataType.simpleString()}"
            )


@dataclass
class PreparedTask(WriterCommitMessage):
    """The result of a task of an exactly-once stream that Spark sends to the driver: its half messages."""

    prepared: Prepared


class TaskWriter:
    """Writes the rows of one task, for all writers. Pickled and sent to executors."""

    def __init__(self, options: WriteOptions, schema: StructType, query_id: str | None = None) -> None:
        check_schema(schema, options)
        self._options = options
        self._columns = schema.fieldNames()
        self._query_id = query_id

    def write(self, rows: Iterable[Sequence[Any]]) -> Written:
        """Send all rows; return when brokers have stored all of them."""
        from rocketmq_py.arrow.sink.task_keys import TaskKeys

        written = 0
        with self._sending(TaskKeys()) as (writer, bad, sender):
            for message in writer.messages(rows, bad):
                sender.send(message)
                written += 1
        return Written(written)

    def write_batches(self, batches: Iterable[Any]) -> Written:
        """Send the rows of Arrow record batches; return when brokers have stored all of them."""
        from rocketmq_py.arrow.sink.blocks import Block, BlockWriter
        from rocketmq_py.arrow.sink.task_keys import TaskKeys

        written, keys = 0, TaskKeys()
        with self._sending(keys) as (writer, bad, sender):
            blocks = BlockWriter(self._columns, self._options.topic, writer, keys.reserve)
            for batch in batches:
                for one in blocks.messages(batch, bad, sender.bound):
                    if isinstance(one, Block):
                        sender.send_block(one)
                        written += one.rows
                    else:
                        sender.send(one)
                        written += 1
        return Written(written)

    def prepare(self, rows: Iterable[Sequence[Any]]) -> PreparedTask:
        """Send a half message for every row; return when brokers have stored all of them."""
        return PreparedTask(self._preparation().rows(rows))

    def prepare_batches(self, batches: Iterable[Any]) -> PreparedTask:
        """Send a half message for every row of Arrow record batches; return when brokers have stored all of them."""
        return PreparedTask(self._preparation().batches(batches))

    def _preparation(self) -> Preparation:
        from rocketmq_py.arrow.sink.task_keys import TaskKeys

        keep_imports()
        options, keys = self._options, TaskKeys()
        settings, bad = send_settings(options), bad_records(options)
        return Preparation(self._columns, options.topic, self._stamp(), settings, keys.one, keys.reserve, bad)

    @contextmanager
    def _sending(self, keys: TaskKeys) -> Iterator[tuple[RowWriter, BadRecordPolicy, BatchSender]]:
        """Context with an encoder of rows, the policy for bad rows and a sender; leaving it flushes the sender."""
        from rocketmq_py.arrow.sink.sender import BatchSender

        keep_imports()
        bad = bad_records(self._options)
        settings = send_settings(self._options)
        sender = BatchSender(settings, bad)
        writer = RowWriter(self._columns, self._options.topic, self._stamp(), keys.one, settings.compression)
        try:
            yield writer, bad, sender
            sender.flush()
        finally:
            sender.close()

    def _stamp(self) -> RowStamp:
        return task_stamp(self._query_id)


def task_stamp(query_id: str | None = None) -> RowStamp:
    """Return the ids of query, micro-batch and partition of the Spark task that runs in this process.

    :param query_id: the id of a batch write, which has no micro-batch; None takes both ids from a stream's task.
    """
    context = TaskContext.get()
    if context is None:
        return RowStamp(query_id or "", None, 0)
    if query_id is not None:
        return RowStamp(query_id, None, context.partitionId())
    query, batch = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
    return RowStamp(query or "", batch, context.partitionId())


def send_settings(options: WriteOptions) -> SendSettings:
    """Return the settings of senders from the options of a write."""
    kind = options.compression
    return SendSettings(
        namesrv=options.namesrv,
        producer_group=options.producer_group,
        timeout=options.timeout,
        retries=options.num_retries,
        in_flight=options.sends_in_flight,
        max_batch_bytes=options.max_batch_bytes,
        security=options.security,
        compression=None if kind is None else BodyCompression(kind, options.compress_over),
    )


def bad_records(options: WriteOptions) -> BadRecordPolicy:
    """Return the policy for bad rows from the options of a write."""
    return BadRecordPolicy(options.mode, options.dlq_topic or dlq_topic(options.producer_group))


class BatchWriter(DataSourceArrowWriter):
    """Writer of ``df.write.format("rocketmq").mode("append")``, at least once."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        super().__init__()
        self._task = TaskWriter(options, schema, query_id=uuid.uuid4().hex)

    def write(self, iterator: Iterator[Any]) -> Written:
        return self._task.write_batches(iterator)


class _StreamWriter:
    """The methods of a streaming writer that are the same for all PySpark versions.

    :raises ConfigError: Python cannot write to the location for the decisions of an exactly-once stream.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._task = TaskWriter(options, schema)
        self._options = options
        self._is_exact = options.delivery_guarantee is Guarantee.EXACTLY_ONCE
        if options.transactions_location is not None and self._is_exact:
            stores.check(options.transactions_location, os.environ)

    def write_rows(self, rows: Iterable[Sequence[Any]]) -> WriterCommitMessage:
        """Send the rows of a task; for an exactly-once stream, as half messages."""
        return self._task.prepare(rows) if self._is_exact else self._task.write(rows)

    def write_batches(self, batches: Iterable[Any]) -> WriterCommitMessage:
        """Send the rows of Arrow record batches of a task; for an exactly-once stream, as half messages."""
        return self._task.prepare_batches(batches) if self._is_exact else self._task.write_batches(batches)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit the micro-batch of an exactly-once stream; do nothing for an at-least-once stream."""
        if self._is_exact:
            self.committer().commit(_prepared(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Roll back half messages that no decision commits; do nothing for an at-least-once stream.

        An at-least-once stream has stored some rows then, and sends them again when Spark repeats the micro-batch.
        """
        if self._is_exact:
            complete = all(isinstance(message, PreparedTask) for message in messages)
            self.committer().abort(_prepared(messages), batchId, complete=complete)

    def committer(self) -> Committer:
        """Return the object that carries out the second phase of an exactly-once micro-batch."""
        options = self._options
        assert options.transactions_location is not None  # every exactly-once query has one
        sibling = "metadata" if options.in_checkpoint else None  # Spark writes this file at a query's first start
        decisions = Decisions.at(options.transactions_location, sibling)
        return Committer(send_settings(options), decisions, options.commit_timeout_ms / 1000)


def _prepared(messages: Iterable[WriterCommitMessage | None]) -> list[Prepared]:
    """Return the results of the tasks that succeeded."""
    return [message.prepared for message in messages if isinstance(message, PreparedTask)]


class RowStreamWriter(_StreamWriter, DataSourceStreamWriter):
    """Writer of ``df.writeStream.format("rocketmq")`` on PySpark 4.0, which passes single rows."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self.write_rows(iterator)


if SUPPORTS_ARROW_STREAMS:

    class ArrowStreamWriter(_StreamWriter, DataSourceStreamArrowWriter):
        """Writer of ``df.writeStream.format("rocketmq")`` on PySpark 4.1 and later, which passes Arrow batches."""

        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            return self.write_batches(iterator)


def stream_writer(options: WriteOptions, schema: StructType) -> DataSourceStreamWriter:
    """Return the streaming writer that fits the installed PySpark version."""
    return ArrowStreamWriter(options, schema) if SUPPORTS_ARROW_STREAMS else RowStreamWriter(options, schema)
