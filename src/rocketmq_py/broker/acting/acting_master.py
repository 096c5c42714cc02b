"""What a slave does for the messages of its master while it acts for it, and other masters take them
(``enableRemoteEscape``).

Knows what is taken up when a slave begins to act, what is handed on and in which order. Refuses to know when that is
(``role``), how a message travels (``escape``), and what makes it due: its services do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from rocketmq_py.broker.acting.timer_escape import TimerEscape
from rocketmq_py.broker.cluster.escape_bridge import EscapeBridge
from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.pop.services import PopServices
from rocketmq_py.broker.timer.delay_levels import DelayService
from rocketmq_py.broker.transaction.check import TransactionCheck
from rocketmq_py.broker.transaction.transactions import Transactions
from rocketmq_py.core.pop.inflight import InflightPop
from rocketmq_py.errors import NoRouteError, RocketMQError
from rocketmq_py.tasks import Background, Work

_log = logging.getLogger(__name__)

_TICK_SECONDS = 0.1
_TRY_AGAIN_SECONDS = 1.0

Part = Callable[[int], Awaitable[int]]
"""Hands on what is due at a time; how many messages that were."""


class ActingMaster:
    """Hands delayed, timed, transactional and popped messages to masters of other names, as they are due.

    How far it has come is told by the offsets of this slave, which the master takes over when it is back. Until then,
    or if it does not, it delivers again what was delivered here meanwhile.

    :param timers: None of a broker that never acts.
    :param clock: the time in milliseconds.
    """

    def __init__(
        self, config: BrokerConfig, escape: EscapeBridge, delay: DelayService, transactions: Transactions,
        check: TransactionCheck, pop: PopServices, timers: TimerEscape | None, clock: Callable[[], int],
    ) -> None:  # fmt: skip
        self._config = config
        self._escape = escape
        self._delay = delay
        self._transactions = transactions
        self._check = check
        self._pop = pop
        self._timers = timers
        self._clock = clock
        self._round_ms = 0
        self._failing: set[str] = set()
        self._work = Background()

    def watch(self, role: Role) -> None:
        """Do this whenever the slave acts as master from now on."""
        role.add_acting_listener(self._acts)

    def _acts(self, acts: bool) -> None:
        work: list[Work] = []
        if acts and self._config.enable_remote_escape:
            work = [self._run] if self._timers is None else [self._run, self._timers.run]
        self._work.replace(*work)

    async def stop(self) -> None:
        """End. Harmless when ended already."""
        await self._work.stop()
        self._escape.close()

    async def _run(self) -> None:
        self._transactions.load()
        self._round_ms = self._clock()
        parts: tuple[tuple[str, Part], ...] = (
            ("delayed messages", self._delayed), ("popped messages", self._popped), ("transactions", self._halves),
        )  # fmt: skip
        while True:
            handed_on = [await self._guarded(what, part) for what, part in parts]
            if None in handed_on:
                await asyncio.sleep(_TRY_AGAIN_SECONDS)
            elif not any(handed_on):
                await asyncio.sleep(_TICK_SECONDS)

    async def _guarded(self, what: str, part: Part) -> int | None:
        """Hand on what is due; None when that failed."""
        try:
            handed_on = await part(self._clock())
        except RocketMQError as e:
            if what not in self._failing:  # once, and not every second
                self._failing.add(what)
                _log.warning("%s wait, no other master takes them: %s", what, e)
            return None
        if what in self._failing:
            self._failing.discard(what)
            _log.warning("other masters take %s again", what)
        return handed_on

    # -- what is handed on

    async def _delayed(self, now: int) -> int:
        """A level without a taker keeps no other from being delivered."""
        handed_on, failure = 0, None
        for level in self._delay.levels:
            for offset, record in list(self._delay.due(level, now)):
                if record is not None:
                    try:
                        await self._escape.put(record)
                    except NoRouteError as e:
                        failure = e
                        break
                self._delay.commit(level, offset + 1)
                handed_on += 1
        if failure is not None:
            raise failure
        return handed_on

    async def _popped(self, now: int) -> int:
        inflight, handed_on = self._pop.revive_log.inflight, 0
        due = inflight.take_due(now)
        try:
            while due:
                handed_on += await self._bring_back(due[-1])
                due.pop()
        finally:
            for one in due:
                inflight.postpone(one, now + int(_TRY_AGAIN_SECONDS * 1000))
        if handed_on:
            self._pop.revive_log.note_progress()
        return handed_on

    async def _bring_back(self, one: InflightPop) -> int:
        """Messages of a pop; nobody reads of it in the revive log, so a crash brings them back once more."""
        ck = one.check_point
        found, failure = await self._pop.remote_fetcher.read(one)
        for offset, raw in found.items():
            record = self._pop.retry_messages.retry_record(ck, offset, raw)
            if record is not None:
                await self._escape.put(record)
            self._pop.revive_log.ack(ck.key, [offset])
        if failure is not None:
            self._pop.remote_fetcher.try_again(one, failure)
        return 1

    async def _halves(self, now: int) -> int:
        """Open half messages, once in transactionCheckInterval: who takes one asks its producer how it ended."""
        if now - self._round_ms < self._config.transaction_check_interval:
            return 0
        handed_on = 0
        for half, record in self._transactions.open_halves():
            if record is not None:
                await self._escape.put(record)
            self._transactions.table.advance(half + 1)
            handed_on += 1
        self._check.persist_progress()
        self._round_ms = now
        return handed_on
