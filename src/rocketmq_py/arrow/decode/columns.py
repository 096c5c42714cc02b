"""The columns of a read: the Arrow type of each, and how it is computed from many records or from one message.

``of_records`` decodes many regular records at once; ``of_message`` takes the value from a message that the plain codec
decoded. Both must return equal values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_py.arrow.bad_records import CORRUPT_REASON, CORRUPT_RECORD
from rocketmq_py.arrow.decode.arrays import constant, fixed, numbers, repeated, texts
from rocketmq_py.arrow.decode.layout import Irregular, Layout
from rocketmq_py.arrow.decode.properties import Pairs
from rocketmq_py.arrow.decode.slices import gather
from rocketmq_py.model import MessageExt, unpack_host
from rocketmq_py.properties import Property
from rocketmq_py.wire.compression import DEFAULT_LIMITS, MIB, DecompressionLimits, decompress
from rocketmq_py.wire.ids import offset_msg_id
from rocketmq_py.wire.record import COMPRESSED


class BodyLimits(NamedTuple):
    """Limits for decompressed bodies.

    :param max_body: bytes of one body; a message with a larger one counts as not decodable.
    :param max_batch: bytes of the decompressed bodies of one record batch; a larger body gets a batch to itself.
    """

    max_body: int = DEFAULT_LIMITS.max_body
    max_batch: int = 64 * MIB

    @property
    def of_one(self) -> DecompressionLimits:
        """The limits for decompressing a single body."""
        return DecompressionLimits(self.max_body, self.max_body)


class TooLarge(Exception):
    """The decompressed bodies exceed the limit of one record batch: the caller decodes fewer records at once."""


class Budget:
    """Counts the decompressed bytes of one record batch.

    :param limit: the maximum number of bytes.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._is_first = True

    def spend(self, size: int) -> None:
        """Count a decompressed body of ``size`` bytes.

        :raises TooLarge: the limit is exceeded, and this is not the only body.
        """
        self._left -= size
        if self._left < 0 and not self._is_first:
            raise TooLarge
        self._is_first = False


TIMESTAMP = pa.timestamp("us", tz="UTC")
PROPERTIES = pa.map_(pa.string(), pa.string())


class Records:
    """Consecutive records of one broker with the same layout, and values that several columns need."""

    def __init__(self, layout: Layout, broker_name: str, limits: BodyLimits = BodyLimits()) -> None:  # noqa: B008 - immutable
        self.limits = limits
        self.layout = layout
        self.broker_name = broker_name

    def __len__(self) -> int:
        return len(self.layout)

    @cached_property
    def pairs(self) -> Pairs:
        """The properties of all records, located when the first column needs them."""
        return Pairs(self.layout)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a read.

    :ivar kind: its Arrow type.
    :ivar of_records: returns the Arrow array for many records.
    :ivar of_message: returns the value for one message.
    """

    kind: Any
    of_records: Callable[[Records], Any]
    of_message: Callable[[MessageExt], object]


def _topic(records: Records) -> Any:
    topic = records.layout.only_topic()
    if topic is None:
        raise Irregular("records of several topics")
    return repeated(topic.decode(), len(records))


def _int(name: str, dtype: type[np.int32 | np.int64], kind: Any) -> Callable[[Records], Any]:
    return lambda records: fixed(records.layout.int_field(name, dtype), kind)


def _timestamp(name: str) -> Callable[[Records], Any]:
    return lambda records: fixed(records.layout.int_field(name, np.int64) * 1000, TIMESTAMP)


def _microseconds(milliseconds: int) -> int:
    """Convert a timestamp; one of a damaged record that is out of range wraps around, as in :func:`_timestamp`."""
    return (milliseconds * 1000 + (1 << 63)) % (1 << 64) - (1 << 63)


def _property(name: str) -> Callable[[Records], Any]:
    return lambda records: records.pairs.column(name)


def _body(records: Records) -> Any:
    layout = records.layout
    bodies = gather(layout.data, layout.body_start, layout.body_length, pa.binary())
    compressed = np.flatnonzero(layout.head["sysFlag"] & COMPRESSED)
    return _inflate(bodies, compressed, records) if len(compressed) else bodies


def _inflate(bodies: Any, compressed: Any, records: Records) -> Any:
    """Return ``bodies`` with the elements at the indexes ``compressed`` decompressed.

    :raises CorruptBody: a body does not decompress, or is too large.
    :raises TooLarge: the decompressed bodies exceed the limit of one record batch.
    """
    limits = records.limits
    flags = records.layout.int_field("sysFlag", np.int32)
    budget, plain = Budget(limits.max_batch), []
    for i in compressed.tolist():
        plain.append(decompress(bodies[i].as_py(), int(flags[i]), limits.of_one.budget()))
        budget.spend(len(plain[-1]))
    index = np.arange(len(bodies), dtype=np.int64)
    index[compressed] = len(bodies) + np.arange(len(plain))
    return pa.concat_arrays([bodies, texts(plain, pa.binary())]).take(fixed(index, pa.int64()))


def _msg_id(records: Records) -> Any:
    """Return each message's unique key (client message id), or its offset message id if it has no unique key."""
    keys = records.pairs.column("UNIQ_KEY")
    if not keys.null_count:
        return keys
    head = records.layout.head
    ids = [b""] * len(keys)
    for i in np.flatnonzero(numbers(keys.is_null())).tolist():
        ids[i] = offset_msg_id(head["storeHost"][i].tobytes(), int(head["physicalOffset"][i])).encode()
    return pc.coalesce(keys, texts(ids, pa.string()))


def _host(name: str) -> Callable[[Records], Any]:
    """Return a function that gives ``ip:port`` of each record; few hosts differ, so each is formatted once."""

    def hosts(records: Records) -> Any:
        packed = np.ascontiguousarray(records.layout.head[name])
        rows = packed.view(np.uint8).reshape(len(packed), -1)
        distinct, index = np.unique(rows, axis=0, return_inverse=True)
        names = texts([unpack_host(row.tobytes()).encode() for row in distinct], pa.string())
        return names.take(fixed(index.reshape(-1).astype(np.int64), pa.int64()))

    return hosts


def _transaction_id(records: Records) -> Any:
    """Return the unique key of messages of transactions, as Java's consumers do; null for others."""
    is_prepared = pc.equal(records.pairs.column(Property.TRANSACTION_PREPARED), constant(b"true", pa.string()))
    keys = records.pairs.column(Property.UNIQUE_KEY)  # a null condition counts as false in case_when
    return pc.case_when(pc.make_struct(is_prepared), keys)


def _message_transaction_id(message: MessageExt) -> str | None:
    is_transactional = message.properties.get(Property.TRANSACTION_PREPARED) == "true"
    return message.properties.get(Property.UNIQUE_KEY) if is_transactional else None


COLUMNS: dict[str, Column] = {
    "topic": Column(pa.string(), _topic, lambda m: m.topic),
    "brokerName": Column(pa.string(), lambda r: repeated(r.broker_name, len(r)), lambda m: m.broker_name),
    "queueId": Column(pa.int32(), _int("queueId", np.int32, pa.int32()), lambda m: m.queue_id),
    "queueOffset": Column(pa.int64(), _int("queueOffset", np.int64, pa.int64()), lambda m: m.queue_offset),
    "body": Column(pa.binary(), _body, lambda m: m.body),
    "tags": Column(pa.string(), _property("TAGS"), lambda m: m.tags),
    "keys": Column(pa.string(), _property("KEYS"), lambda m: m.keys),
    "bornTimestamp": Column(TIMESTAMP, _timestamp("bornTimestamp"), lambda m: _microseconds(m.born_timestamp)),
    "storeTimestamp": Column(TIMESTAMP, _timestamp("storeTimestamp"), lambda m: _microseconds(m.store_timestamp)),
    "reconsumeTimes": Column(pa.int32(), _int("reconsumeTimes", np.int32, pa.int32()), lambda m: m.reconsume_times),
    "msgId": Column(pa.string(), _msg_id, lambda m: m.msg_id),
    "properties": Column(PROPERTIES, lambda r: r.pairs.maps(PROPERTIES), lambda m: list(m.properties.items())),
    "flag": Column(pa.int32(), _int("flag", np.int32, pa.int32()), lambda m: m.flag),
    "transactionId": Column(pa.string(), _transaction_id, _message_transaction_id),
    "bornHost": Column(pa.string(), _host("bornHost"), lambda m: m.born_host),
    "storeHost": Column(pa.string(), _host("storeHost"), lambda m: m.store_host),
    "commitLogOffset": Column(pa.int64(), _int("physicalOffset", np.int64, pa.int64()), lambda m: m.commit_log_offset),
    "storeSize": Column(pa.int32(), _int("size", np.int32, pa.int32()), lambda m: m.store_size),
    CORRUPT_RECORD: Column(pa.binary(), lambda r: pa.nulls(len(r), pa.binary()), lambda _: None),
    CORRUPT_REASON: Column(pa.string(), lambda r: pa.nulls(len(r), pa.string()), lambda _: None),
}
"""Every column by name. The default schema has the first ones in this order, up to ``msgId``; the last two are null for
messages that are decoded."""
