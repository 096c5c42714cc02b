"""The options of writes. Pure, as ``options``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import check_group, check_topic
from rocketmq_py.spark.decode.bad_records import Mode
from rocketmq_py.spark.options.shared import SHARED, ClusterOptions
from rocketmq_py.spark.options.values import Parse, mode, positive, words


class Guarantee(Enum):
    """How often a row of a stream is delivered."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(ClusterOptions):
    """Options of ``df.write`` and ``df.writeStream``; a row that is not bound to a queue is tried on another broker.

    :ivar topic: the topic of every row; without it each row needs a column ``topic``.
    :ivar producer_group: the group the messages are sent under (default ``spark_sink``).
    :ivar max_batch_bytes: rows of one queue are sent together up to so many bytes (default 262144).
    :ivar sends_in_flight: sends in flight from one task (default 4).
    :ivar mode: what is done about rows no broker would take (too large, illegal topic, no body): ``PERMISSIVE`` leaves
        them out with a warning, ``FAILFAST`` fails, ``DLQ`` sends them to ``dlqTopic`` with the reason. Default:
        ``PERMISSIVE`` for a stream, ``FAILFAST`` for a batch write.
    :ivar dlq_topic: where bad rows go (default ``%DLQ%`` and the producer group); ``rocketmq dlq`` shows them.
    :ivar delivery_guarantee: ``at-least-once`` (default), or ``exactly-once`` (streams only): the rows of a micro-batch
        are seen by consumers once, after it was decided as a whole.
    :ivar transactions_location: where an exactly-once query keeps its decisions: a directory or URI that outlives the
        driver. Default: ``rocketmq`` in its checkpointLocation.
    :ivar in_checkpoint: whether that default holds: Spark has written into the checkpoint before. No option.
    :ivar commit_timeout_ms: how long an exactly-once query waits for brokers to ask how transactions ended, after a
        crash or a broken connection (default 600000).
    """

    topic: str | None = None
    producer_group: str = "spark_sink"
    max_batch_bytes: int = 256 * 1024
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
    "sendsInFlight": positive,
    "mode": mode,
    "dlqTopic": check_topic,
    "deliveryGuarantee": _guarantee,
    "transactionsLocation": words,
    "commitTimeoutMs": positive,
}


def take_checkpoint(given: dict[str, Any], options: Mapping[str, str]) -> None:
    """Put the decisions of an exactly-once query into its checkpoint, unless another location is given.

    :param options: all options of the query, Spark's own among them.
    :raises ConfigError: the query cannot be exactly-once, or its checkpoint is not known.
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
