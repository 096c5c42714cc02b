"""Messages that were popped and not acked in time: how they come back.

Knows the retry topics of pops and what a message that goes there looks like (PopReviveService). Refuses to know how
pops are written down and who waits.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from rocketmq_py.broker.metadata.offsets import NOT_FOUND
from rocketmq_py.broker.pop.parts import PopParts
from rocketmq_py.broker.pop.revive_log import ReviveLog
from rocketmq_py.broker.send.message_properties import encode
from rocketmq_py.broker.send.stored_record import read_stored
from rocketmq_py.core.paths import component_fault
from rocketmq_py.core.pop.inflight import InflightPop
from rocketmq_py.errors import CorruptRecord, StoreError
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.pop_checkpoint import CheckPoint
from rocketmq_py.protocol.pop_handle import normal_topic, pop_retry_topic
from rocketmq_py.protocol.sys_flag import HOSTS_V6
from rocketmq_py.store import NewRecord
from rocketmq_py.wire.java_hash import tags_code

_log = logging.getLogger(__name__)

Read = Callable[[int], bytes | None]
"""The stored message at an offset of a queue; None when it is gone."""

_RETRY_QUEUES = 1
_TRY_AGAIN_MS = 1_000
_AT_ONCE = 2_048
"""Messages that come back in one go: more would keep other requests waiting."""


class Reviver:
    """Puts messages whose time is up into their group's retry topic."""

    def __init__(self, parts: PopParts, log: ReviveLog) -> None:
        self._config = parts.config
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._host = parts.store_host
        self._clock = parts.clock
        self._log = log
        self._is_refused = False
        self._due: deque[InflightPop] = deque()
        self.elsewhere: Callable[[InflightPop], None] = self.postpone
        """Takes pops whose messages are at another broker, so that they are tried again or come back."""
        self.on_back: Callable[[str, str], None] = lambda _topic, _group: None
        """Called with the topic subscribed to and the group when messages are there again."""

    def revive(self, now_ms: int) -> None:
        """Bring back what is due; when that is much, the rest follows with the next calls."""
        self._log.catch_up()
        due = self._due
        due.extend(self._log.ledger.take_due(now_ms))
        messages = 0
        while due and messages < _AT_ONCE:
            one = due.popleft()
            if not self.is_wanted(one):
                continue
            if one.check_point.broker_name != self._config.broker_name:
                self.elsewhere(one)
                continue
            messages += len(one.left)
            self.bring_back(one, one.left, partial(self.stored_here, one.check_point))
        if messages:
            self._store.commit_pending()
        self._log.note_progress()

    def is_wanted(self, one: InflightPop) -> bool:
        """Whether messages of a pop are still out, and there is somebody who may have them."""
        ck = one.check_point
        if self._log.ledger.find(ck.key) is not one:  # acked while it was due
            return False
        if self._topics.get(normal_topic(ck.topic, ck.group)) is None or self._groups.get(ck.group) is None:
            _log.warning("%d messages of topic %s popped by group %s do not come back: topic or group are gone",
                         len(one.left), ck.topic, ck.group)  # fmt: skip
            self._log.ledger.finish(ck.key)
            return False
        return True

    def bring_back(self, one: InflightPop, offsets: Iterable[int], read: Read) -> bool:
        """Put messages of a pop into the retry topic, to be settled; False when the store refuses, and they wait."""
        try:
            self._bring_back(one, offsets, read)
        except StoreError as e:
            if not self._is_refused:  # once, and not every second
                _log.warning("popped messages cannot come back yet, the store refuses them: %s", e)
            self._is_refused = True
            self.postpone(one)
            return False
        self._is_refused = False
        return True

    def postpone(self, one: InflightPop) -> None:
        """Try it again in a second."""
        self._log.ledger.postpone(one, self._clock() + _TRY_AGAIN_MS)

    def _bring_back(self, one: InflightPop, offsets: Iterable[int], read: Read) -> None:
        ck, done = one.check_point, list[int]()
        try:
            for offset in offsets:
                self._put(ck, offset, read(offset))
                done.append(offset)
        finally:
            # Whoever reads the log again must not bring them back again.
            self._log.ack(ck.key, done)
        _log.debug("%d messages of topic %s popped by group %s at %d were not acked and come back",
                   len(done), ck.topic, ck.group, ck.pop_time)  # fmt: skip
        self.on_back(normal_topic(ck.topic, ck.group), ck.group)

    def _put(self, ck: CheckPoint, offset: int, raw: bytes | None) -> None:
        record = self.again(ck, offset, raw)
        fault = None if record is None else component_fault(record.topic)
        if fault is not None:
            _log.error("message %d of topic %s queue %d cannot come back: the name of its retry topic is illegal, %s",
                       offset, ck.topic, ck.queue_id, fault)  # fmt: skip
        elif record is not None:
            self._create_topic(ck.group, record.topic)
            self._store.append(record)

    def stored_here(self, ck: CheckPoint, offset: int) -> bytes | None:
        """A message of a pop as this broker has it."""
        return self._store.record_at_queue(ck.topic, ck.queue_id, offset)

    def again(self, ck: CheckPoint, offset: int, raw: bytes | None) -> NewRecord | None:
        """A popped message as it is stored to be consumed again; None when it is lost."""
        if raw is None:
            _log.warning("message %d of topic %s queue %d is gone and cannot come back", offset, ck.topic, ck.queue_id)
            return None
        try:
            return self._again(ck, raw)
        except CorruptRecord as e:
            _log.error("message %d of topic %s queue %d cannot come back: %s", offset, ck.topic, ck.queue_id, e)
            return None

    def _again(self, ck: CheckPoint, raw: bytes) -> NewRecord:
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
