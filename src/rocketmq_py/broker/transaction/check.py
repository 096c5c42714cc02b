"""Transaction checks: asking producers for the outcome of open transactions (TransactionalMessageCheckService).

What to do with an open half message is decided by ``core.transaction.check``. A round of checks runs in the
event loop, a bounded number of half messages per tick.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from functools import partial

from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.records.stored_record import StoredRecord, read_stored
from rocketmq_py.broker.send.half_messages import QUEUE
from rocketmq_py.broker.transaction.transactions import GROUP, Transactions, copy_of
from rocketmq_py.core.queue_limits import parse_queue_id
from rocketmq_py.core.transaction.check import CheckStep, Rules, decide_check, int_property, read_half_message
from rocketmq_py.core.transaction.table import OPEN
from rocketmq_py.errors import CorruptRecord, MessageIllegal, StoreError
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol import names
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.transaction import CheckTransactionState
from rocketmq_py.server import Peer
from rocketmq_py.store import Appended, GetResult, MessageStore, NewRecord
from rocketmq_py.store.fs.residency import Loadable, NotInMemory, Residency
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.ids import offset_msg_id
from rocketmq_py.wire.record import encode_record

_log = logging.getLogger(__name__)

_STEPS_PER_TICK = 200
_ROUND_MS = 60_000
"""The longest round, in milliseconds; the next round continues where it ended."""
_QUEUES_OF_GIVEN_UP = 1


class TransactionCheck:
    """Checks open half messages in rounds, every transactionCheckInterval.

    :param store_host: this broker's packed address, part of every message id.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicConfigs,
        offsets: ConsumerOffsets,
        clients: Clients,
        transactions: Transactions,
        store_host: bytes,
        clock: Callable[[], int],
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._clients = clients
        self._transactions = transactions
        self._host = store_host
        self._ended_ms = clock()
        self._began_ms: int | None = None
        self._turn = itertools.count()
        self._groups_without_producer: set[str] = set()
        self._appended_end = 0
        self._read_ahead = store.read_ahead("half-read")

    def tick(self, now_ms: int) -> None:
        """Begin a round when it is due, and continue the current one; called several times a second."""
        if self._began_ms is None:
            if now_ms - self._ended_ms < self._config.transaction_check_interval or self._config.is_slave:
                return
            self._began_ms = now_ms
        began = self._began_ms
        if now_ms - began > _ROUND_MS or not self._check_some(began, now_ms):
            self._began_ms = None
            self._groups_without_producer.clear()
            self._ended_ms = now_ms
        if self._store.flushed_offset >= self._appended_end:
            self.persist_progress()

    def close(self) -> None:
        """Persist the progress when the broker stops, before the store flushes everything."""
        self.persist_progress()
        self._read_ahead.close()

    def persist_progress(self) -> None:
        """Persist the progress of checks: the offsets in the half topic and in the op topic.

        Call it only after half messages that checks stored again are on disk, because a crash would lose them; and soon
        after that, because until then a crash repeats the checks.
        """
        base = self._transactions.table.base
        here = f"broker {self._config.broker_name}"
        for topic, offset in (
            (names.HALF_TOPIC, base),
            (names.OP_HALF_TOPIC, self._transactions.ops.passed(base)),
        ):
            if offset != max(0, self._offsets.query(GROUP, topic, QUEUE)):
                self._offsets.commit(GROUP, topic, QUEUE, offset, here)
                self._offsets.persist()

    # -- a round

    def _rules(self) -> Rules:
        config, reserved_ms = self._config, self._store.config.file_reserved_time * 3_600_000
        return Rules(config.transaction_time_out, config.transaction_check_max, reserved_ms)

    def _check_some(self, began: int, now_ms: int) -> bool:
        """Check up to 200 half messages; return True if this round may have more.

        :param began: when the round began, in milliseconds since the epoch.
        """
        table = self._transactions.table
        end = self._store.queue_range(names.HALF_TOPIC, QUEUE)[1]
        for _ in range(_STEPS_PER_TICK):
            half = table.next_open(end)
            table.advance(half)
            if half >= end:
                return False
            found = self._read_ahead.read("half messages", partial(self._read, half))
            if found is None:  # it is being loaded from disk
                return True
            following = self._check_half_message(half, found, began, now_ms)
            if following is None:
                return False
            table.advance(following)
        return True

    def _read(self, offset: int, residency: Residency | None) -> GetResult:
        """Read the half message at an offset of the half topic.

        :raises NotInMemory: it is not in memory. What has to be loaded includes those that follow.
        """
        try:
            return self._store.get(names.HALF_TOPIC, QUEUE, offset, 1, residency=residency)
        except NotInMemory as missing:
            raise NotInMemory([*missing.parts, *self._following(offset)]) from None

    def _following(self, offset: int) -> Sequence[Loadable]:
        """Return the parts of files with the next half messages, as far as they are not in memory."""
        ahead, store = Residency(), self._store
        try:
            store.checks.entries(names.HALF_TOPIC, QUEUE, offset, _STEPS_PER_TICK, ahead)
            entries = store.queue_entries(names.HALF_TOPIC, QUEUE, offset, _STEPS_PER_TICK)
            store.checks.records([entry[:2] for entry in entries], ahead)
        except NotInMemory as missing:
            return missing.parts
        return ()

    def _check_half_message(self, offset: int, found: GetResult, began: int, now_ms: int) -> int | None:
        """Check an open half message; return the offset of the half topic to continue at, None to end the round.

        :param offset: its offset in the half topic.
        :param found: what was read there.
        :param began: when the round began, in milliseconds since the epoch.
        """
        if not found.count or offset in found.damaged:
            return _behind(found, offset)
        try:
            stored = read_stored(bytes(found.body))
        except CorruptRecord as e:
            _log.error("skipping the half message at queue offset %d, it cannot be read: %s", offset, e)
            return offset + 1
        properties = decode_properties(stored.properties)
        if self._ended_elsewhere(properties):
            return offset + 1
        half = read_half_message(properties, stored.head.born_timestamp, stored.head.store_timestamp)
        step = decide_check(half, self._rules(), began, now_ms)
        if step is CheckStep.WAIT:
            return None
        try:
            self._take(step, offset, stored, properties)
        except MessageIllegal as e:
            _log.error("giving up the half message at queue offset %d, it cannot be checked: %s", offset, e)
            self._transactions.table.give_up(offset)
        except StoreError as e:
            _log.warning("transaction checks wait, the store refuses writes: %s", e)
            return None
        return offset + 1

    def _ended_elsewhere(self, properties: dict[str, str]) -> bool:
        """True if these are the properties of a copy, stored by a check, of a half message that has ended since."""
        first = int_property(properties.get(Property.TRANSACTION_PREPARED_OFFSET))
        return first >= 0 and self._transactions.table.outcome(first) != OPEN

    def _take(self, step: CheckStep, offset: int, stored: StoredRecord, properties: dict[str, str]) -> None:
        if step is CheckStep.GIVE_UP:
            self._give_up(offset, stored, properties)
            return
        if step is CheckStep.POSTPONE:
            properties.setdefault(Property.TRANSACTION_PREPARED_OFFSET, str(offset))
        else:
            checks = int_property(properties.get(Property.TRANSACTION_CHECK_TIMES))
            properties[Property.TRANSACTION_CHECK_TIMES] = str(max(0, checks) + 1)
        place = self._append(copy_of(stored, properties, names.HALF_TOPIC, QUEUE))
        self._transactions.table.move(offset, place.queue_offset)
        if step is CheckStep.CHECK:
            self._ask(stored, properties, place)

    def _give_up(self, offset: int, stored: StoredRecord, properties: dict[str, str]) -> None:
        topic = self._topics.create_for_group(names.CHECK_MAX_TIME_TOPIC, _QUEUES_OF_GIVEN_UP).topic_name
        self._append(copy_of(stored, properties, topic, 0))
        self._transactions.table.give_up(offset)
        _log.error(
            "giving up transaction %s of group %s, it was not ended: its message to %s is kept in %s",
            properties.get(Property.UNIQUE_KEY), properties.get(Property.PRODUCER_GROUP),
            properties.get(Property.REAL_TOPIC), topic,
        )  # fmt: skip

    def _append(self, record: NewRecord) -> Appended:
        place = self._store.append(record)
        self._appended_end = place.physical_offset + place.size
        return place

    # -- asking producers

    def _ask(self, stored: StoredRecord, properties: dict[str, str], place: Appended) -> None:
        group = properties.get(Property.PRODUCER_GROUP, "")
        producer = self._producer(group)
        if producer is None:
            if group not in self._groups_without_producer:
                self._groups_without_producer.add(group)
                _log.warning("no producer of group %r is connected: its transactions are checked later", group)
            return
        producer.send(self._check_request(stored, properties, place))

    def _producer(self, group: str) -> Peer | None:
        """Return the connection of one member of a producer group, taking turns; None if no member is connected."""
        members = self._clients.producers.groups.get(group, {})
        alive = [channel for channel in members if isinstance(channel, Peer) and not channel.closed]
        return alive[next(self._turn) % len(alive)] if alive else None

    def _check_request(self, stored: StoredRecord, properties: dict[str, str], place: Appended) -> Command:
        uniq_key = properties.get(Property.UNIQUE_KEY)
        header = CheckTransactionState(
            topic=names.HALF_TOPIC, tran_state_table_offset=place.queue_offset, commit_log_offset=place.physical_offset,
            msg_id=uniq_key, transaction_id=uniq_key, offset_msg_id=offset_msg_id(self._host, place.physical_offset),
            bname=self._config.broker_name,
        )  # fmt: skip
        head = stored.head._replace(
            queue_id=parse_queue_id(properties.get(Property.REAL_QUEUE_ID)) or 0, queue_offset=place.queue_offset,
            physical_offset=place.physical_offset,
        )  # fmt: skip
        topic = properties.get(Property.REAL_TOPIC, names.HALF_TOPIC)
        body = encode_record(head, topic, stored.body, copy_of(stored, properties, topic, 0).properties)
        return Command(RequestCode.CHECK_TRANSACTION_STATE, ext=header.to_ext(), body=body)


def _behind(found: GetResult, offset: int) -> int | None:
    """Return the offset after a half message that is damaged or deleted; None if the queue has nothing after it."""
    if offset in found.damaged:
        return offset + 1
    return found.next_offset if found.next_offset > offset else None
