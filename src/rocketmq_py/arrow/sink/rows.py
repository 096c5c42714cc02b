"""Encode rows of a DataFrame as messages, and check the columns of a sink. No IO; ``sink`` checks Spark's types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from rocketmq_py.arrow.bad_records import BadRecordPolicy, dead_letter
from rocketmq_py.arrow.options.compression import BodyCompression
from rocketmq_py.arrow.row_properties import ATTEMPT, BATCH_ID, QUERY_ID, ROW_KEY
from rocketmq_py.errors import ConfigError, MessageIllegal
from rocketmq_py.properties import Property, encode_properties
from rocketmq_py.protocol.names import MAX_MESSAGE_SIZE, topic_fault
from rocketmq_py.wire.batch import MAX_PROPERTIES

COLUMNS = ("topic", "body", "tags", "keys", "properties", "flag", "shardingKey", "queueId", "delayLevel", "deliverAt")
"""The columns that a sink accepts; only ``body`` is always required."""

ROW_KEY_DIGITS = 9
"""Minimum number of digits of a row's number in its key. Brokers store keys of equal length faster."""

DELAYS = frozenset({Property.DELAY_LEVEL, Property.TIMER_DELIVER_MS, Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS})
"""Properties that delay a message. Rows must not set them: the columns ``delayLevel`` and ``deliverAt`` do that."""
NOT_COPIED = frozenset(
    {
        *(Property.WAIT_STORE, Property.RETRY_TOPIC, Property.REAL_TOPIC, Property.REAL_QUEUE_ID),
        *(Property.TRANSACTION_PREPARED, Property.PRODUCER_GROUP, Property.TRANSACTION_ID, Property.UNIQUE_KEY),
        *(Property.MIN_OFFSET, Property.MAX_OFFSET, Property.ORIGIN_MESSAGE_ID, Property.RECONSUME_TIME),
        *(Property.MAX_RECONSUME_TIMES, Property.CONSUME_START_TIME, Property.MSG_REGION, Property.TRACE_SWITCH),
        *(Property.CLUSTER, Property.INNER_NUM, Property.INNER_BASE, Property.POP_CK, Property.CRC32),
        *(QUERY_ID, BATCH_ID, ROW_KEY, ATTEMPT),
    }
)
"""Properties that brokers and clients set; they are not copied from one topic to another."""


class RowMessage(NamedTuple):
    """A message to send: to the queue that ``queue_id`` or ``sharding_key`` selects, else to any queue of the topic.

    :ivar properties: encoded; they include ``row_key``, ``unique_key`` and a delay.
    :ivar waits: True if the message has a delay.
    :ivar flag: the number that applications may give a message.
    :ivar sys_flag: says how ``body`` is compressed; 0 if it is not.
    """

    topic: str
    body: bytes
    properties: bytes
    sharding_key: str | None
    queue_id: int | None
    row_key: str = ""
    unique_key: str = ""
    waits: bool = False
    flag: int = 0
    sys_flag: int = 0


class RowStamp(NamedTuple):
    """The properties that identify the task which wrote a row.

    :ivar batch_id: the micro-batch; None in a batch write.
    :ivar partition: number of the Spark partition.
    :ivar extra: further properties of every row.
    :ivar is_written: whether messages have these properties and the row's key; false outside of Spark.
    """

    query_id: str
    batch_id: str | None
    partition: int
    extra: Mapping[str, str] = MappingProxyType({})
    is_written: bool = True

    @property
    def properties(self) -> dict[str, str]:
        """The message properties of every row of the task."""
        batch = {} if self.batch_id is None else {BATCH_ID: self.batch_id}
        return {QUERY_ID: self.query_id, **batch, **self.extra}


class RowWriter:
    """Encodes the rows of one task, in order.

    :param columns: names of the columns of the rows.
    :param topic: the topic of every row; None takes it from column ``topic``.
    :param stamp: see :class:`RowStamp`.
    :param unique_key: returns a new unique key (client message id).
    :param compression: how to compress bodies; None not to.
    :ivar stamp: properties of every message.
    :ivar partition: number of the Spark partition.
    :ivar names_rows: whether each message has the key of its row as a property.
    :ivar count: number of rows encoded until now, which is also the number of the next row.
    """

    def __init__(
        self,
        columns: Sequence[str],
        topic: str | None,
        stamp: RowStamp,
        unique_key: Callable[[], str],
        compression: BodyCompression | None = None,
    ) -> None:
        self._at = {name: columns.index(name) if name in columns else None for name in COLUMNS}
        self._topic = topic
        self._unique_key = unique_key
        self.compression = compression
        self.stamp = {Property.WAIT_STORE: "true", **(stamp.properties if stamp.is_written else {})}
        self.names_rows = stamp.is_written
        self.partition = stamp.partition
        self.count = 0

    def pass_over(self, rows: int) -> None:
        """Add to :attr:`count` a number of rows that another object encodes."""
        self.count += rows

    def messages(self, rows: Iterable[Sequence[Any]], bad: BadRecordPolicy) -> Iterator[RowMessage]:
        """Encode rows as messages; a row that every broker would refuse becomes a dead letter, or is skipped.

        :raises MessageIllegal: there is such a row, and policy ``bad`` makes that an error.
        """
        for row in rows:
            try:
                message = self.message(row)
            except MessageIllegal as e:
                if bad.is_dead_letter(e):
                    yield self.dead_letter(row, str(e), bad.where)
            else:
                yield message

    def message(self, row: Sequence[Any]) -> RowMessage:
        """Encode the next row.

        :raises MessageIllegal: every broker would refuse the message; the error names the row.
        """
        self.count += 1
        try:
            return self._message(row)
        except MessageIllegal as e:
            raise MessageIllegal(f"row {self.count - 1} of partition {self.partition}: {e}") from e

    def dead_letter(self, row: Sequence[Any], reason: str, where: str) -> RowMessage:
        """Return the dead letter, to topic ``where``, for the row that :meth:`message` has just refused."""
        key, unique_key = self._row_key(), self._unique_key()
        named = {Property.UNIQUE_KEY: unique_key, **self.stamp, ROW_KEY: key}
        for name, column in ((Property.KEYS, "keys"), (Property.TAGS, "tags"), (Property.SHARDING_KEY, "shardingKey")):
            if text := self._value(row, column):
                named[name] = text
        value, origin = self._value(row, "body"), self._topic or self._value(row, "topic")
        body, properties = dead_letter(value.encode() if isinstance(value, str) else value, named, origin, reason)
        return RowMessage(where, body, properties, None, None, key, unique_key)

    def _message(self, row: Sequence[Any]) -> RowMessage:
        topic = self._topic or self._value(row, "topic")
        fault = topic_fault(topic or "")
        if fault:
            raise MessageIllegal(fault)
        sharding_key = self._value(row, "shardingKey")
        row_key, unique_key = self._row_key(), self._unique_key()
        delay = _delay(self._value(row, "delayLevel"), self._value(row, "deliverAt"))
        properties = self._properties(row, sharding_key, row_key, unique_key, delay)
        body, queue_id = _body(self._value(row, "body")), self._value(row, "queueId")
        flag, compression, sys_flag = self._value(row, "flag") or 0, self.compression, 0
        if compression is not None and len(body) >= compression.over:
            body, sys_flag = compression.compressed(body), compression.sys_flag
        return RowMessage(
            topic, body, properties, sharding_key, queue_id, row_key, unique_key, bool(delay), flag, sys_flag
        )

    def _row_key(self) -> str:
        return f"{self.partition}-{self.count - 1:0{ROW_KEY_DIGITS}d}"

    def _value(self, row: Sequence[Any], name: str) -> Any:
        at = self._at[name]
        return None if at is None else row[at]

    def _properties(
        self, row: Sequence[Any], sharding_key: str | None, row_key: str, unique_key: str, delay: Mapping[str, str]
    ) -> bytes:
        properties = _user_properties(self._value(row, "properties"))
        for name, value in (
            (Property.TAGS, self._value(row, "tags")),
            (Property.KEYS, self._value(row, "keys")),
            (Property.SHARDING_KEY, sharding_key),
        ):
            if value:
                properties[name] = _plain(name, value)
        properties[Property.UNIQUE_KEY] = unique_key
        properties.update(self.stamp)
        if self.names_rows:
            properties[ROW_KEY] = row_key
        properties.update(delay)
        raw = encode_properties(properties)
        if len(raw) > MAX_PROPERTIES:
            raise MessageIllegal(f"its properties take {len(raw)} bytes, {MAX_PROPERTIES} are allowed")
        return raw


def _body(value: bytes | str | None) -> bytes:
    body = value.encode() if isinstance(value, str) else value
    if not body:
        raise MessageIllegal("its body is null or empty, which brokers refuse")
    if len(body) > MAX_MESSAGE_SIZE:
        raise MessageIllegal(f"its body is {len(body)} bytes long, {MAX_MESSAGE_SIZE} are allowed")
    return bytes(body)


def _delay(level: int | None, at: datetime | None) -> dict[str, str]:
    """Return the property of a delayed message; empty without a delay.

    :raises MessageIllegal: both columns are set, or the level is negative.
    """
    if level and at is not None:
        raise MessageIllegal("it has a delayLevel and a deliverAt, which contradict each other")
    if level is not None and level < 0:
        raise MessageIllegal(f"its delayLevel is {level}; levels are numbered from 1")
    if at is not None:
        return {Property.TIMER_DELIVER_MS: str(int(at.timestamp() * 1000))}
    return {Property.DELAY_LEVEL: str(level)} if level else {}


def _user_properties(value: Mapping[str, str] | Iterable[tuple[str, str]] | None) -> dict[str, str]:
    """Return the properties of column ``properties``, without those that are not copied between topics.

    :param value: a map, or a list of pairs, as Arrow returns a map.
    :raises MessageIllegal: a property asks for a delay or contains a separator.
    """
    properties: dict[str, str] = {}
    for name, text in dict(value or {}).items():
        if name in DELAYS:
            raise MessageIllegal(f"property {name} is a delay: use column delayLevel or deliverAt")
        if text and name not in NOT_COPIED:
            properties[_plain("properties", name)] = _plain(name, text)
    return properties


def _plain(where: str, text: str) -> str:
    if "\x01" in text or "\x02" in text:
        raise MessageIllegal(f"{where} holds the control character 1 or 2, which separates properties")
    return text


def check_columns(columns: Sequence[str], topic: str | None, *, exactly_once: bool = False) -> None:
    """Check the column names of a DataFrame that is to be written.

    :param topic: option ``topic``; None if it is not set.
    :raises ConfigError: a column is unknown, missing, contradicts another, or is not for exactly-once.
    """
    strangers = [name for name in columns if name not in COLUMNS]
    if strangers:
        raise ConfigError(f"a sink has no column {strangers[0]!r}; it has {', '.join(COLUMNS)}")
    if "body" not in columns:
        raise ConfigError("a sink needs a column body (binary or string)")
    if topic is None and "topic" not in columns:
        raise ConfigError("a sink needs option topic, or a column topic")
    if topic is not None and "topic" in columns:
        raise ConfigError("option topic and column topic contradict each other: drop one of them")
    if exactly_once and (waiting := {"delayLevel", "deliverAt"}.intersection(columns)):
        raise ConfigError(f"column {min(waiting)} is not for deliveryGuarantee=exactly-once: a transaction cannot wait")
    if "queueId" in columns and "shardingKey" in columns:
        raise ConfigError("columns queueId and shardingKey contradict each other: drop one of them")
