"""Everything about pops, put together.

Knows the parts and who tells whom. Refuses to know how any of them works.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rocketmq_py.broker.ha.role import Role
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.pop.acks import PopAcks
from rocketmq_py.broker.pop.checks import PopChecks
from rocketmq_py.broker.pop.java_timers import take_over_timers
from rocketmq_py.broker.pop.long_polling import PopLongPollingService, WaitingPop
from rocketmq_py.broker.pop.order_info import OrderInfos
from rocketmq_py.broker.pop.parts import PopParts
from rocketmq_py.broker.pop.peek import NotifyKey, PeekService
from rocketmq_py.broker.pop.pop import NOTHING, HeldPop, PopService
from rocketmq_py.broker.pop.reading import PopReader
from rocketmq_py.broker.pop.revive import Reviver
from rocketmq_py.broker.pop.revive_log import ReviveLog
from rocketmq_py.broker.pop.slave import SlaveOffsets, SlavePopChecks, SlaveReviveLog
from rocketmq_py.core.pop.checkpoint_offsets import CommittableOffsets
from rocketmq_py.core.pop.long_polling import PollTable
from rocketmq_py.core.pop.order import OrderKey
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.headers.pop import NotificationResponse
from rocketmq_py.server import Hold, Peer, Reply, Responder
from rocketmq_py.store import Arrival
from rocketmq_py.store.config.config_files import ConfigFile

_LAG_MS = 10_000
"""How long before offsets were last written a pop may have been that is not in them: a Java broker commits late."""


class PopServices:
    """The parts of a broker that serve pops.

    :param offsets: those that may be told to others. :param role: pops of a slave are of another kind (``popslave``).
    :param soon: runs a callback in the next turn of the event loop.
    :param hold: takes answers that wait for something else than messages.
    :param save: writes a file; called every few seconds, so it should not wait for the disk.
    """

    def __init__(
        self,
        parts: PopParts,
        offsets: ConsumerOffsets,
        role: Role,
        soon: Callable[[Callable[[], None]], object],
        hold: Callable[[Hold, Responder], None],
        save: Callable[[ConfigFile, Any], None],
    ) -> None:
        self._offsets = offsets
        checks, self.log = PopChecks(parts), ReviveLog(parts)
        if role.is_slave:
            places = CommittableOffsets()
            parts = parts._replace(offsets=SlaveOffsets(offsets, places))
            checks, self.log = SlavePopChecks(parts, role), SlaveReviveLog(parts, offsets, places)
        self._parts = parts
        self._crashed = parts.store.layout.abort.exists()  # asked before the store is opened, which makes the file
        file = ConfigFile(parts.config.store_root / "config" / "consumerOrderInfo.json")
        self.orders = OrderInfos(file, parts.topics, parts.groups, parts.clock, save)
        table = self.orders.table
        reading = PopReader(parts)
        self.popper = PopService(parts, checks, reading, self.log, table)
        self.acks = PopAcks(parts, checks, self.log, table)
        self.looking = PeekService(parts, checks, reading, table)
        self.reviver = Reviver(parts, self.log)
        self._make_holds(soon, hold)

    def _make_holds(
        self, soon: Callable[[Callable[[], None]], object], hold: Callable[[Hold, Responder], None]
    ) -> None:
        store, popper, looking = self._parts.store, self.popper, self.looking

        def pop(held: HeldPop) -> Reply | Hold:
            return popper.pop(held.peer, held.request, held.born)

        def notify(held: HeldPop) -> Reply | Hold:
            return looking.notify(held.peer, held.request, held.born)

        pops: PollTable[WaitingPop] = PollTable()
        told: PollTable[WaitingPop] = PollTable(last_first=True)
        no_pop = Reply(ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE", NOTHING)
        self.pops = PopLongPollingService(pops, pop, store, soon, hold, no_pop)
        self.told = PopLongPollingService(
            told, notify, store, soon, hold, Reply(header=NotificationResponse(has_msg=False))
        )
        popper.on_rest = self.pops.wake
        popper.waits, looking.waits, looking.told = pops, pops, told
        self.reviver.on_back = self._back
        self.acks.on_unblocked = self._unblocked

    # -- life

    def load(self) -> None:
        """Take over what was popped before and not acked."""
        parts = self._parts
        files = parts.config.store_root / "config"
        self.orders.load()
        self.log.load(_saved_ms(files / "consumerOffset.json") - _LAG_MS if self._crashed else None)
        if not parts.config.is_slave:
            take_over_timers(parts.store, self._offsets, self.log, files / "timercheck")

    def acts(self, acts: bool) -> None:
        """A slave begins or ends to act as master: who waits asks the one that does."""
        self.log.reload()
        if not acts:
            self.release()

    def tick(self, now_ms: int, *, revives: bool = True) -> None:
        """Due several times a second: waits that are over, messages and queues that are free again.

        :param revives: messages come back here, and not through the log of a master.
        """
        self.pops.expire(now_ms)
        self.told.expire(now_ms)
        if revives:
            self.reviver.revive(now_ms)
        for key in self.orders.table.take_free(now_ms):
            if self._parts.config.enable_notify_after_pop_order_lock_release:
                self._unblocked(key)

    def persist(self) -> None:
        """Write the files that have changed."""
        self.orders.persist()

    def release(self) -> None:
        """Answer everybody who waits: nothing comes here any more."""
        self.pops.release()
        self.told.release()

    # -- who hears of what

    def keep(self, hold: Hold, responder: Responder) -> None:
        """A request wants to wait for messages."""
        (self.told if isinstance(hold.key, NotifyKey) else self.pops).keep(hold, responder)

    def arrived(self, arrivals: list[Arrival]) -> None:
        """Messages have become readable."""
        self.pops.arrived(arrivals)
        self.told.arrived(arrivals)

    def forget(self, peer: Peer) -> None:
        """A connection is gone."""
        self.pops.forget(peer)
        self.told.forget(peer)

    def reset(self, group: str, topic: str, queue_id: int) -> None:
        """A group is to go on elsewhere in a queue: who waits there looks again."""
        self._back(topic, group, queue_id)

    def _back(self, topic: str, group: str, queue_id: int | None = None) -> None:
        self.pops.back(topic, group, queue_id)
        self.told.back(topic, group, queue_id)

    def _unblocked(self, key: OrderKey) -> None:
        self._back(key.topic, key.group, key.queue_id)


def _saved_ms(path: Path) -> int:
    """When a file was last written, in milliseconds; 0 when there is none."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0
