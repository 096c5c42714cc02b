"""A cache of half messages that were stored recently, so that most transactions end without a read from the store.

Transactions that are not in the cache are looked up in the store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import msgspec

from rocketmq_py.accelerator import StoredHalf
from rocketmq_py.broker.records.message_properties import WrittenProperties, encode
from rocketmq_py.broker.send.send_validation import SendHeader, SendTarget
from rocketmq_py.properties import Property
from rocketmq_py.protocol import names
from rocketmq_py.protocol.headers.transaction import EndTransaction
from rocketmq_py.protocol.sys_flag import HOSTS_V6, TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketmq_py.store import Appended, HalfPlace, KindTarget, NewRecord

QUEUE = 0
"""The only queue of the half topic and of the op topic that is written."""
_MOST_BYTES = 64 << 20
_EACH_BYTES = 1024
"""The approximate size in memory of a cache entry without body and properties, in bytes."""


def to_half_message(record: NewRecord, properties: dict[str, str]) -> None:
    """Change a record in place to a half message: it goes to the half topic, where no consumer can read it.

    :param properties: the record's own properties, decoded.
    """
    added = _added(record.topic, record.queue_id, record.uniq_key)
    if properties.keys().isdisjoint(added):
        record.properties += encode(added).encode()
    else:  # the message was in a transaction before
        record.properties = encode(properties | added).encode()
    record.topic, record.queue_id = names.HALF_TOPIC, QUEUE
    record.sys_flag &= ~TRANSACTION_MASK


def _added(topic: str, queue_id: int, uniq_key: str | None) -> dict[str, str]:
    added = {Property.TRANSACTION_ID: uniq_key} if uniq_key else {}
    return added | {Property.REAL_TOPIC: topic, Property.REAL_QUEUE_ID: str(queue_id)}


def real_place(topic: str, queue_id: str) -> bytes:
    """Encode the properties REAL_TOPIC and REAL_QID, which are appended to a half message's own properties.

    :param topic: the topic in which the message is stored when its transaction is committed; ``queue_id`` likewise.
    """
    return f"{Property.REAL_TOPIC}\x01{topic}\x02{Property.REAL_QUEUE_ID}\x01{queue_id}\x02".encode()


def half_place(target: SendTarget, group: str) -> HalfPlace:
    """Return where half messages of a run go later.

    :param target: the topic and queue in which they are stored when their transactions are committed.
    :param group: the producer group that may commit them.
    """
    before, after = f"{Property.TRANSACTION_ID}\x01".encode(), b"\x02"
    properties = before, after, real_place(target.topic, target.queue_text)
    return HalfPlace(target.topic, target.queue_id, group, properties)


class CachedHalfMessage(msgspec.Struct, gc=False):
    """A half message in the cache.

    :ivar record: the record to store in the half topic.
    :ivar real: the record to store when the transaction is committed.
    :ivar group: the producer group that may commit or roll back the transaction.
    :ivar queue_offset: the offset in the half topic; -1 before it is stored.
    :ivar size: its approximate size in memory, in bytes; 0 before it is in the cache.
    """

    record: NewRecord
    real: NewRecord
    group: str
    queue_offset: int = -1
    size: int = 0


def make_half_message(
    marked: WrittenProperties, target: SendTarget, header: SendHeader, body: bytes, born_host: bytes
) -> CachedHalfMessage | None:
    """Build the half message of a transactional message; None if its properties do not make it transactional.

    :param marked: the properties, as :meth:`~.PropertyWriter.write_common` returns them.
    :param target: the topic and queue in which it is stored when its transaction is committed.
    :param born_host: the producer's packed address.
    """
    if marked.group is None:
        return None
    own = f"{marked.text}{Property.TRANSACTION_ID}\x01{marked.uniq_key}\x02".encode()
    flags = header.sys_flag & ~(TRANSACTION_MASK | HOSTS_V6) | target.sys_flag
    born, times = header.born_timestamp, header.reconsume_times or 0
    record = NewRecord(
        names.HALF_TOPIC, QUEUE, body, own + real_place(target.topic, target.queue_text), marked.tags_code, flags,
        header.flag, born, born_host, times, 0, marked.uniq_key, marked.keys,
    )  # fmt: skip
    real = NewRecord(
        target.topic, target.queue_id, body, own, marked.tags_code, flags | TRANSACTION_COMMIT, header.flag, born,
        born_host, times, 0, marked.uniq_key, marked.keys,
    )  # fmt: skip
    return CachedHalfMessage(record, real, marked.group)


class HalfMessageCache:
    """Recent half messages by their commit log offset; the oldest are evicted when the cache is full.

    :param most_bytes: the capacity of the cache in bytes.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[int, CachedHalfMessage] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, half: CachedHalfMessage, stored: Appended) -> None:
        """Add a half message that has been stored at ``stored``."""
        half.real.prepared_transaction_offset = stored.physical_offset
        half.queue_offset = stored.queue_offset
        half.record = half.real  # frees the stored record
        self._keep(half)

    def add_run(self, stored: Iterable[StoredHalf], targets: Sequence[KindTarget | None], born_host: bytes) -> None:
        """Add half messages that have been stored together.

        :param targets: those of the kinds to which ``stored`` refers.
        :param born_host: the producer's packed address.
        """
        for (kind, place, offset), (body, own, uniq_key, keys), (flag, born, times) in stored:
            target = targets[kind]
            assert target is not None
            assert target.half is not None
            topic, queue_id, group, _ = target.half
            real = NewRecord(
                topic, queue_id, body, own, target.tags_code, target.sys_flag | TRANSACTION_COMMIT, flag, born,
                born_host, times, place, uniq_key, keys,
            )  # fmt: skip
            self._keep(CachedHalfMessage(real, real, group, offset))

    def _keep(self, half: CachedHalfMessage) -> None:
        real = half.real
        half.size = len(real.body) + len(real.properties) + _EACH_BYTES
        self._kept[real.prepared_transaction_offset] = half
        self._bytes += half.size
        while self._bytes > self._most_bytes:
            self._bytes -= self._kept.popitem(last=False)[1].size

    def find(self, header: EndTransaction) -> CachedHalfMessage | None:
        """Return the half message that a commit or rollback refers to; None if it is not cached or a field differs."""
        half = self._kept.get(header.commit_log_offset)
        if (
            half is None
            or half.queue_offset != header.tran_state_table_offset
            or half.group != header.producer_group
            or (header.transaction_id and header.transaction_id != half.real.uniq_key)
        ):
            return None
        return half

    def remove(self, place: int) -> None:
        """Remove the half message at a commit log offset, because its transaction has ended."""
        half = self._kept.pop(place, None)
        if half is not None:
            self._bytes -= half.size
