"""The options of reads: their meanings, defaults and rules. No IO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rocketmq_py.arrow.bad_records import Mode
from rocketmq_py.arrow.fetched import DecoderChoice
from rocketmq_py.arrow.options import values
from rocketmq_py.arrow.options.offsets import Boundary, FromGroup, Position, Times
from rocketmq_py.arrow.options.selection import Selection
from rocketmq_py.arrow.options.shared import SHARED, ClusterOptions, check_dlq_topic
from rocketmq_py.arrow.options.stores import StoreDirectory, checked, store_directories
from rocketmq_py.arrow.options.values import Parse
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import check_group, check_topic, dlq_topic
from rocketmq_py.wire.compression import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(ClusterOptions):
    """Options of ``spark.read`` and ``spark.readStream``.

    :ivar stores: option ``storePath``: directories of brokers' stores, ``[NAME=]PATH`` or ``[NAME=]URI``, separated by
        ``;``, which are read instead of brokers: batch read only, without ``namesrv``. NAME is the value of column
        ``brokerName`` (default: the last part of PATH). ``storePathCommitLog`` names the directory of the commit log if
        it is not in the one store that is read.
    :ivar selection: exactly one of ``subscribe`` (topics, separated by commas), ``subscribePattern`` (a regular
        expression of Python that whole topic names match) and ``assign`` (JSON ``{topic: {broker: [queue, ...]}}``).
    :ivar start: the first of these that is given: ``startingTimestamp`` (ms since 1970, or relative to
        now as ``-10 minutes``: messages stored then or later),
        ``startingOffsetsByTimestamp`` (JSON, one for every queue), ``startingOffsets`` (``earliest``, ``latest``,
        ``group``, or JSON ``{topic: {broker: {queue: offset}}}`` naming every queue, where -2 is earliest and -1
        latest). Default: earliest for a batch read, latest for a stream. A stream uses it in its first run only; later
        runs start from the checkpoint. ``startingOffsetsByTimestampStrategy`` applies to queues without a message
        stored at or after the time: ``error`` (default) fails, ``latest`` (default for
        relative times) starts at the queue's end.
    :ivar end: ``endingTimestamp``, ``endingOffsetsByTimestamp`` or ``endingOffsets``, with values as for ``start``,
        except that earliest and ``group`` are refused; offsets are exclusive. Batch read only. Default: latest.
    :ivar group: option ``groupId``: the consumer group under which messages are pulled. A stream commits the offsets of
        completed micro-batches to it; ``startingOffsets=group`` starts at its committed offsets. Default: no group, and
        no offsets are committed.
    :ivar fail_on_data_loss: fail if messages of the read were deleted (default true); false: log a warning, skip them.
    :ivar max_offsets_per_trigger: upper limit for the messages of one micro-batch; queues get shares in proportion to
        their lag. Default: no limit. PySpark 4.2 or later.
    :ivar max_bytes_per_trigger: upper limit for the stored bytes of one micro-batch, as an option also with a unit
        (``64m``). It is kept approximately: each micro-batch pulls a few messages of each topic to estimate their size.
        Default: no limit. PySpark 4.2 or later.
    :ivar min_offsets_per_trigger: start a micro-batch only when this many messages are waiting, or
        ``max_trigger_delay`` seconds (as an option with a unit, default ``15m``) after the previous micro-batch.
        Default: start at once. PySpark 4.2 or later.
    :ivar min_partitions: lower limit for the number of Spark partitions; long queues are split to reach it. Default:
        one partition for each queue, except that queues with few messages share one.
    :ivar max_records_per_partition: upper limit for the messages of one Spark partition. Default: no limit.
    :ivar tags: read only messages with one of these tags (``a || b``); brokers filter.
    :ivar sql: read only messages whose properties match an SQL92 expression; brokers filter, which needs their setting
        ``enablePropertyFilter``.
    :ivar columns: the columns of the read, in this order. Default: all but ``properties`` and the columns for messages
        that cannot be decoded.
    :ivar body_type: ``binary`` (default) or ``string``.
    :ivar include_properties: add the column ``properties`` (default false).
    :ivar push_filters: accept Spark's pushed-down filters on topic, brokerName, queueId, queueOffset, storeTimestamp
        and tags, and do not read messages that they exclude. Batch only; PySpark 4.1 or later with the session's
        ``spark.sql.python.filterPushdown.enabled=true``. Default: false.
    :ivar offset_lookup_interval_ms: shortest time between two requests for the latest offsets (default 100); Spark asks
        an idle stream's source every 12 ms.
    :ivar poll_name_server_interval_ms: time between two lookups of new and deleted topics and queues (default 30000, as
        in RocketMQ's clients).
    :ivar pulls_in_flight: upper limit for the concurrent pull requests of one queue (default 256; fewer if responses
        are large).
    :ivar mode: how to treat messages that cannot be decoded: ``PERMISSIVE`` returns a row with the bytes and the reason
        if the schema has one of the columns for them (see ``schema``), else skips them with a warning; ``FAILFAST``
        fails; ``DLQ`` sends them to ``dlqTopic`` with the reason. Default: ``PERMISSIVE`` for a stream, ``FAILFAST``
        for a batch read.
    :ivar dlq_topic: topic for messages that cannot be decoded, with mode ``DLQ`` (default: ``%DLQ%`` and ``groupId``).
    :ivar check_crc: compare each body with the checksum its broker stored (default true).
    :ivar decoder: ``auto`` (default) decodes with ``rocketmq-py-native`` if it is installed, else with NumPy; ``numpy``
        always uses NumPy; ``compiled`` fails if ``rocketmq-py-native`` is not installed.
    :ivar max_decompressed_body: largest size in bytes of one body after decompression (default 128 MiB); a message
        with a larger one counts as not decodable, see ``mode``.
    :ivar max_decompressed_batch: bytes of decompressed bodies in one record batch (default 64 MiB); a larger body gets
        a batch to itself.
    """

    selection: Selection
    stores: tuple[StoreDirectory, ...] = ()
    start: Position | None = None
    end: Position = Boundary.LATEST
    group: str | None = None
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay: float = 900.0
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    tags: tuple[str, ...] = ()
    sql: str | None = None
    columns: tuple[str, ...] | None = None
    body_type: str = "binary"
    include_properties: bool = False
    push_filters: bool = False
    offset_lookup_interval_ms: int = 100
    poll_name_server_interval_ms: int = 30_000
    pulls_in_flight: int = 256
    mode: Mode = Mode.FAILFAST
    dlq_topic: str | None = None
    check_crc: bool = True
    decoder: DecoderChoice = DecoderChoice.AUTO
    max_decompressed_body: int = 128 * MIB
    max_decompressed_batch: int = 64 * MIB


READ: dict[str, Parse] = SHARED | {
    "storePath": store_directories,
    "storePathCommitLog": values.words,
    "subscribe": values.topics,
    "subscribePattern": values.pattern,
    "assign": values.assignment,
    "startingOffsets": values.starting,
    "startingTimestamp": values.moment,
    "startingOffsetsByTimestamp": values.times,
    "startingOffsetsByTimestampStrategy": values.or_latest,
    "endingOffsets": values.ending,
    "endingTimestamp": values.moment,
    "endingOffsetsByTimestamp": values.times,
    "groupId": check_group,
    "failOnDataLoss": values.boolean,
    "maxOffsetsPerTrigger": values.positive,
    "maxBytesPerTrigger": values.byte_size,
    "minOffsetsPerTrigger": values.positive,
    "maxTriggerDelay": values.duration,
    "minPartitions": values.positive,
    "maxRecordsPerPartition": values.positive,
    "tags": values.tags,
    "sql": values.sql,
    "columns": values.columns,
    "bodyType": values.body_type,
    "includeProperties": values.boolean,
    "pushFilters": values.boolean,
    "offsetLookupIntervalMs": values.natural,
    "pollNameServerIntervalMs": values.positive,
    "pullsInFlight": values.positive,
    "mode": values.mode,
    "dlqTopic": check_topic,
    "checkCrc": values.boolean,
    "decoder": values.decoder_choice,
    "maxDecompressedBody": values.positive,
    "maxDecompressedBatch": values.positive,
}
STREAM_ONLY = (
    *("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("offsetLookupIntervalMs", "pollNameServerIntervalMs"),
)
BATCH_ONLY = ("storePath", "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "pushFilters")


_OF_BROKERS = {
    "namesrv": "namesrv",
    "groupId": "group_id",
    "dlqTopic": "dlq_topic",
    "requestTimeoutMs": "request_timeout_ms",
    "numRetries": "num_retries",
    "pullsInFlight": "pulls_in_flight",
    "tls and accessKey": "security",
}
"""Options that have no meaning without a broker."""


def resolve_read(given: dict[str, Any], use: str) -> None:
    """Replace the parsed options in ``given`` by the arguments of :class:`ReadOptions`, and check that they agree.

    :param given: parsed values by option name in snake case; changed in place.
    :param use: kind of read, as a phrase for error messages, such as ``a batch read``.
    :raises ConfigError: options contradict each other, or a required one is missing.
    """
    _resolve_stores(given)
    _resolve_selection(given, use)
    _resolve_positions(given)
    _rename(given)
    _resolve_dead_letters(given)
    if given.get("sql") and given.get("tags"):
        raise ConfigError("options tags and sql are both given: choose one; in SQL the tag of a message is TAGS")
    if given.get("columns") and "include_properties" in given:
        raise ConfigError("option includeProperties is of no use with option columns: name the column properties there")
    least, most = given.get("min_offsets_per_trigger"), given.get("max_offsets_per_trigger")
    if least and most and least > most:
        raise ConfigError(f"option minOffsetsPerTrigger={least} is above maxOffsetsPerTrigger={most}")
    if "max_trigger_delay" in given and not least:
        raise ConfigError("option maxTriggerDelay is of use with minOffsetsPerTrigger only")


def _resolve_stores(given: dict[str, Any]) -> None:
    commit_log, stores = given.pop("store_path_commit_log", None), given.pop("store_path", ())
    if commit_log is not None:
        if len(stores) != 1:
            raise ConfigError("option storePathCommitLog needs option storePath with one store")
        stores = checked([stores[0]._replace(commit_log=commit_log)])
    if not stores:
        return
    for option, name in _OF_BROKERS.items():
        if name in given:
            raise ConfigError(f"option {option}: a read of option storePath has no broker")
    if given.get("mode") is Mode.DLQ:
        raise ConfigError("option mode=DLQ needs a broker: read with storePath and mode=PERMISSIVE")
    given.update(stores=stores, namesrv=())


def _resolve_selection(given: dict[str, Any], use: str) -> None:
    named = {"subscribe": "subscribe", "subscribe_pattern": "subscribePattern", "assign": "assign"}
    found = {option: given.pop(name) for name, option in named.items() if name in given}
    if len(found) > 1:
        raise ConfigError(f"options {' and '.join(found)} are both given: exactly one says what is read")
    if not found:
        raise ConfigError(
            f"option subscribe is required for {use} with format rocketmq (or subscribePattern, or assign)"
        )
    (given["selection"],) = found.values()


def _resolve_positions(given: dict[str, Any]) -> None:
    or_latest = given.pop("starting_offsets_by_timestamp_strategy", None)
    start = _position(given, "starting", or_latest=or_latest)
    end = _position(given, "ending", or_latest=True)
    if start == values.GROUP:
        if "group_id" not in given:
            raise ConfigError("option startingOffsets=group needs option groupId, the group to begin at")
        start = FromGroup(given["group_id"])
    if or_latest is not None and not isinstance(start, Times):
        raise ConfigError("option startingOffsetsByTimestampStrategy is of use with a starting timestamp only")
    given.update({name: at for name, at in (("start", start), ("end", end)) if at is not None})


def _position(given: dict[str, Any], prefix: str, *, or_latest: bool | None) -> Any:
    everywhere = given.pop(f"{prefix}_timestamp", None)
    by_queue = given.pop(f"{prefix}_offsets_by_timestamp", None)
    offsets = given.pop(f"{prefix}_offsets", None)
    if everywhere is None and by_queue is None:
        return offsets
    times = [everywhere] if everywhere is not None else by_queue.values()
    if or_latest is None:  # a queue in which nothing was stored lately is no mistake
        or_latest = all(time < 0 for time in times)
    return Times(everywhere, None, or_latest) if everywhere is not None else Times(0, by_queue, or_latest)


def _resolve_dead_letters(given: dict[str, Any]) -> None:
    check_dlq_topic(given)
    if given.get("mode") is Mode.DLQ and "dlq_topic" not in given:
        if "group" not in given:
            raise ConfigError("option mode=DLQ needs option groupId, whose dead letters they will be, or dlqTopic")
        given["dlq_topic"] = dlq_topic(given["group"])


def _rename(given: dict[str, Any]) -> None:
    if "group_id" in given:
        given["group"] = given.pop("group_id")
