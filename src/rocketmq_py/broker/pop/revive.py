"""Reviving popped messages that were not acked in time: they are stored again in their group's retry topic
(PopReviveService).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.offsets import NOT_FOUND
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.pop.long_polling import PopPolling
from rocketmq_py.broker.pop.reader import PopOffsets
from rocketmq_py.broker.pop.revive_log import ReviveLog
from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.core.metrics.counters import PopCounts
from rocketmq_py.core.paths import component_fault
from rocketmq_py.core.pop.inflight import InflightPop
from rocketmq_py.errors import CorruptRecord, StoreError
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.pop_checkpoint import CheckPoint
from rocketmq_py.protocol.pop_handle import normal_topic, pop_retry_topic
from rocketmq_py.protocol.sys_flag import HOSTS_V6
from rocketmq_py.store import MessageStore, NewRecord
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.wire.java_hash import tags_code

_log = logging.getLogger(__name__)

Read = Callable[[int], bytes | None]
"""Returns the record at a queue offset; None if it was deleted."""

_RETRY_QUEUES = 1
_TRY_AGAIN_MS = 1_000
_AT_ONCE = 2_048
"""Maximum number of messages that one call revives, so that other requests are served in between."""
_MOST_COLD = 64
"""Maximum number of pops whose messages are being loaded from disk; more would be loaded long before their turn."""


class RetryMessages:
    """Stores popped messages again in the retry topics of their groups.

    :param store_host: this broker's packed address.
    """

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicConfigs, offsets: PopOffsets, store_host: bytes
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._host = store_host
        self.counts: PopCounts | None = None
        """What is counted for metrics; None: they are off."""

    def stored_here(self, ck: CheckPoint, offset: int) -> bytes | None:
        """Return the record of a popped message from this broker's store; None if it was deleted."""
        return self._store.record_at_queue(ck.topic, ck.queue_id, offset)

    def check_stored(self, ck: CheckPoint, offsets: Iterable[int], residency: Residency) -> None:
        """Check that :meth:`stored_here` would not wait for the disk.

        :raises NotInMemory: it would.
        """
        for offset in offsets:
            self._store.checks.record_at_queue(ck.topic, ck.queue_id, offset, residency)

    def put(self, ck: CheckPoint, offset: int, raw: bytes | None) -> None:
        """Store a popped message in its retry topic; one that is deleted or damaged is only logged.

        :param raw: the message's record; None if it was deleted.
        :raises StoreError: the store refuses writes.
        """
        record = self.retry_record(ck, offset, raw)
        fault = None if record is None else component_fault(record.topic)
        if fault is not None:
            _log.error("message %d of topic %s queue %d cannot be revived: the name of its retry topic is illegal, %s",
                       offset, ck.topic, ck.queue_id, fault)  # fmt: skip
        elif record is not None:
            self._create_topic(ck.group, record.topic)
            self._store.append(record)
            if self.counts is not None:
                self.counts.retry(ck.topic, ck.group)

    def retry_record(self, ck: CheckPoint, offset: int, raw: bytes | None) -> NewRecord | None:
        """Build the record of a popped message for the retry topic; None if the message is deleted or damaged.

        :param ck: the check-point of the pop.
        :param offset: the message's queue offset, for the log.
        :param raw: the message's record; None if it was deleted.
        """
        if raw is None:
            _log.warning("message %d of topic %s queue %d is gone and cannot be revived", offset, ck.topic, ck.queue_id)
            return None
        try:
            return self._retry_record(ck, raw)
        except CorruptRecord as e:
            _log.error("message %d of topic %s queue %d cannot be revived: %s", offset, ck.topic, ck.queue_id, e)
            return None

    def _retry_record(self, ck: CheckPoint, raw: bytes) -> NewRecord:
        stored = read_stored(raw)
        head, properties = stored.head, decode_properties(stored.properties)
        if not head.reconsume_times or Property.FIRST_POP_TIME not in properties:
            properties[Property.FIRST_POP_TIME] = str(ck.pop_time)
        properties[Property.ORIGIN_GROUP] = ck.group
        return NewRecord(
            self._retry_topic(ck), 0, stored.body, encode(properties).encode(), tags_code(properties.get("TAGS")),
            head.sys_flag & ~HOSTS_V6, head.flag, head.born_timestamp, self._host, head.reconsume_times + 1, 0,
            properties.get("UNIQ_KEY"), properties.get("KEYS"),
        )  # fmt: skip

    def _retry_topic(self, ck: CheckPoint) -> str:
        if is_retry_topic(ck.topic):
            return ck.topic
        return pop_retry_topic(ck.topic, ck.group, v2=self._config.enable_retry_topic_v2)

    def _create_topic(self, group: str, name: str) -> None:
        if self._topics.get(name) is None:
            self._topics.create_for_group(name, _RETRY_QUEUES)
            if self._offsets.query(group, name, 0) == NOT_FOUND:
                self._offsets.commit(group, name, 0, 0, "revive")


class Reviver:
    """Stores messages again whose invisible time is over.

    :param polling: notified of messages that are visible again.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicConfigs,
        groups: SubscriptionGroups,
        revive_log: ReviveLog,
        retry_messages: RetryMessages,
        polling: PopPolling,
        clock: Callable[[], int],
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._revive_log = revive_log
        self._retry_messages = retry_messages
        self._polling = polling
        self._clock = clock
        self._is_refused = False
        self._due: deque[InflightPop] = deque()
        self._cold: list[InflightPop] = []
        """Due pops whose messages are being loaded from disk."""
        self._read_ahead = store.read_ahead("revive-read")

    def revive(self, now_ms: int) -> list[InflightPop]:
        """Revive messages that are due, up to a bounded number; the next calls continue.

        Messages that are not in memory are revived by a later call, when they are loaded; others do not wait for them.

        :returns: due pops whose messages are at another broker; the caller fetches or postpones them.
        """
        self._revive_log.catch_up()
        due = self._due
        due.extend(self._revive_log.inflight.take_due(now_ms))
        remote: list[InflightPop] = []
        messages = 0
        waiting, self._cold = deque(self._cold), []
        while (waiting or due) and messages < _AT_ONCE and len(self._cold) < _MOST_COLD:
            one = waiting.popleft() if waiting else due.popleft()
            if not self.is_wanted(one):
                self._read_ahead.forget(one)
            elif one.check_point.broker_name != self._config.broker_name:
                remote.append(one)
            elif self._store.rebuild.has(one.check_point.topic, one.check_point.queue_id):
                self.postpone(one)
            elif not self._is_loaded(one):
                self._cold.append(one)
            else:
                messages += len(one.left)
                self.bring_back(one, one.left, partial(self._retry_messages.stored_here, one.check_point))
        self._cold += waiting
        if messages:
            self._store.commit_pending()
        self._revive_log.note_progress()
        return remote

    def _is_loaded(self, one: InflightPop) -> bool:
        """Return True if the messages of a pop can be read without waiting for the disk; else load them."""
        return self._read_ahead.is_ready(
            one, lambda residency: self._retry_messages.check_stored(one.check_point, one.left, residency)
        )

    def close(self) -> None:
        """Stop the thread that loads messages; no message may be revived afterwards."""
        self._read_ahead.close()

    def is_wanted(self, one: InflightPop) -> bool:
        """True if messages of a pop are still in flight and its topic and group exist; otherwise the pop is dropped."""
        ck = one.check_point
        if self._revive_log.inflight.find(ck.key) is not one:  # acked while it was due
            return False
        if self._topics.get(normal_topic(ck.topic, ck.group)) is None or self._groups.get(ck.group) is None:
            _log.warning("dropping %d messages of topic %s popped by group %s: the topic or the group does not exist",
                         len(one.left), ck.topic, ck.group)  # fmt: skip
            self._revive_log.inflight.finish(ck.key)
            return False
        return True

    def bring_back(self, one: InflightPop, offsets: Iterable[int], read: Read) -> bool:
        """Append the messages of a pop at these queue offsets to the retry topic.

        The caller must call ``commit_pending`` of the store.

        :param read: returns the record at a queue offset.
        :returns: False if the store refuses writes; then the pop is postponed, see :meth:`postpone`.
        """
        try:
            self._bring_back(one, offsets, read)
        except StoreError as e:
            if not self._is_refused:  # log once, not every second
                _log.warning("popped messages cannot be revived for now, the store refuses writes: %s", e)
            self._is_refused = True
            self.postpone(one)
            return False
        self._is_refused = False
        return True

    def postpone(self, one: InflightPop) -> None:
        """Make a pop due again in one second."""
        self._revive_log.inflight.postpone(one, self._clock() + _TRY_AGAIN_MS)

    def _bring_back(self, one: InflightPop, offsets: Iterable[int], read: Read) -> None:
        ck, done = one.check_point, list[int]()
        try:
            for offset in offsets:
                self._retry_messages.put(ck, offset, read(offset))
                done.append(offset)
        finally:
            self._revive_log.revived(ck.key, done)
        _log.debug("revived %d messages of topic %s popped by group %s at %d, they were not acked",
                   len(done), ck.topic, ck.group, ck.pop_time)  # fmt: skip
        self._polling.messages_back(normal_topic(ck.topic, ck.group), ck.group)
