"""What goes into the store and what comes out of it.

Plain data. Knows no files.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from rocketmq_py.store.write.batches import UniformMessages

NO_HOST = bytes(8)


class NewRecord(msgspec.Struct, gc=False):
    """A message to append.

    :param tags_code: what its consume queue entry holds: the hash of its tags, or a deliver timestamp.
    :param sys_flag: as on the wire; the bits for IPv6 hosts are set from the lengths of the hosts. The transaction
        types prepared and rollback get queue offset 0 and no consume queue entry.
    :param born_host: packed, 8 or 20 bytes.
    :param uniq_key: unique key, and ``keys``: further keys separated by spaces; both only for the index.
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
    """The body of a SEND_BATCH_MESSAGE to append: one record per message, consecutive offsets.

    :param properties: stored properties appended to those of every message.
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
    """Messages of one shape to append next to each other, with consecutive offsets.

    :param prepared: where the half message of each is, if they end transactions.
    :param born: when and where each was born, in 16 bytes; then ``born_timestamp`` and ``born_host`` do not matter.
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
    """Where a record went. ``size`` is that of the whole record, ``store_timestamp`` milliseconds."""

    queue_offset: int
    physical_offset: int
    store_timestamp: int
    size: int


class AppendedBatch(msgspec.Struct):
    """Where a batch went: the first queue offset, every physical offset, the bytes of all records."""

    queue_offset: int
    physical_offsets: list[int]
    store_timestamp: int
    size: int


class Arrival(msgspec.Struct):
    """New messages of one queue that have become readable.

    ``entries`` holds physical offset, size and tags code of each, one after the other.
    """

    topic: str
    queue_id: int
    queue_offset: int
    next_offset: int
    store_timestamp: int
    entries: list[int]

    @property
    def tags_codes(self) -> list[int]:
        return self.entries[2::3]


class GetStatus(enum.Enum):
    """How a read of a queue ended; the members of Java's GetMessageStatus."""

    FOUND = enum.auto()
    NO_MATCHED_MESSAGE = enum.auto()
    MESSAGE_WAS_REMOVING = enum.auto()
    OFFSET_FOUND_NULL = enum.auto()
    OFFSET_OVERFLOW_BADLY = enum.auto()
    OFFSET_OVERFLOW_ONE = enum.auto()
    OFFSET_TOO_SMALL = enum.auto()
    NO_MATCHED_LOGIC_QUEUE = enum.auto()
    NO_MESSAGE_IN_QUEUE = enum.auto()


class GetResult(msgspec.Struct, gc=False):
    """Messages of a queue: ``count`` records back to back in ``body``.

    ``body`` is a view of the log only where the reader allowed it. ``next_offset`` is where to go on.
    ``suggest_slave`` says that the reader is further behind the end of the log than memory reaches.
    """

    status: GetStatus
    body: bytes | memoryview
    count: int
    next_offset: int
    min_offset: int
    max_offset: int
    suggest_slave: bool = False


class QueryResult(msgspec.Struct, gc=False):
    """Records found by key, oldest first, and how far the index reaches."""

    body: bytes
    count: int
    index_last_update_timestamp: int
    index_last_update_phyoffset: int


class Boundary(enum.Enum):
    """Which offset a search by time wants: the first not before the time, or the last not after it."""

    LOWER = "lower"
    UPPER = "upper"
