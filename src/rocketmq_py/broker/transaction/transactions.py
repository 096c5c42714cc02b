"""Transactional messages: half messages, commit and rollback, and op messages.

Topics, properties and the order of writes are those of TransactionalMessageBridge and EndTransactionProcessor;
``core.transaction.table`` has the table of open half messages.

A commit is two appends: the real message, then, in a batch with others, the op message that ends the half message. The
real message comes first, so a crash between the two loses nothing; ``recovery`` finds such commits at the next start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.offsets import NOT_FOUND, ConsumerOffsets
from rocketmq_py.broker.pull.cold_read import answer_when_loaded
from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.broker.records.stored_record import StoredRecord, read_stored
from rocketmq_py.broker.send.half_batches import real_batch
from rocketmq_py.broker.send.half_messages import QUEUE, CachedHalfMessage, HalfMessageCache
from rocketmq_py.broker.transaction.lookups import EndRequest
from rocketmq_py.broker.transaction.recovery import committed, join_copies
from rocketmq_py.core.metrics.counters import MessageCounts
from rocketmq_py.core.paths import component_fault
from rocketmq_py.core.queue_limits import parse_queue_id
from rocketmq_py.core.transaction.check import is_too_late
from rocketmq_py.core.transaction.table import COMMIT, OPEN, ROLLBACK, UNKNOWN, OpProgress, TransactionTable, run_length
from rocketmq_py.errors import BrokerError, ConfigError, CorruptRecord, RocketMQError, StoreError
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol import names
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.half_messages import op_body, parse_op_body
from rocketmq_py.protocol.headers.transaction import EndTransaction, EndTransactions
from rocketmq_py.protocol.sys_flag import HOSTS_V6, TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_PREPARED
from rocketmq_py.server import Hold, Reply
from rocketmq_py.server.sliced_work import in_slices
from rocketmq_py.store import MessageStore, NewRecord
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.read.reader import KeyQuery
from rocketmq_py.wire.ids import parse_offset_msg_id
from rocketmq_py.wire.java_hash import tags_code
from rocketmq_py.wire.record import record_sizes

_log = logging.getLogger(__name__)

GROUP = "CID_RMQ_SYS_TRANS"
"""The consumer group whose offsets in the half topic and the op topic store the progress of transaction checks."""
_ENDED_TAG = "d"
_OP_PROPERTIES = encode({"WAIT": "true", "TAGS": _ENDED_TAG}).encode()
_ENTRIES_LOADED = 50_000
"""Maximum number of entries of the half topic that are loaded from disk for one request; they are usually adjacent."""
_READ_AT_ONCE = 32
_DELAYED = frozenset((names.SCHEDULE_TOPIC, names.TIMER_TOPIC))
_MOST_COPIES = 64
_OUTCOMES = {COMMIT: "committed", ROLLBACK: "rolled back"}


def copy_of(stored: StoredRecord, properties: dict[str, str], topic: str, queue_id: int) -> NewRecord:
    """Copy a stored message for another topic, or with other properties."""
    head = stored.head
    return NewRecord(
        topic, queue_id, stored.body, encode(properties).encode(), tags_code(properties.get("TAGS")),
        head.sys_flag & ~HOSTS_V6, head.flag, head.born_timestamp, head.born_host, head.reconsume_times, 0,
        properties.get("UNIQ_KEY"), properties.get("KEYS"),
    )  # fmt: skip


def _as_sent(half: StoredRecord) -> NewRecord:
    """Restore a half message to the form in which its producer sent it, so that another broker stores it as a half
    message (TransactionalMessageUtil).
    """
    properties = decode_properties(half.properties)
    topic = properties.pop(Property.REAL_TOPIC, names.HALF_TOPIC)
    queue_id = parse_queue_id(properties.pop(Property.REAL_QUEUE_ID, None)) or 0
    properties.pop(Property.TRANSACTION_PREPARED_OFFSET, None)
    properties[Property.TRANSACTION_PREPARED] = "true"
    record = copy_of(half, properties, topic, queue_id)
    record.sys_flag |= TRANSACTION_PREPARED
    return record


def _named_topic(real: NewRecord) -> str:
    """Return the topic that the producer of a message named, which may be delayed."""
    return real.topic if real.topic not in _DELAYED else decode_properties(real.properties)[Property.REAL_TOPIC]


class Transactions:
    """Commits and rolls back transactions, and tracks which are open.

    :param cache: recently stored half messages.
    :param redirect: changes the topic of a record with a delay level or a delivery time, so that it is delivered later.
    :param store_host: this broker's packed address, the born host of op messages.
    :param clock: returns the time in milliseconds since the epoch.
    :param call_soon: runs a callback in the next turn of the event loop.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        offsets: ConsumerOffsets,
        cache: HalfMessageCache,
        redirect: Callable[[NewRecord, dict[str, str]], None],
        store_host: bytes,
        clock: Callable[[], int],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._config = config
        self._store = store
        self._offsets = offsets
        self._call_soon = call_soon
        self._oneway_ends: list[EndRequest] = []
        self._cold_ends: list[EndRequest] = []
        """Oneway requests that wait until a thread has loaded what they need."""
        self._read_ahead = store.read_ahead("end-read")
        self._cache = cache
        self._redirect = redirect
        self._host = store_host
        self._clock = clock
        self._unwritten: list[int] = []
        self._unwritten_size = 0
        self._written_ms = clock()
        self._is_refused = False
        self.counts: MessageCounts | None = None
        """Counts ended transactions for the metrics; None: nobody wants to know."""
        self.table = TransactionTable(0)
        self.ops = OpProgress(0)

    # -- life

    def load(self) -> None:
        """Build the table of open half messages from the committed offsets and the op messages in the store."""
        first, end = self._store.queue_range(names.HALF_TOPIC, QUEUE)
        self.table = TransactionTable(self._start_offset(names.HALF_TOPIC))
        self.ops = OpProgress(self._start_offset(names.OP_HALF_TOPIC))
        offset = self.ops.offset
        while True:
            found = self._store.get(names.OP_HALF_TOPIC, QUEUE, offset, _READ_AT_ONCE)
            if found.next_offset <= offset:
                break
            for at in range(offset, found.next_offset):
                self._read_op_message(at, first, end)
            offset = found.next_offset
        join_copies(self._store, self.table)
        if self._config.broker_id == 0:  # a slave's log is its master's
            for half in committed(self._store, self.table):
                self._ended(half, COMMIT)

    def open_halves(self) -> Iterator[tuple[int, NewRecord | None]]:
        """Iterate over the open half messages: the offset in the half topic, and the record as its producer sent it.

        The record is None if it is deleted or damaged. The caller advances the table past each one that is done with:
        one that is not done with comes first in the next iteration, and comes again in this one.
        """
        end = self._store.queue_range(names.HALF_TOPIC, QUEUE)[1]
        while (half := self.table.next_open(end)) < end:
            self.table.advance(half)
            raw = self._store.record_at_queue(names.HALF_TOPIC, QUEUE, half)
            try:
                yield half, None if raw is None else _as_sent(read_stored(raw))
            except CorruptRecord as e:
                _log.error("skipping the half message at queue offset %d, it cannot be read: %s", half, e)
                yield half, None
        self.table.advance(end)

    def _read_op_message(self, offset: int, first: int, end: int) -> None:
        raw = self._store.record_at_queue(names.OP_HALF_TOPIC, QUEUE, offset)
        if raw is None:
            return
        halves = [half for half in parse_op_body(read_stored(raw).body) if first <= half < end]
        self.ops.add(offset, halves)
        for half in halves:
            self.table.end(half)

    def _start_offset(self, topic: str) -> int:
        """Return the offset at which checks continue: the committed one, limited to the queue's range after a crash."""
        first, end = self._store.queue_range(topic, QUEUE)
        known = self._offsets.query(GROUP, topic, QUEUE)
        return first if known == NOT_FOUND else min(max(known, first), end)

    def tick(self, now_ms: int) -> None:
        """Write op messages that have waited long enough; called several times a second."""
        self._end_oneway_requests()
        cold, self._cold_ends = self._cold_ends, []
        self._end_each(cold)
        if self._unwritten and now_ms - self._written_ms >= self._config.transaction_op_batch_interval:
            self.write_ops()

    def close(self) -> None:
        """Process pending oneway requests and write all pending op messages, before the store flushes everything."""
        waiting, self._oneway_ends, self._cold_ends = self._cold_ends + self._oneway_ends, [], []
        self._end_each(waiting, is_last=True)
        self._read_ahead.close()
        self.write_ops()

    # -- ending transactions

    def end_oneway(self, header: EndTransaction, address: str) -> None:
        """Call :meth:`end` in the next turn of the event loop, after requests that need an answer; log its errors."""
        if not self._oneway_ends:
            self._call_soon(self._end_oneway_requests)
        self._oneway_ends.append(EndRequest(header, address))

    def _end_oneway_requests(self) -> None:
        waiting, self._oneway_ends = self._oneway_ends, []
        self._end_each(waiting)

    def _end_each(self, waiting: Sequence[EndRequest], *, is_last: bool = False) -> None:
        """Process oneway requests; those that would wait for the disk are processed in a later tick.

        :param is_last: wait for the disk, because there is no later tick.
        """
        if not waiting:
            return
        for one in waiting:
            header, address = one.header, one.address
            try:
                half = self._cache.find(header)
                if half is not None or is_last or header.commit_or_rollback == UNKNOWN:
                    self.end(header, address, half)
                elif self._read_ahead.read(one, partial(self._end_loaded, one)) is None:
                    self._cold_ends.append(one)
            except RocketMQError as e:
                _log.info("the end of transaction %s by producer %s is refused: %s", header.msg_id, address, e)
            except Exception:  # noqa: BLE001 - one request that fails must not affect the others
                _log.exception("ending transaction %s for %s failed", header.msg_id, address)
        try:
            self._store.commit_pending()
        except StoreError as e:
            _log.warning("%d transactions have ended but are not in the log yet: %s", len(waiting), e)

    def end_when_loaded(self, header: EndTransaction, address: str) -> Reply | Hold | None:
        """As :meth:`end`, but return the answer, or a hold until what it reads is in memory."""
        if header.commit_or_rollback == UNKNOWN:
            return Reply() if self.end(header, address) else None
        one = EndRequest(header, address)

        def end(residency: Residency | None) -> Reply:
            self._end_loaded(one, residency)
            return Reply()

        return answer_when_loaded(end, self._store.new_residency())

    def _end_loaded(self, one: EndRequest, residency: Residency | None) -> bool:
        """Process a request as :meth:`end`, if what it reads is in memory.

        :raises NotInMemory: only with ``residency``; nothing was changed.
        """
        header, offset = one.header, one.header.tran_state_table_offset
        self._store.checks.entries(names.HALF_TOPIC, QUEUE, offset, 1, residency)
        self._store.checks.messages([header.commit_log_offset], residency)
        if residency is not None and (offset < self.table.since or self.table.may_be_forgotten(offset)):
            one.check_lookups(self._looked_up(header), self._look_up, residency)
        return self.end(header, one.address)

    def _looked_up(self, header: EndTransaction) -> tuple[Sequence[str], str]:
        """Return the topics and the unique key that :meth:`end` looks up in the index for an old half message."""
        try:
            half = self._half(header)
        except BrokerError:
            return (), ""  # which is how the request is refused next
        topics = [names.HALF_TOPIC, names.CHECK_MAX_TIME_TOPIC]
        with suppress(BrokerError):  # without a real topic, no messages of it are looked up
            topics.append(self._real(half).topic)
        return topics, _uniq_key(half) or ""

    async def end_all_when_loaded(
        self, header: EndTransactions, places: Sequence[int], offsets: Sequence[int], address: str
    ) -> bytes:
        """As :meth:`end_all`, as soon as the half messages are in memory, a few of them in each turn of the loop."""

        def check(residency: Residency | None) -> None:
            first = min(offsets, default=0)
            span = min(max(offsets, default=0) - first + 1, _ENTRIES_LOADED)
            self._store.checks.entries(names.HALF_TOPIC, QUEUE, first, span, residency)
            self._store.checks.messages(places, residency)

        await self._store.loader.run(check)
        return await in_slices(self.end_all(header, places, offsets, address))

    def end(self, header: EndTransaction, address: str, found: CachedHalfMessage | None = None) -> bool:
        """Commit or roll back a transaction; return False if the producer sent UNKNOWN, which gets no answer.

        :param address: the producer's address, for the log.
        :param found: its half message in the cache; it is looked for if there is none.
        :raises BrokerError: the request is refused and nothing was changed.
        """
        if self._config.is_slave:
            raise BrokerError.of(Code.SLAVE_NOT_AVAILABLE, "a slave does not end transactions: ask the master")
        outcome = header.commit_or_rollback
        if outcome not in (COMMIT, ROLLBACK, UNKNOWN):
            raise _refusal("commitOrRollback field wrong")
        if outcome == UNKNOWN:
            _log.info("producer %s does not know the outcome of transaction %s yet", address, header.msg_id)
            return False
        half = found or self._cache.find(header) or self._read_half(header)
        before = self._outcome(header)
        if before not in (OPEN, outcome):
            raise _refusal(f"The transaction has been {_OUTCOMES.get(before, 'ended')} already")
        if before == OPEN:
            if outcome == COMMIT:
                self._deliver(half)
            self._ended(header.tran_state_table_offset, outcome)
            if self.counts is not None:
                real = half.real if isinstance(half, CachedHalfMessage) else self._real(half)
                self._count(_named_topic(real), real.born_timestamp, outcome, 1)
        self._cache.remove(header.commit_log_offset)
        return True

    def end_all(
        self, header: EndTransactions, places: Sequence[int], offsets: Sequence[int], address: str
    ) -> Generator[None, None, bytes]:
        """Commit or roll back many transactions, all with the outcome in the header, in short steps.

        :param places: the commit log offsets of the half messages.
        :param offsets: their offsets in the half topic.
        :param address: the producer's address, for the log.
        :returns: a byte for each, 1 if it has ended, otherwise 0; with ``in_order`` nothing after the first 0.
        """
        ended = bytearray()
        while len(ended) < len(places):
            at = len(ended)
            count, step = run_length(places, offsets, at)
            if self._end_adjacent(header, range(places[at], places[at] + count * step, step), offsets[at]):
                ended += b"\1" * count
                yield
                continue
            for place, offset in zip(places[at : at + count], offsets[at : at + count], strict=True):
                ended.append(self._end_one_of(header, place, offset, address))
                if header.in_order and not ended[-1]:
                    return bytes(ended)
                yield
        return bytes(ended)

    def _end_one_of(self, header: EndTransactions, place: int, offset: int, address: str) -> bool:
        one = EndTransaction(
            producer_group=header.producer_group, tran_state_table_offset=offset, msg_id="", commit_log_offset=place,
            commit_or_rollback=header.commit_or_rollback,
        )  # fmt: skip
        try:
            return self.end(one, address)
        except RocketMQError as e:
            _log.warning("the half message at %d cannot be ended for %s: %s", place, address, e)
            return False

    def _end_adjacent(self, header: EndTransactions, places: range, offset: int) -> bool:
        """Commit or roll back adjacent half messages of the same form together.

        :param places: their commit log offsets.
        :param offset: the offset of the first one in the half topic.
        :returns: False if they must be processed one by one; nothing was changed then.
        """
        count, outcome = len(places), header.commit_or_rollback
        if self._config.is_slave or outcome not in (COMMIT, ROLLBACK) or not self.table.are_open(offset, count):
            return False
        known = (self._store.physical_offset(names.HALF_TOPIC, QUEUE, at) for at in (offset, offset + count - 1))
        if [*known] != [places[0], places[-1]]:
            return False
        raw = self._store.log_view(places.start, count * places.step)
        real = real_batch(bytes(raw), places, header.producer_group) if raw is not None else None
        if real is None:
            return False
        if outcome == COMMIT:
            try:
                self._store.append_uniform(real)
            except RocketMQError as e:
                _log.info("ending %d half messages from %d on one by one: %s", count, offset, e)
                return False
        self.table.end_all(offset, count, outcome)
        self._add_ended(range(offset, offset + count))
        if self.counts is not None:
            self._count(real.topic, real.born_timestamp, outcome, count)
        for place in places if self._cache else ():
            self._cache.remove(place)
        return True

    def _count(self, topic: str, born_ms: int, outcome: int, count: int) -> None:
        assert self.counts is not None
        seconds = max(0, self._clock() - born_ms) / 1000
        self.counts.ended(topic, seconds, commit=outcome == COMMIT, count=count)

    def _outcome(self, header: EndTransaction) -> int:
        """Return the outcome of a transaction: ``OPEN``, or how it has ended (committed, rolled back or unknown).

        It is looked up in the index if the table no longer has it.
        """
        place = header.tran_state_table_offset
        known = self.table.outcome(place)
        if known == OPEN or not self.table.may_be_forgotten(place):
            return known
        self._store.commit_pending()  # the index must include what ended in the same read
        if self._is_given_up(self._half(header)):
            self.table.recall(place)
        return self.table.outcome(place)

    def _is_given_up(self, half: StoredRecord) -> bool:
        """True if checks of a half message were given up and its real message was not stored."""
        key = _uniq_key(half) or ""
        return bool(self._copies(names.CHECK_MAX_TIME_TOPIC, key)) and not self._copies(self._real(half).topic, key)

    def _read_half(self, header: EndTransaction) -> StoredRecord:
        """Read the half message that a request refers to from the store, and check the request against it.

        :raises BrokerError: there is no such half message, or a check failed.
        """
        half = self._half(header)
        properties = decode_properties(half.properties)
        self._check(header, half, properties)
        self._update_from_index(header.tran_state_table_offset, half)
        return half

    def _half(self, header: EndTransaction) -> StoredRecord:
        """Read the half message at the request's commit log offset; do not check the request's other fields.

        :raises BrokerError: there is no half message.
        """
        raw = self._store.message_at(header.commit_log_offset)
        half = None
        if raw is not None:
            try:
                half = read_stored(raw)
            except CorruptRecord as e:
                _log.warning("the end of transaction %s refers to no message: %s", header.msg_id, e)
        if half is None or half.topic != names.HALF_TOPIC:
            raise _refusal("Find prepared transaction message failed")
        return half

    def _check(self, header: EndTransaction, half: StoredRecord, properties: dict[str, str]) -> None:
        """Check that the request refers to this half message and may end it; order and remarks are Java's.

        :raises BrokerError: a check failed.
        """
        late = is_too_late(properties, half.head.born_timestamp, self._config.transaction_time_out, self._clock())
        if late and not header.from_transaction_check:
            said = "the time to end this transaction (CHECK_IMMUNITY_TIME_IN_SECONDS) is over: wait for its check"
            raise BrokerError.of(Code.ILLEGAL_OPERATION, said)
        if properties.get(Property.PRODUCER_GROUP) != header.producer_group:
            raise _refusal("The producer group wrong")
        if half.head.queue_offset != header.tran_state_table_offset:
            raise _refusal("The transaction state table offset wrong")
        # The position must be that of a half message, too, not one inside a message body.
        place = self._place(header.tran_state_table_offset)
        if not half.head.physical_offset == place == header.commit_log_offset:
            raise _refusal("The commit log offset wrong")
        if header.transaction_id and header.transaction_id != properties.get(Property.UNIQUE_KEY):
            raise _refusal("The transaction id wrong")

    def _place(self, half: int) -> int | None:
        """Return the commit log offset of the half message at an offset of the half topic; None if there is none.

        :raises BrokerError: the half message is not on disk yet.
        """
        place = self._store.physical_offset(names.HALF_TOPIC, QUEUE, half)
        if place is None:  # it may have been stored in the same read
            self._store.commit_pending()
            place = self._store.physical_offset(names.HALF_TOPIC, QUEUE, half)
            if place is None and half >= self._store.queue_range(names.HALF_TOPIC, QUEUE)[1]:
                raise _refusal("The half message is not on disk yet (SYNC_FLUSH): wait for the answer to its send")
        return place

    def _update_from_index(self, half: int, stored: StoredRecord) -> None:
        """Update the table with the state of a half message stored before the start, which the index shows.

        A check may have stored a copy of it, but its producer may refer to the original. If no copy is left to be
        checked, and checks were not given up, the transaction has ended.
        """
        table = self.table
        if half >= table.since or table.current(half) != half:
            return
        copies = self._copies(names.HALF_TOPIC, _uniq_key(stored) or "")
        if half not in copies:
            return  # the index file is gone, or there is no index
        latest = table.current(max(copies))
        if latest < table.since and not self._is_given_up(stored):
            table.end(half)
        elif latest > half:
            table.move(half, latest)

    def _copies(self, topic: str, key: str) -> list[int]:
        """Return the queue offsets of a topic's messages with a unique key, found by the index."""
        found = self._look_up(topic, key).run(None).body
        stored = (read_stored(found[at : at + size]) for at, size in record_sizes(found))
        same = (one for one in stored if one.topic == topic)
        return [one.head.queue_offset for one in same if _uniq_key(one) == key]

    def _look_up(self, topic: str, key: str) -> KeyQuery:
        return self._store.key_query(topic, key, _MOST_COPIES, 0, self._store.now())

    def _deliver(self, half: CachedHalfMessage | StoredRecord) -> None:
        """Append the real message of a committed half message."""
        self._store.append(half.real if isinstance(half, CachedHalfMessage) else self._real(half))

    def _real(self, half: StoredRecord) -> NewRecord:
        """Build the real message of a half message: topic, queue and flags restored, other properties unchanged.

        :raises BrokerError: the half message has no valid real topic and queue.
        """
        properties = decode_properties(half.properties)
        topic = properties.pop(Property.REAL_TOPIC, None)
        queue_id = parse_queue_id(properties.pop(Property.REAL_QUEUE_ID, None))
        if not topic or queue_id is None or component_fault(topic) is not None:
            raise _refusal(f"The half message at {half.head.physical_offset} does not name its real topic and queue")
        record = copy_of(half, properties, topic, queue_id)
        record.sys_flag = record.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
        record.prepared_transaction_offset = half.head.physical_offset
        self._redirect(record, properties)
        return record

    def _ended(self, half: int, outcome: int) -> None:
        self._add_ended(self.table.end(half, outcome))

    def _add_ended(self, places: Sequence[int]) -> None:
        """Collect ended half messages, given by their offsets in the half topic, for the next op message.

        The op message is written now if it is large enough, or if each one is to be written immediately.
        """
        self._unwritten += places
        for place in places:
            self._unwritten_size += len(str(place)) + 1
        config = self._config
        if self._unwritten_size >= config.transaction_op_msg_max_size or not config.transaction_op_batch_interval:
            self.write_ops()

    def write_ops(self) -> None:
        """Write one op message for all half messages ended since the last one; retry later if the store refuses."""
        self._written_ms = self._clock()
        if not self._unwritten:
            return
        record = NewRecord(
            names.OP_HALF_TOPIC, QUEUE, op_body(self._unwritten), _OP_PROPERTIES, tags_code(_ENDED_TAG),
            born_timestamp=self._written_ms, born_host=self._host,
        )  # fmt: skip
        try:
            written = self._store.append(record)
        except StoreError as e:
            if not self._is_refused:
                _log.warning(
                    "the op messages of %d transactions wait, the store refuses writes: %s", len(self._unwritten), e
                )
            self._is_refused = True
            return
        self._is_refused = False
        self.ops.add(written.queue_offset, self._unwritten)
        self._unwritten, self._unwritten_size = [], 0

    # -- resuming checks

    def resume(self, msg_id: str) -> None:
        """Store a half message again whose checks were given up, with a check count of 0.

        :param msg_id: the offset message id of its copy in ``TRANS_CHECK_MAX_TIME_TOPIC``.
        :raises BrokerError: there is no such message.
        """
        try:
            _, _, offset = parse_offset_msg_id(msg_id)
            raw = self._store.message_at(offset)
            stored = None if raw is None else read_stored(raw)
        except (ConfigError, CorruptRecord) as e:
            raise _refusal(f"no half message can be resumed: {e}") from e
        if stored is None or stored.topic != names.CHECK_MAX_TIME_TOPIC:
            raise _refusal(f"{msg_id} is no message of {names.CHECK_MAX_TIME_TOPIC}: no half message can be resumed")
        properties = decode_properties(stored.properties) | {Property.TRANSACTION_CHECK_TIMES: "0"}
        self._store.append(copy_of(stored, properties, names.HALF_TOPIC, QUEUE))


def _uniq_key(stored: StoredRecord) -> str | None:
    return decode_properties(stored.properties).get(Property.UNIQUE_KEY)


def _refusal(words: str) -> BrokerError:
    return BrokerError.of(Code.SYSTEM_ERROR, words)
