"""What pops are to a slave that acts for its master: served, and written down nowhere.

Knows what a slave keeps in memory instead of the revive log, which offsets it may tell meanwhile, and that it serves
pops only while it acts. Refuses to know when that is (``role``) and who takes messages that are not acked (``acting``).

Java writes pops of a slave into the revive log of another master, who brings back what is not acked and reads it from
the slave for that. Here the offset of a group that others are told stays before the first message that is out, so
whoever goes on after this slave gives out again what was not acked; no pop waits for another broker.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from rocketmq_py.broker.ha.role import Role
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.pop.checks import PopChecks
from rocketmq_py.broker.pop.parts import PopParts
from rocketmq_py.broker.pop.revive_log import ReviveLog
from rocketmq_py.core.pop.checkpoint_offsets import CommittableOffsets, GroupQueue
from rocketmq_py.core.pop.inflight import REVIVE_AFTER_MS, InflightPop, InflightPops, retry_check_point
from rocketmq_py.errors import BadHeader, BrokerError
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.pop_checkpoint import REVIVE_GROUP, CheckPoint, CkKey, decode_revive

_log = logging.getLogger(__name__)

_LAG_MS = 10_000
"""How long, beside the interval, offsets may take from the master to here."""
_NOT_IN_LOG = -1
"""The revive queue of pops that are written down nowhere."""


class SlaveOffsets:
    """The offsets of groups as pops of a slave see them; the table beneath has those that may be told."""

    def __init__(self, offsets: ConsumerOffsets, places: CommittableOffsets) -> None:
        self._offsets = offsets
        self._places = places
        self.has_reset = offsets.has_reset

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Where the next pop begins; -1 when nobody knows."""
        following = self._places.next_offset(GroupQueue(group, topic, queue_id))
        return self._offsets.query(group, topic, queue_id) if following is None else following

    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: str) -> None:
        """The next pop begins at ``offset``."""
        told = self._places.set_next_offset(GroupQueue(group, topic, queue_id), offset)
        self._offsets.commit(group, topic, queue_id, told, client)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset a reset ordered, which is then done; None when there is none."""
        self._places.forget(GroupQueue(group, topic, queue_id))
        return self._offsets.take_reset(group, topic, queue_id)


class SlaveReviveLog(ReviveLog):
    """The master's revive log as it is on this slave, and in memory what was popped and acked here."""

    def __init__(self, parts: PopParts, offsets: ConsumerOffsets, places: CommittableOffsets) -> None:
        super().__init__(parts)
        self._told = offsets
        self._places = places
        self._heard: set[CkKey] = set()

    def check_point(self, check_point: CheckPoint, revive_queue: int) -> None:
        """Remember a pop; its messages come back unless they are acked."""
        del revive_queue
        ck = check_point
        place = GroupQueue(ck.group, ck.topic, ck.queue_id)
        self._places.add_popped(place, ck.offsets, self._told.query(*place))
        self.ledger.add(ck, _NOT_IN_LOG, 0)

    def ack(self, key: CkKey, offsets: Collection[int]) -> None:
        """Remember that messages of a pop are done; nothing happens when none of them is out any more."""
        one = self.ledger.find(key)
        bits = 0 if one is None else one.out(offsets)
        if one is None or not bits:
            return
        out = one.at(bits)
        self.ledger.settle(key, one, bits)
        if key.broker_name == self._config.broker_name:  # the queue of another broker has offsets of its own
            place = GroupQueue(key.group, key.topic, key.queue_id)
            told = self._places.settle(place, out)
            if told is not None:
                self._told.commit(*place, told, "an ack")

    def try_again(self, one: InflightPop) -> None:
        """Remember when messages are tried again that could not be had."""
        one.check_point = retry_check_point(one, self._clock())
        self.ledger.postpone(one, one.check_point.revive_time + REVIVE_AFTER_MS)

    def reload(self) -> None:
        """Read again what a master wrote. What was popped here is forgotten: nobody who goes on knows of it.

        The log is ahead of the offsets the master told last: what it says was popped since is not popped again.
        """
        self._places.clear()
        self._heard.clear()
        self.ledger = InflightPops()
        self.load(self._clock() - self._config.slave_sync_interval - _LAG_MS)

    def hear(self, tag: str, body: bytes, timer_offset: int) -> bool:
        """An entry has come out of a Java master's timer; whether nothing of it is out any more.

        Of a check-point it is heard again until then.

        :param timer_offset: where it waited. A master of this project has moved those before its
            offset (``poptimers``).
        """
        if timer_offset < self._told.query(REVIVE_GROUP, TIMER_TOPIC, 0):
            return True
        try:
            entry = decode_revive(tag, body)
        except BadHeader as e:
            _log.error("an entry of the revive log in a Java broker's timer cannot be read and is skipped: %s", e)
            return True
        if isinstance(entry, CheckPoint):
            return self._is_over(entry)
        if entry is not None:
            self.ledger.ack(entry.key(self._config.broker_name), entry.offsets)
        return True

    def _is_over(self, check_point: CheckPoint) -> bool:
        key = check_point.key
        if key not in self._heard:
            self._heard.add(key)
            if key not in self.ledger:
                self.ledger.add(check_point, _NOT_IN_LOG, 0)
        if key in self.ledger:
            return False
        self._heard.discard(key)
        return True


class SlavePopChecks(PopChecks):
    """Refuses, too, whoever pops while this slave does not act as master."""

    def __init__(self, parts: PopParts, role: Role) -> None:
        super().__init__(parts)
        self._role = role

    def may_read(self, what: str) -> None:
        """As at a master.

        :raises BrokerError: it may not be, or not here and now.
        """
        super().may_read(what)
        if not self._role.acts:
            name, number = self._config.broker_name, self._role.broker_id
            said = f"broker {name} (id {number}) is a slave that does not act as master: {what} at its master"
            raise BrokerError.of(ResponseCode.SERVICE_NOT_AVAILABLE, said)
