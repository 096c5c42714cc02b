"""The options of writes: their meanings, defaults and rules. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rocketmq_py.arrow.bad_records import Mode
from rocketmq_py.arrow.options.compression import COMPRESS_OVER, compression_type
from rocketmq_py.arrow.options.shared import SHARED, ClusterOptions
from rocketmq_py.arrow.options.values import Parse, mode, natural, positive, words
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import check_group, check_topic
from rocketmq_py.wire.compression import CompressionType


class Guarantee(Enum):
    """Values of option ``deliveryGuarantee``: how often consumers may receive a row of a stream."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(ClusterOptions):
    """Options of ``df.write`` and ``df.writeStream``.

    A failed send is retried on another broker, unless a queue id or sharding key binds the row to its queue.

    :ivar topic: the topic of every row; without it each row needs a column ``topic``.
    :ivar producer_group: the producer group of the messages (default ``spark_sink``).
    :ivar max_batch_bytes: size limit in bytes of the batches in which rows of one queue are sent (default 262144).
    :ivar compression: how bodies are compressed: ``zlib``, ``lz4``, ``zstd`` or ``none`` (default). LZ4 and zstd need
        the ``compression`` extra, also where consumers read.
    :ivar compress_over: bodies of fewer bytes are sent as they are (default 4096); rows that come together as one Arrow
        record batch are compressed, or not, by the average size of their bodies.
    :ivar sends_in_flight: upper limit for the concurrent send requests of one task (default 4).
    :ivar mode: how to treat rows that every broker would refuse (too large, illegal topic, no body): ``PERMISSIVE``
        skips them with a warning, ``FAILFAST`` fails, ``DLQ`` sends them to ``dlqTopic`` with the reason. Default:
        ``PERMISSIVE`` for a stream, ``FAILFAST`` for a batch write.
    :ivar dlq_topic: topic for bad rows (default ``%DLQ%`` and the producer group); ``rocketmq dlq`` shows them.
    :ivar delivery_guarantee: ``at-least-once`` (default), or ``exactly-once`` (streams only): consumers receive each
        row of a micro-batch once, after the micro-batch is committed as one transaction.
    :ivar transactions_location: directory or URI where an exactly-once query stores whether each micro-batch is
        committed; it must outlive the driver. Default: ``rocketmq`` in the query's checkpointLocation.
    :ivar in_checkpoint: ``transactions_location`` is that default, so it lies in Spark's checkpoint. Derived; not an
        option of the user.
    :ivar commit_timeout_ms: how long an exactly-once query waits, after a crash or a broken connection, for brokers to
        check back the outcome of its transactions (default 600000).
    """

    topic: str | None = None
    producer_group: str = "spark_sink"
    max_batch_bytes: int = 256 * 1024
    compression: CompressionType | None = None
    compress_over: int = COMPRESS_OVER
    sends_in_flight: int = 4
    mode: Mode = Mode.FAILFAST
    dlq_topic: str | None = None
    delivery_guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    transactions_location: str | None = None
    in_checkpoint: bool = False
    commit_timeout_ms: int = 600_000


def _guarantee(text: str) -> Guarantee:
    try:
        return Guarantee(text.strip().lower())
    except ValueError:
        raise ConfigError("at-least-once or exactly-once is expected") from None


WRITE: dict[str, Parse] = SHARED | {
    "topic": check_topic,
    "producerGroup": check_group,
    "maxBatchBytes": positive,
    "compression": compression_type,
    "compressOver": natural,
    "sendsInFlight": positive,
    "mode": mode,
    "dlqTopic": check_topic,
    "deliveryGuarantee": _guarantee,
    "transactionsLocation": words,
    "commitTimeoutMs": positive,
}


def take_checkpoint(given: dict[str, Any], options: Mapping[str, str]) -> None:
    """Set ``transactions_location`` in ``given`` to its default, directory ``rocketmq`` in Spark's checkpointLocation.

    Also sets ``in_checkpoint`` then. Changes nothing if the user gives option ``transactionsLocation``.

    :param given: parsed values by option name in snake case; changed in place.
    :param options: all options of the query as Spark passes them, including Spark's own.
    :raises ConfigError: neither ``checkpointLocation`` nor ``transactionsLocation`` is given, or Spark's option
        ``asyncProgressTrackingEnabled`` is true, with which a query cannot be exactly-once.
    """
    engine = {name.lower(): text for name, text in options.items()}
    if engine.get("asyncprogresstrackingenabled", "").lower() == "true":
        raise ConfigError(
            "option deliveryGuarantee=exactly-once needs the offsets of every micro-batch before it is written: leave"
            " out asyncProgressTrackingEnabled"
        )
    checkpoint = engine.get("checkpointlocation")
    if not checkpoint and "transactions_location" not in given:
        raise ConfigError(
            "option deliveryGuarantee=exactly-once needs option checkpointLocation of this writeStream (one that is"
            " only set for the session is not known here), or transactionsLocation"
        )
    if "transactions_location" not in given:
        given.update({"transactions_location": f"{(checkpoint or '').rstrip('/')}/rocketmq", "in_checkpoint": True})
