"""A slave that acts as master: sends its master's due messages to masters of other names (enableRemoteEscape)."""

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
"""Sends the messages that are due at a time (ms) to other masters; returns the number of processed messages or pops."""


class ActingMaster:
    """Sends delayed, timed, transactional and popped messages to masters of other names when they are due.

    The progress is stored in the offsets of this slave, which the master copies when it starts again. If it cannot copy
    them, it delivers messages again that were delivered here.

    :param timers: sends the timed messages; None for a broker that never acts as master.
    :param clock: returns the time in milliseconds since the epoch.
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
        """Send messages whenever this slave acts as master, if ``enableRemoteEscape`` is on."""
        role.add_acting_listener(self._acting_changed)

    def _acting_changed(self, is_acting: bool) -> None:
        work: list[Work] = []
        if is_acting and self._config.enable_remote_escape:
            work = [self._run] if self._timers is None else [self._run, self._timers.run]
        self._work.replace(*work)

    async def stop(self) -> None:
        """Stop sending messages and close the connections to other brokers. Does nothing if stopped already."""
        await self._work.stop()
        self._escape.close()

    async def _run(self) -> None:
        self._transactions.load()
        self._round_ms = self._clock()
        parts: tuple[tuple[str, Part], ...] = (
            ("delayed messages", self._delayed), ("popped messages", self._popped), ("transactions", self._halves),
        )  # fmt: skip
        while True:
            sent = [await self._try(what, part) for what, part in parts]
            if None in sent:
                await asyncio.sleep(_TRY_AGAIN_SECONDS)
            elif not any(sent):
                await asyncio.sleep(_TICK_SECONDS)

    async def _try(self, what: str, part: Part) -> int | None:
        """Send one kind of messages to other masters; return the number sent, 0 or more, or None if that failed.

        The first failure of each kind is logged, the next one only after a success.

        :param what: the kind of messages, for the log.
        :param part: sends the due messages of this kind (see :data:`Part`).
        """
        try:
            sent = await part(self._clock())
        except RocketMQError as e:
            if what not in self._failing:  # log once, not every second
                self._failing.add(what)
                _log.warning("%s wait, no other master accepts them: %s", what, e)
            return None
        if what in self._failing:
            self._failing.discard(what)
            _log.warning("other masters accept %s again", what)
        return sent

    # -- messages to send

    async def _delayed(self, now: int) -> int:
        """Send the delayed messages that are due at ``now`` (ms since the epoch); return how many were processed.

        If no other master has the topic of a message, its delay level waits; the other levels are sent.

        :raises NoRouteError: at least one level waits.
        """
        sent, failure = 0, None
        for level in self._delay.used_levels():
            for offset, record in list(self._delay.due(level, now)):
                if record is not None:
                    try:
                        await self._escape.put(record)
                    except NoRouteError as e:
                        failure = e
                        break
                self._delay.commit(level, offset + 1)
                sent += 1
        if failure is not None:
            raise failure
        return sent

    async def _popped(self, now: int) -> int:
        inflight, sent = self._pop.revive_log.inflight, 0
        due = inflight.take_due(now)
        try:
            while due:
                sent += await self._bring_back(due[-1])
                due.pop()
        finally:
            for one in due:
                inflight.postpone(one, now + int(_TRY_AGAIN_SECONDS * 1000))
        if sent:
            self._pop.revive_log.note_progress()
        return sent

    async def _bring_back(self, one: InflightPop) -> int:
        """Send the unacked messages of a pop to retry topics at other masters; return 1, the number of processed pops.

        A slave cannot record this in the revive log, so after a crash the messages are sent again.
        """
        ck = one.check_point
        found, failure = await self._pop.remote_fetcher.read(one)
        for offset, raw in found.items():
            record = self._pop.retry_messages.retry_record(ck, offset, raw)
            if record is not None:
                await self._escape.put(record)
            self._pop.revive_log.revived(ck.key, [offset])
        if failure is not None:
            self._pop.remote_fetcher.try_again(one, failure)
        return 1

    async def _halves(self, now: int) -> int:
        """Send all open half messages to other masters, which then check their transactions; return their number.

        Does nothing and returns 0 until transactionCheckInterval has passed since they were last sent.

        :param now: milliseconds since the epoch.
        """
        if now - self._round_ms < self._config.transaction_check_interval:
            return 0
        sent = 0
        for half, record in self._transactions.open_halves():
            if record is not None:
                await self._escape.put(record)
            self._transactions.table.advance(half + 1)
            sent += 1
        self._check.persist_progress()
        self._round_ms = now
        return sent
