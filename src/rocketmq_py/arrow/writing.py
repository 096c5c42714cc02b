"""Send the rows of Arrow data as messages: :func:`write`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode
from rocketmq_py.arrow.options.compression import COMPRESS_OVER, BodyCompression
from rocketmq_py.arrow.options.security import Security
from rocketmq_py.arrow.sink.blocks import Block, BlockWriter
from rocketmq_py.arrow.sink.rows import RowStamp, RowWriter, check_columns
from rocketmq_py.arrow.sink.sender import BatchSender
from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.arrow.sink.task_keys import TaskKeys
from rocketmq_py.client.name_servers import name_server_addresses
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import check_group, check_topic
from rocketmq_py.tls import Tls, client_context
from rocketmq_py.wire.compression import CompressionType
from rocketmq_py.wire.signing import Credentials

_KINDS = {
    "topic": pa.string(),
    "body": pa.binary(),
    "tags": pa.string(),
    "keys": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "flag": pa.int32(),
    "shardingKey": pa.string(),
    "queueId": pa.int32(),
    "delayLevel": pa.int32(),
    "deliverAt": pa.timestamp("us", tz="UTC"),
}


def write(  # noqa: PLR0913 - all but the data have defaults
    data: Any,
    topic: str | None = None,
    *,
    namesrv: str | Sequence[str] | None = None,
    group: str = "arrow_sink",
    timeout: float = 10.0,
    retries: int = 7,
    compression: CompressionType | None = None,
    compress_over: int = COMPRESS_OVER,
    tls: Tls = None,
    credentials: Credentials | None = None,
) -> int:
    """Send each row as a message; return the number of rows when brokers have stored all of them.

    A row may be stored twice if a broker's answer is lost. Rows with the same sharding key stay in order.

    :param data: a table, record batch or stream of Arrow; or what has ``__arrow_c_stream__``, as frames of pandas and
        Polars. Columns: ``body`` (bytes or string), and those of the Spark sink.
    :param topic: the topic of every row; None takes it from column ``topic``.
    :param namesrv: name servers as of the clients; None takes NAMESRV_ADDR from the environment.
    :param group: the producer group.
    :param timeout: seconds to wait for a response.
    :param retries: attempts after the first one.
    :param compression: compresses bodies; None does not. LZ4 and ZSTD need the ``compression`` extra.
    :param compress_over: bodies of fewer bytes, on average of a record batch, are sent as they are.
    :raises ConfigError: a column is unknown, missing or of the wrong type.
    :raises MessageIllegal: every broker would refuse a row; rows before it may be stored.
    :raises RocketMQError: a message could not be stored after all retries.
    """
    stream = _stream(data)
    names = stream.schema.names
    check_columns(names, check_topic(topic) if topic is not None else None)
    kinds = _kinds(stream.schema)
    settings = SendSettings(
        namesrv=tuple(name_server_addresses(namesrv)), producer_group=check_group(group),
        timeout=timeout, retries=retries,
        in_flight=4, max_batch_bytes=256 * 1024,
        compression=None if compression is None else BodyCompression(compression, compress_over),
        security=Security(tls=client_context(tls), credentials=credentials),
    )  # fmt: skip
    keys, bad, written = TaskKeys(), BadRecordPolicy(Mode.FAILFAST, ""), 0
    rows = RowWriter(names, topic, RowStamp("", None, 0, is_written=False), keys.one, settings.compression)
    blocks = BlockWriter(names, topic, rows, keys.reserve)
    with closing(BatchSender(settings, bad)) as sender:
        for batch in stream:
            for one in blocks.messages(batch.cast(kinds), bad, sender.bound):
                if isinstance(one, Block):
                    sender.send_block(one)
                    written += one.rows
                else:
                    sender.send(one)
                    written += 1
        sender.flush()
    return written


def _stream(data: Any) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not hasattr(data, "__arrow_c_stream__"):
        raise ConfigError(f"Arrow data is expected (with __arrow_c_stream__), not {type(data).__name__}")
    return pa.RecordBatchReader.from_stream(data)


def _kinds(schema: pa.Schema) -> pa.Schema:
    """Return the schema to which rows are cast.

    :raises ConfigError: a column is of another kind.
    """
    for field in schema:
        if not _is_like(field.type, _KINDS[field.name]):
            raise ConfigError(f"column {field.name} must be {_KINDS[field.name]}, it is {field.type}")
    return pa.schema([(name, _KINDS[name]) for name in schema.names])


def _is_like(found: Any, kind: Any) -> bool:
    types = pa.types
    if types.is_null(found):
        return True
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    blobs = (types.is_binary, types.is_large_binary, types.is_binary_view)
    if types.is_string(kind) or types.is_binary(kind):
        return any(is_one(found) for is_one in (texts if types.is_string(kind) else texts + blobs))
    if types.is_map(kind):
        return bool(types.is_map(found))
    if types.is_timestamp(kind):
        return bool(types.is_timestamp(found) and found.tz)
    return bool(types.is_integer(found))
