"""Public data types: messages, queues, results and enumerations."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rocketmq_py.errors import ConfigError, shortened
from rocketmq_py.properties import Property as Property, decode_properties  # noqa: PLC0414  (part of the model)


class MessageModel(enum.Enum):
    """How the members of a consumer group share messages.

    ``CLUSTERING``: each message is consumed by one member. ``BROADCASTING``: each message is consumed by every member.
    """

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFromWhere(enum.Enum):
    """Where a consumer group starts in a queue for which no offset is stored.

    ``LAST_OFFSET``: at the end of the queue. ``FIRST_OFFSET``: at its oldest message. ``TIMESTAMP``: at the first
    message stored at or after the consumer's ``consume_timestamp``.
    """

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SendStatus(enum.Enum):
    """Outcome of a send; in every case the broker has stored the message.

    ``SEND_OK``: flushed and replicated as the broker is configured. ``FLUSH_DISK_TIMEOUT``: the flush to disk did not
    finish in time. ``FLUSH_SLAVE_TIMEOUT``: slaves did not acknowledge in time. ``SLAVE_NOT_AVAILABLE``: too few slaves
    are in sync.
    """

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12


class ConsumeResult(enum.Enum):
    """Return value of a concurrent consumer's listener, for the batch of messages it was called with.

    ``RECONSUME_LATER``: the messages are delivered to the group again after a delay.
    """

    SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class OrderlyResult(enum.Enum):
    """Return value of an orderly consumer's listener, for the batch of messages it was called with.

    ``SUSPEND``: consume the batch again after a pause, before any other message of its queue. ``COMMIT`` and
    ``ROLLBACK`` apply when the listener has switched ``auto_commit`` off: everything since the last commit is
    committed, or is consumed again. With ``auto_commit`` they mean ``SUCCESS``.
    """

    SUCCESS = "SUCCESS"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    SUSPEND = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


class TransactionState(enum.Enum):
    """Outcome of a producer's local transaction.

    ``UNKNOWN``: not decided yet; the broker asks the producer again later.
    """

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker. Queues sort by topic, broker name and queue id, as in Java."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"


class SendResult(NamedTuple):
    """Result of a send: where the message was stored.

    ``msg_id`` is the client-made unique key (a comma list for a batch), ``offset_msg_id`` the broker's id, which
    encodes store address and commit log offset, ``queue_offset`` the position in ``queue`` (of the first message of a
    batch). ``recall_handle``, set for delayed messages, is the argument of :meth:`~rocketmq_py.Producer.recall`.
    ``trace_on`` is True if the broker has message traces switched on.
    """

    status: SendStatus
    msg_id: str
    queue: MessageQueue
    queue_offset: int
    offset_msg_id: str
    transaction_id: str | None = None
    region_id: str | None = None
    trace_on: bool = True
    recall_handle: str | None = None


class TransactionSendResult(NamedTuple):
    """Result of a message sent in a transaction.

    ``half`` is the result of sending the half message; its ``queue`` is the queue of the final message. ``state`` is
    the outcome of the local transaction. ``failure`` is the error of the local transaction, or of the report of its
    outcome to the broker, None without one; after a failure, the broker asks the producer for the outcome.
    """

    half: SendResult
    state: TransactionState
    failure: Exception | None = None

    @property
    def transaction_id(self) -> str:
        """Id of the transaction: the unique key of the message."""
        return self.half.transaction_id or self.half.msg_id


_LONGEST_SECONDS = 1e12


def _join_keys(keys: str | Iterable[str]) -> str:
    return keys if isinstance(keys, str) else " ".join(keys)


_SECONDS_OF_OUR_TIME = range(10**9, 10**11)
"""Values of ``deliver_at`` that are refused as seconds: as milliseconds they would be dates of 1970 to 1973, as seconds
they are dates of 2001 to 5138.
"""


def _timed(
    delay_level: int, delay: float | datetime.timedelta | None, deliver_at: datetime.datetime | int | None
) -> dict[str, str]:
    """Return the timer property for ``delay`` or ``deliver_at``, as a dictionary of one entry.

    :raises ConfigError: more than one option is given, or the value is not a valid time.
    """
    if delay_level or (delay is not None and deliver_at is not None):
        raise ConfigError("give one of delay_level, delay and deliver_at: a message is delivered once")
    if delay is not None:
        seconds: object = delay.total_seconds() if isinstance(delay, datetime.timedelta) else delay
        if not isinstance(seconds, int | float) or not 0 <= seconds < _LONGEST_SECONDS:
            raise ConfigError(f"delay={delay!r}: seconds or a timedelta, not negative, are expected")
        return {"TIMER_DELAY_MS": str(round(seconds * 1000))}
    if isinstance(deliver_at, datetime.datetime):
        return {"TIMER_DELIVER_MS": str(round(deliver_at.timestamp() * 1000))}
    if isinstance(deliver_at, bool) or not isinstance(deliver_at, int):
        raise ConfigError(f"deliver_at={deliver_at!r}: a datetime or milliseconds since the epoch are expected")
    if deliver_at in _SECONDS_OF_OUR_TIME:
        raise ConfigError(f"deliver_at={deliver_at}: these are seconds; milliseconds since the epoch are expected")
    return {"TIMER_DELIVER_MS": str(deliver_at)}


def _body_bytes(body: object) -> bytes:
    """Convert a message body to bytes; ``str`` is encoded as UTF-8.

    :raises TypeError: the body is neither bytes-like nor ``str``. (``bytes(body)`` would accept a number.)
    """
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    try:
        return bytes(memoryview(body))  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"body={shortened(repr(body))} is of type {type(body).__name__}: bytes-like or str is expected"
        ) from None


def _priority_text(priority: object) -> str:
    """Return the value of the priority property.

    :raises ConfigError: the priority is not a whole number from 0 to 2147483647 (Message.setPriority).
    """
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority < 2**31:
        raise ConfigError(f"priority={shortened(repr(priority))}: 0 to 2147483647 is expected")
    return str(priority)


def _priority(properties: Mapping[str, str]) -> int | None:
    """Return the priority in message properties; None if it is missing or not a whole number."""
    text = properties.get("_SYS_MSG_PRIORITY_", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _PRIORITY_DIGITS else None


_PRIORITY_DIGITS = 10


class Message:
    """A message to send.

    :param topic: name of the topic to send to.
    :param body: content of the message; ``str`` is encoded as UTF-8.
    :param tags: one tag, by which consumers can filter on the broker.
    :param keys: one key, several separated by spaces, or an iterable; indexed by the broker for queries.
    :param sharding_key: messages with the same key go to the same queue when sent in order.
    :param delay_level: 1-18, one of the broker's fixed delays (1 s ... 2 h); 0 delivers immediately.
    :param delay: delay of the delivery in seconds or as a timedelta, counted by the broker, to the millisecond.
    :param deliver_at: time of delivery: a datetime (local time if it has no time zone) or milliseconds since the epoch.
        A past time is delivered immediately; brokers refuse times beyond their limit (3 days).
    :param priority: 0 or more; brokers that support topics of type PRIORITY deliver higher ones first.
    :param flag: 32-bit integer for the application; RocketMQ only stores it.
    :param wait_store_ok: True (default): the broker answers after the flush and replication that it is configured for;
        False: it answers without waiting for them.
    :param properties: further properties; names of :class:`Property` are reserved.
    :raises TypeError: ``body`` is neither bytes-like nor ``str``.
    :raises ConfigError: more than one of ``delay_level``, ``delay`` and ``deliver_at``; one of these or ``priority`` is
        invalid.
    """

    __slots__ = ("body", "flag", "properties", "topic", "transaction_id")

    def __init__(  # noqa: PLR0913 - options by keyword
        self,
        topic: str,
        body: bytes | bytearray | memoryview | str = b"",
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        *,
        sharding_key: str | None = None,
        delay_level: int = 0,
        delay: float | datetime.timedelta | None = None,
        deliver_at: datetime.datetime | int | None = None,
        priority: int | None = None,
        flag: int = 0,
        wait_store_ok: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.topic = topic
        self.body = body if type(body) is bytes else _body_bytes(body)
        self.flag = flag
        self.transaction_id: str | None = None
        props: dict[str, str] = dict(properties) if properties else {}
        if tags:
            props["TAGS"] = tags
        if keys:
            props["KEYS"] = _join_keys(keys)
        if sharding_key is not None:
            props["__SHARDINGKEY"] = sharding_key
        if delay_level:
            if delay_level < 0:
                raise ConfigError(f"delay_level={delay_level}: 1 to 18, or 0 for none, is expected")
            props["DELAY"] = str(delay_level)
        if delay is not None or deliver_at is not None:
            props.update(_timed(delay_level, delay, deliver_at))
        if priority is not None:
            props["_SYS_MSG_PRIORITY_"] = _priority_text(priority)
        props["WAIT"] = "true" if wait_store_ok else "false"
        self.properties = props

    @property
    def tags(self) -> str | None:
        """The message's tag, by which consumers can filter; None if it has none."""
        return self.properties.get("TAGS")

    @tags.setter
    def tags(self, value: str) -> None:
        self.properties["TAGS"] = value

    @property
    def keys(self) -> str | None:
        """Keys of the message, separated by one space; None if it has none."""
        return self.properties.get("KEYS")

    @keys.setter
    def keys(self, value: str | Iterable[str]) -> None:
        self.properties["KEYS"] = _join_keys(value)

    @property
    def sharding_key(self) -> str | None:
        """Sharding key: messages with the same key go to the same queue when sent in order. None if it has none."""
        return self.properties.get("__SHARDINGKEY")

    @property
    def priority(self) -> int | None:
        """Priority of the message; None if it has none."""
        return _priority(self.properties)

    @property
    def delay_level(self) -> int:
        """Level of the broker's fixed delays, 1 to 18 by default; 0 if the message has none."""
        return int(self.properties.get("DELAY", "0"))

    @property
    def wait_store_ok(self) -> bool:
        """True if the broker answers only after the flush and replication that it is configured for."""
        return self.properties.get("WAIT", "true") != "false"

    @property
    def msg_id(self) -> str | None:
        """Unique key of the message; None until the producer has set it."""
        return self.properties.get("UNIQ_KEY")

    def __repr__(self) -> str:
        return f"Message(topic={self.topic!r}, {len(self.body)} bytes, tags={self.tags!r}, keys={self.keys!r})"


class DamagedMessage(NamedTuple):
    """A message that a consumer skipped, because it is damaged at its broker or its body cannot be decoded.

    :ivar queue: message queue of the message.
    :ivar offset: queue offset of the message; for a batch stored as one record, that of its last message.
    :ivar reason: description of the damage.
    """

    queue: MessageQueue
    offset: int
    reason: str


class RecordHead(NamedTuple):
    """The fixed-length fields of a stored message, in the order of the record layout.

    Timestamps are milliseconds since the epoch, sizes bytes. ``born_host`` and ``store_host`` are packed: 4 or 16 bytes
    of address and 4 bytes of port.
    """

    store_size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body_length: int


class MessageExt:
    """A message as a consumer receives it.

    ``body`` is decompressed; properties are decoded on first access. ``queue_offset`` is the position in
    the queue, ``commit_log_offset`` the position in the broker's log, timestamps are milliseconds since the epoch.
    """

    __slots__ = ("_added", "_arrived", "_head", "_properties", "_raw_properties", "body", "broker_name",
                 "queue_offset", "reconsume_times", "topic", "transaction_id")  # fmt: skip

    def __init__(
        self, head: tuple[Any, ...], topic: str, body: bytes, raw_properties: bytes, broker_name: str = ""
    ) -> None:
        self._head = head
        self.topic = topic
        self.body = body
        self._raw_properties = raw_properties
        self._properties: dict[str, str] | None = None
        self._added: Mapping[str, str] | None = None
        self.broker_name = broker_name
        self.queue_offset: int = head[5]
        self.reconsume_times: int = head[12]
        self.transaction_id: str | None = None

    @property
    def arrived(self) -> float | None:
        """When a push consumer received it, in seconds of ``time.monotonic()``; None if no hook needs the time."""
        return getattr(self, "_arrived", None)

    @arrived.setter
    def arrived(self, seconds: float) -> None:
        self._arrived = seconds

    @property
    def head(self) -> RecordHead:
        """The fixed-length fields of the stored record."""
        return RecordHead._make(self._head)

    @property
    def properties(self) -> dict[str, str]:
        """System and user properties by name. Changes to the dictionary apply to this object only."""
        props = self._properties
        if props is None:
            props = self._properties = decode_properties(self._raw_properties)
            if self._added:
                props.update(self._added)
        return props

    def add_properties(self, extra: Mapping[str, str]) -> None:
        """Add or replace properties, without decoding the stored ones yet; clients call this on receipt."""
        if self._properties is not None:
            self._properties.update(extra)
        else:
            self._added = {**self._added, **extra} if self._added else extra

    @property
    def raw_properties(self) -> bytes:
        """The encoded properties of the stored record, without changes made to :attr:`properties`."""
        return self._raw_properties

    @property
    def tags(self) -> str | None:
        """The message's tag, by which consumers can filter; None if it has none."""
        return self.properties.get("TAGS")

    @property
    def keys(self) -> str | None:
        """Keys of the message, separated by one space; None if it has none."""
        return self.properties.get("KEYS")

    @property
    def sharding_key(self) -> str | None:
        """Sharding key: messages with the same key are sent to the same queue. None if it has none."""
        return self.properties.get("__SHARDINGKEY")

    @property
    def priority(self) -> int | None:
        """Priority of the message; None if it has none."""
        return _priority(self.properties)

    @property
    def delay_level(self) -> int:
        """Level of the broker's fixed delays, 1 to 18 by default; 0 if the message has none."""
        return int(self.properties.get("DELAY", "0"))

    @property
    def msg_id(self) -> str:
        """Unique key set by the producer; :attr:`offset_msg_id` if it set none."""
        return self.properties.get("UNIQ_KEY") or self.offset_msg_id

    @property
    def offset_msg_id(self) -> str:
        """The broker's id of the message: store address and commit log offset in hexadecimal, for queries by id."""
        store_host: bytes = self._head[11]
        return f"{store_host.hex()}{self._head[6] & 0xFFFFFFFFFFFFFFFF:016x}".upper()

    @property
    def queue(self) -> MessageQueue:
        """The message queue that holds the message."""
        return MessageQueue(self.topic, self.broker_name, self._head[3])

    @property
    def store_size(self) -> int:
        """Size of the stored record in bytes."""
        return int(self._head[0])

    @property
    def body_crc(self) -> int:
        """CRC-32 of the body as it is stored, compressed if it is; the highest bit is 0."""
        return int(self._head[2])

    @property
    def queue_id(self) -> int:
        """The number of the queue on its broker."""
        return int(self._head[3])

    @property
    def flag(self) -> int:
        """The flag that the application set; 0 by default."""
        return int(self._head[4])

    @property
    def commit_log_offset(self) -> int:
        """Byte offset of the record in the broker's commit log."""
        return int(self._head[6])

    @property
    def sys_flag(self) -> int:
        """Bits of the protocol's sysFlag: compression, transaction state, IPv6 hosts."""
        return int(self._head[7])

    @property
    def born_timestamp(self) -> int:
        """When the producer sent the message, in milliseconds since the epoch."""
        return int(self._head[8])

    @property
    def born_host(self) -> str:
        """Address of the producer as ``ip:port``."""
        return unpack_host(self._head[9])

    @property
    def store_timestamp(self) -> int:
        """When the broker stored the message, in milliseconds since the epoch."""
        return int(self._head[10])

    @property
    def store_host(self) -> str:
        """Address of the broker as ``ip:port``."""
        return unpack_host(self._head[11])

    @property
    def prepared_transaction_offset(self) -> int:
        """Commit log offset of the half message of a transaction; 0 for other messages."""
        return int(self._head[13])

    def __repr__(self) -> str:
        return f"MessageExt({self.queue} offset={self.queue_offset}, {len(self.body)} bytes, msg_id={self.msg_id})"


class PullStatus(enum.Enum):
    """Outcome of a pull: messages, none stored at the offset yet, none that match the filter, or an illegal offset."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


class PullResult(NamedTuple):
    """Result of a pull. ``next_offset`` is the offset to pull from next, whatever the status. ``min_offset`` is the
    queue's first offset, ``max_offset`` the offset of the next message to be stored.
    """

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[MessageExt]


def unpack_host(packed: bytes) -> str:
    """Return the text of a packed address and port: ``ip:port`` of 8 bytes (IPv4), ``[ip]:port`` of 20 (IPv6)."""
    port = int.from_bytes(packed[-4:], "big")
    if len(packed) == 8:
        return f"{packed[0]}.{packed[1]}.{packed[2]}.{packed[3]}:{port}"
    groups = ":".join(f"{int.from_bytes(packed[i : i + 2], 'big'):x}" for i in range(0, 16, 2))
    return f"[{groups}]:{port}"
