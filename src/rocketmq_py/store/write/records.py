"""Arguments and results of the store's methods, as plain data."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from rocketmq_py.store.write.batches import UniformMessages

NO_HOST = bytes(8)


class NewRecord(msgspec.Struct, gc=False):
    """A message to append.

    :param tags_code: tags code of the consume queue entry: the hash of the tags, or a delivery timestamp.
    :param sys_flag: as on the wire; the bits for IPv6 hosts are set from the lengths of the hosts. Records of the
        transaction types prepared and rollback get queue offset 0 and no consume queue entry.
    :param born_host: packed, 8 or 20 bytes.
    :param uniq_key: unique key, for the index.
    :param keys: further keys separated by spaces, for the index.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    tags_code: int = 0
    sys_flag: int = 0
    flag: int = 0
    born_timestamp: int = 0
    born_host: bytes = NO_HOST
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    uniq_key: str | None = None
    keys: str | None = None


class NewBatch(msgspec.Struct, gc=False):
    """The body of a SEND_BATCH_MESSAGE to append: one record per message, with consecutive offsets.

    :param properties: encoded properties appended to those of every message.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: bytes = b""
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: bytes = NO_HOST
    reconsume_times: int = 0


class UniformBatch(msgspec.Struct, gc=False):
    """Uniform messages to append, adjacent in the log and with consecutive queue offsets.

    :param prepared: physical offset of the half message of each, if they commit transactions.
    :param born: encoded born timestamp and host of each, 16 bytes; replaces ``born_timestamp`` and ``born_host``.
    """

    topic: str
    queue_id: int
    shape: UniformMessages
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: bytes = NO_HOST
    reconsume_times: int = 0
    prepared: Sequence[int] = ()
    born: Sequence[bytes] = ()


class Appended(msgspec.Struct, gc=False):
    """Offsets, store timestamp (milliseconds) and size (bytes) of an appended record."""

    queue_offset: int
    physical_offset: int
    store_timestamp: int
    size: int


class AppendedBatch(msgspec.Struct):
    """First queue offset, all physical offsets, store timestamp (milliseconds) and total bytes of an appended batch."""

    queue_offset: int
    physical_offsets: list[int]
    store_timestamp: int
    size: int


class GetStatus(enum.Enum):
    """Result of reading a queue: the members of Java's GetMessageStatus, and REBUILDING: nothing can be read yet."""

    FOUND = enum.auto()
    NO_MATCHED_MESSAGE = enum.auto()
    MESSAGE_WAS_REMOVING = enum.auto()
    OFFSET_FOUND_NULL = enum.auto()
    OFFSET_OVERFLOW_BADLY = enum.auto()
    OFFSET_OVERFLOW_ONE = enum.auto()
    OFFSET_TOO_SMALL = enum.auto()
    NO_MATCHED_LOGIC_QUEUE = enum.auto()
    NO_MESSAGE_IN_QUEUE = enum.auto()
    REBUILDING = enum.auto()


class GetResult(msgspec.Struct, gc=False):
    """Messages of a queue: ``count`` concatenated records in ``body``.

    ``body`` is a view of the log only if the caller allowed it. ``next_offset`` is the offset of the next read.
    ``suggest_slave`` is true if the messages are too far from the end of the log to be in memory.
    ``damaged`` are the offsets before ``next_offset`` without a record in ``body`` because it is damaged in the log.
    """

    status: GetStatus
    body: bytes | memoryview
    count: int
    next_offset: int
    min_offset: int
    max_offset: int
    suggest_slave: bool = False
    damaged: tuple[int, ...] = ()


class QueryResult(msgspec.Struct, gc=False):
    """Records found by key or tag, concatenated, oldest first.

    The last two fields are store timestamp (milliseconds) and physical offset of the newest entry of the index.
    """

    body: bytes
    count: int
    index_last_update_timestamp: int
    index_last_update_phyoffset: int


class Boundary(enum.Enum):
    """What a search by time returns the offset of.

    LOWER: the first message stored at the time or later. UPPER: the last message stored at the time or earlier.
    """

    LOWER = "lower"
    UPPER = "upper"
