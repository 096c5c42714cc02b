"""What users hold in their hands: messages, queues, results and the names of choices.

Knows names and meaning. Refuses to know bytes (``wire``) and how messages travel (``client``).
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rocketmq_py.errors import ConfigError
from rocketmq_py.properties import Property as Property, decode_properties  # noqa: PLC0414  (part of the model)


class MessageModel(enum.Enum):
    """Who of a consumer group receives a message: one member, or every member."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFromWhere(enum.Enum):
    """Where a consumer group without a stored offset starts."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SendStatus(enum.Enum):
    """What a broker did with an accepted message; each of them means it is stored."""

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12


class ConsumeResult(enum.Enum):
    """What a listener of a concurrent consumer says about a batch."""

    SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class OrderlyResult(enum.Enum):
    """What a listener of an orderly consumer says about a batch.

    ``SUSPEND``: consume it again after a moment, and nothing else of its queue before. ``COMMIT`` and ``ROLLBACK``
    mean what they say when the listener has switched ``auto_commit`` off: everything since the last commit is done, or
    is consumed again. With ``auto_commit`` they mean ``SUCCESS``.
    """

    SUCCESS = "SUCCESS"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    SUSPEND = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


class TransactionState(enum.Enum):
    """How a local transaction ended, as far as one knows.

    ``UNKNOWN``: the broker is to ask later.
    """

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker; sorts as Java's does: topic, broker, queue id."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"


class SendResult(NamedTuple):
    """Where a sent message was stored.

    ``msg_id`` is the client-made unique key (a comma list for a batch), ``offset_msg_id`` the broker's id that encodes
    store address and commit log offset, ``queue_offset`` the position in ``queue`` (of the first message of a batch).
    Of a message that waits for its time, ``recall_handle`` is what :meth:`~rocketmq_py.Producer.recall` takes.
    ``trace_on`` tells whether the broker wants messages traced.
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
    """What came of a message sent in a transaction.

    ``half`` tells where its half message was stored (``queue`` is the queue it is for), ``state`` what the broker was
    told, ``failure`` what kept the local transaction from saying more, or the broker from being told: it will ask.
    """

    half: SendResult
    state: TransactionState
    failure: Exception | None = None

    @property
    def transaction_id(self) -> str:
        """The id of the transaction, which is the unique key of the message."""
        return self.half.transaction_id or self.half.msg_id


_LONGEST_SECONDS = 1e12


def _join_keys(keys: str | Iterable[str]) -> str:
    return keys if isinstance(keys, str) else " ".join(keys)


_SECONDS_OF_OUR_TIME = range(10**9, 10**11)
"""As milliseconds these are days of 1970 to 1973, as seconds the years 2001 to 5138: what is meant is clear."""


def _timed(
    delay_level: int, delay: float | datetime.timedelta | None, deliver_at: datetime.datetime | int | None
) -> dict[str, str]:
    """The property that asks a broker for a delivery time.

    :raises ConfigError: there are several, or one is no time.
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


class Message:
    """A message to send.

    :param topic: the topic it goes to.
    :param body: its content; ``str`` is encoded as UTF-8.
    :param tags: one tag, for cheap filtering on the broker.
    :param keys: one key, several separated by spaces, or an iterable; indexed by the broker for look-up.
    :param sharding_key: messages with the same key go to the same queue when sent in order.
    :param delay_level: 1-18, one of the broker's fixed delays (1 s ... 2 h); 0 delivers at once.
    :param delay: seconds, or a timedelta, after which it is delivered, counted by the broker, to the millisecond.
    :param deliver_at: when it is delivered: a datetime (one without a time zone is local time) or milliseconds since
        the epoch. Brokers deliver at once what is over, and refuse what is further away than they allow (3 days).
    :param flag: 32 bits for the application.
    :param wait_store_ok: wait for flush and replication as the broker is configured (default True).
    :param properties: further properties; names of :class:`Property` are reserved.
    :raises ConfigError: more than one of ``delay_level``, ``delay`` and ``deliver_at``, or one that is no time.
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
        flag: int = 0,
        wait_store_ok: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.topic = topic
        self.body = body.encode() if isinstance(body, str) else bytes(body)
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
        props["WAIT"] = "true" if wait_store_ok else "false"
        self.properties = props

    @property
    def tags(self) -> str | None:
        return self.properties.get("TAGS")

    @tags.setter
    def tags(self, value: str) -> None:
        self.properties["TAGS"] = value

    @property
    def keys(self) -> str | None:
        """Keys separated by one space."""
        return self.properties.get("KEYS")

    @keys.setter
    def keys(self, value: str | Iterable[str]) -> None:
        self.properties["KEYS"] = _join_keys(value)

    @property
    def sharding_key(self) -> str | None:
        return self.properties.get("__SHARDINGKEY")

    @property
    def delay_level(self) -> int:
        return int(self.properties.get("DELAY", "0"))

    @property
    def wait_store_ok(self) -> bool:
        return self.properties.get("WAIT", "true") != "false"

    @property
    def msg_id(self) -> str | None:
        """The unique key, once the producer has set it."""
        return self.properties.get("UNIQ_KEY")

    def __repr__(self) -> str:
        return f"Message(topic={self.topic!r}, {len(self.body)} bytes, tags={self.tags!r}, keys={self.keys!r})"


class RecordHead(NamedTuple):
    """The fixed fields of a stored message, in the order of the layout.

    ``born_host`` and ``store_host`` are packed: 4 or 16 bytes of address and 4 bytes of port.
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

    ``body`` is already decompressed; properties are decoded when first looked at. ``queue_offset`` is the position in
    the queue, ``commit_log_offset`` the position in the broker's log, timestamps are milliseconds since the epoch.
    """

    __slots__ = ("_added", "_head", "_properties", "_raw_properties", "body", "broker_name", "queue_offset",
                 "reconsume_times", "topic", "transaction_id")  # fmt: skip

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
    def head(self) -> RecordHead:
        """The fixed fields as stored."""
        return RecordHead._make(self._head)

    @property
    def properties(self) -> dict[str, str]:
        """System and user properties; the dictionary is this message's own."""
        props = self._properties
        if props is None:
            props = self._properties = decode_properties(self._raw_properties)
            if self._added:
                props.update(self._added)
        return props

    def add_properties(self, extra: Mapping[str, str]) -> None:
        """Adds what a client learns on receipt; before the properties are first looked at it costs no decoding."""
        if self._properties is not None:
            self._properties.update(extra)
        else:
            self._added = {**self._added, **extra} if self._added else extra

    @property
    def raw_properties(self) -> bytes:
        """The properties as stored, without changes made to :attr:`properties`."""
        return self._raw_properties

    @property
    def tags(self) -> str | None:
        return self.properties.get("TAGS")

    @property
    def keys(self) -> str | None:
        return self.properties.get("KEYS")

    @property
    def sharding_key(self) -> str | None:
        return self.properties.get("__SHARDINGKEY")

    @property
    def delay_level(self) -> int:
        return int(self.properties.get("DELAY", "0"))

    @property
    def msg_id(self) -> str:
        """The unique key the producer gave it, or the broker's id when there is none."""
        return self.properties.get("UNIQ_KEY") or self.offset_msg_id

    @property
    def offset_msg_id(self) -> str:
        """Store address and commit log offset in hexadecimal, as the broker's queries take it."""
        store_host: bytes = self._head[11]
        return f"{store_host.hex()}{self._head[6] & 0xFFFFFFFFFFFFFFFF:016x}".upper()

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self._head[3])

    @property
    def store_size(self) -> int:
        return int(self._head[0])

    @property
    def body_crc(self) -> int:
        return int(self._head[2])

    @property
    def queue_id(self) -> int:
        return int(self._head[3])

    @property
    def flag(self) -> int:
        return int(self._head[4])

    @property
    def commit_log_offset(self) -> int:
        return int(self._head[6])

    @property
    def sys_flag(self) -> int:
        return int(self._head[7])

    @property
    def born_timestamp(self) -> int:
        return int(self._head[8])

    @property
    def born_host(self) -> str:
        return unpack_host(self._head[9])

    @property
    def store_timestamp(self) -> int:
        return int(self._head[10])

    @property
    def store_host(self) -> str:
        return unpack_host(self._head[11])

    @property
    def prepared_transaction_offset(self) -> int:
        return int(self._head[13])

    def __repr__(self) -> str:
        return f"MessageExt({self.queue} offset={self.queue_offset}, {len(self.body)} bytes, msg_id={self.msg_id})"


class PullStatus(enum.Enum):
    """How a pull ended."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


class PullResult(NamedTuple):
    """What a pull found. ``next_offset`` is where the next one goes on, whatever the status; ``min_offset`` and
    ``max_offset`` are the bounds of the queue.
    """

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[MessageExt]


def unpack_host(packed: bytes) -> str:
    """``ip:port`` of a packed IPv4 (8 bytes) or IPv6 (20 bytes) address."""
    port = int.from_bytes(packed[-4:], "big")
    if len(packed) == 8:
        return f"{packed[0]}.{packed[1]}.{packed[2]}.{packed[3]}:{port}"
    groups = ":".join(f"{int.from_bytes(packed[i : i + 2], 'big'):x}" for i in range(0, 16, 2))
    return f"[{groups}]:{port}"
