"""Pops at a slave that acts as master: served as at a master, but recorded in memory only.

A Java slave writes its pops to the revive log of another master, which revives unacked messages and fetches them from
the slave. Here the committed offset of a group stays before the first message in flight, so the broker that takes over
delivers unacked messages again; no pop waits for another broker. A slave serves pops only while it acts as master.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.pop.checks import PopChecks
from rocketmq_py.broker.pop.reader import PopOffsets
from rocketmq_py.broker.pop.revive_log import ReviveLog
from rocketmq_py.core.pop.checkpoint_offsets import CommittableOffsets, GroupQueue
from rocketmq_py.core.pop.inflight import REVIVE_AFTER_MS, InflightPop, InflightPops, retry_check_point
from rocketmq_py.errors import BadHeader, BrokerError
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.pop_checkpoint import REVIVE_GROUP, CheckPoint, CkKey, decode_revive
from rocketmq_py.store import MessageStore

_log = logging.getLogger(__name__)

_LAG_MS = 10_000
"""Maximum age of offsets copied from the master, in addition to ``slaveSyncInterval``."""
_NOT_IN_LOG = -1
"""The revive queue of pops that are not in the log."""


class SlaveOffsets:
    """Consumer offsets for pops at a slave: the next pop's offset may be larger than the committed one.

    :param committed: the offsets that other brokers see; they stay before the first message in flight.
    :param positions: the offsets of next pops.
    """

    def __init__(self, committed: ConsumerOffsets, positions: CommittableOffsets) -> None:
        self._committed = committed
        self._positions = positions
        self.has_reset = committed.has_reset

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset at which the next pop of a group begins; -1 if the group has none."""
        following = self._positions.next_offset(GroupQueue(group, topic, queue_id))
        return self._committed.query(group, topic, queue_id) if following is None else following

    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: str) -> None:
        """Set the offset of the next pop; the committed one is raised only up to the first message in flight."""
        committed = self._positions.set_next_offset(GroupQueue(group, topic, queue_id), offset)
        self._committed.commit(group, topic, queue_id, committed, client)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Remove a pending reset and return its offset, None if there is none; also drop the offset of the next pop."""
        self._positions.forget(GroupQueue(group, topic, queue_id))
        return self._committed.take_reset(group, topic, queue_id)


class SlaveReviveLog(ReviveLog):
    """Pops in flight at a slave, from its copy of the master's revive log; its own pops and acks are in memory only.

    :param offsets: the offsets that pops use.
    :param committed: see :class:`SlaveOffsets`.
    :param positions: see :class:`SlaveOffsets`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        offsets: PopOffsets,
        store_host: bytes,
        clock: Callable[[], int],
        committed: ConsumerOffsets,
        positions: CommittableOffsets,
    ) -> None:
        super().__init__(config, store, offsets, store_host, clock)
        self._committed = committed
        self._positions = positions
        self._from_timer: set[CkKey] = set()

    def check_point(self, check_point: CheckPoint, revive_queue: int) -> None:
        """Add a pop to the table in memory: its messages are revived unless they are acked."""
        del revive_queue
        ck = check_point
        position = GroupQueue(ck.group, ck.topic, ck.queue_id)
        self._positions.add_popped(position, ck.offsets, self._committed.query(*position))
        self.inflight.add(ck, _NOT_IN_LOG, 0)

    def ack(self, key: CkKey, offsets: Collection[int]) -> None:
        """Remove acked messages from the table in memory; nothing happens if none of them is in flight."""
        one = self.inflight.find(key)
        bits = 0 if one is None else one.out(offsets)
        if one is None or not bits:
            return
        out = one.at(bits)
        self.inflight.settle(key, one, bits)
        if key.broker_name == self._config.broker_name:  # the queue of another broker has offsets of its own
            position = GroupQueue(key.group, key.topic, key.queue_id)
            committed = self._positions.settle(position, out)
            if committed is not None:
                self._committed.commit(*position, committed, "an ack")

    def revived(self, key: CkKey, offsets: Collection[int]) -> None:
        """Remove messages that were stored again from the table in memory."""
        self.ack(key, offsets)

    def try_again(self, one: InflightPop) -> None:
        """Make a pop due again later, with an increasing delay, because its messages could not be fetched."""
        one.check_point = retry_check_point(one, self._clock())
        self.inflight.postpone(one, one.check_point.revive_time + REVIVE_AFTER_MS)

    def reload(self) -> None:
        """Load the state of pops from the replicated log, and drop the pops that this broker served itself.

        Other brokers do not know those. The log is newer than the offsets that the master sent last, so messages that
        were popped after these offsets are not delivered again.
        """
        self._positions.clear()
        self._from_timer.clear()
        self.inflight = InflightPops()
        self.load(self._clock() - self._config.slave_sync_interval - _LAG_MS)

    def apply_timer_entry(self, tag: str, body: bytes, timer_offset: int) -> bool:
        """Apply a due entry of a Java master's timer to the pops in flight; return False if it must be repeated.

        An ack is applied completely. A check-point must be applied again as long as one of its messages is in flight.

        :param tag: the kind of entry: check-point, ack or acks of several messages.
        :param timer_offset: the entry's offset in the timer topic. Entries before the revive group's committed offset
            are skipped, because a master of this project has moved them (``java_timers``).
        """
        if timer_offset < self._committed.query(REVIVE_GROUP, TIMER_TOPIC, 0):
            return True
        try:
            entry = decode_revive(tag, body)
        except BadHeader as e:
            _log.error("skipping an entry of the revive log in a Java broker's timer, it cannot be read: %s", e)
            return True
        if isinstance(entry, CheckPoint):
            return self._is_done(entry)
        if entry is not None:
            self.inflight.ack(entry.key(self._config.broker_name), entry.offsets)
        return True

    def _is_done(self, check_point: CheckPoint) -> bool:
        key = check_point.key
        if key not in self._from_timer:
            self._from_timer.add(key)
            if key not in self.inflight:
                self.inflight.add(check_point, _NOT_IN_LOG, 0)
        if key in self.inflight:
            return False
        self._from_timer.discard(key)
        return True


class SlavePopChecks(PopChecks):
    """The checks of :class:`PopChecks`; they also refuse requests while this slave does not act as master."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicConfigs, groups: SubscriptionGroups, role: Role
    ) -> None:
        super().__init__(config, store, topics, groups)
        self._role = role

    def check_broker_readable(self, what: str) -> None:
        """Check that this broker has read permission and acts as master.

        :param what: the operation, for the remark.
        :raises BrokerError: NO_PERMISSION; SERVICE_NOT_AVAILABLE, it does not act as master.
        """
        super().check_broker_readable(what)
        if not self._role.is_acting:
            name, number = self._config.broker_name, self._role.broker_id
            remark = f"broker {name} (id {number}) is a slave that does not act as master: {what} at its master"
            raise BrokerError.of(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
