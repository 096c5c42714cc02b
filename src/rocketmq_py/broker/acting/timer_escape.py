"""Timed messages of a slave that acts for its master: handed to masters of other names when they are due.

Knows how many travel at once and when those are tried again that nobody has taken. Refuses to know what is due and what
is said of it (``slavetimers``), and how a message travels (``escape``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from rocketmq_py.broker.cluster.escape_bridge import EscapeBridge
from rocketmq_py.broker.pop.slave import SlaveReviveLog
from rocketmq_py.broker.timer.slave_timers import EscapedMessage, SlaveTimers
from rocketmq_py.core.timer.timers import TimerEntry
from rocketmq_py.errors import BrokerError, RocketMQError
from rocketmq_py.properties import Property, decode_properties

_log = logging.getLogger(__name__)

_TICK_SECONDS = 0.02
_AT_ONCE = 64
_AGAIN_MS = 1_000


class TimerEscape:
    """Hands on what is due. A topic nobody takes keeps no other from being delivered.

    What nobody takes is tried again every second; a Java slave tries three times and drops it.

    :param revive_log: takes what a Java master has noted of pops, instead of other masters.
    :param clock: the time in milliseconds.
    """

    def __init__(
        self, timers: SlaveTimers, escape: EscapeBridge, revive_log: SlaveReviveLog, clock: Callable[[], int]
    ) -> None:
        self._timers = timers
        self._escape = escape
        self._revive_log = revive_log
        self._clock = clock
        self._again_ms = 0
        self._under_way: set[TimerEntry] = set()
        self._failure: RocketMQError | None = None
        self._is_failing = False

    async def run(self) -> None:
        """Do so until cancelled."""
        self._timers.start_acting()
        self._again_ms = 0
        try:
            while True:
                if not await self.hand_on(self._clock()):
                    await asyncio.sleep(_TICK_SECONDS)
        finally:
            self._timers.stop_acting()

    async def hand_on(self, now: int) -> bool:
        """Hand on a part of what is due; whether there may be more."""
        entries = self._timers.due(now, _AT_ONCE)
        has_more = len(entries) == _AT_ONCE
        if now >= self._again_ms:
            self._again_ms = now + _AGAIN_MS
            entries += self._timers.untaken()
        self._under_way = set(entries)
        try:
            topics = self._by_topic(entries, now)
            await asyncio.gather(*(self._give_all(messages) for messages in topics.values()))
        finally:
            self._timers.put_back(self._under_way)
        self._tell()
        return has_more

    def _by_topic(self, entries: list[TimerEntry], now: int) -> dict[str, list[tuple[TimerEntry, EscapedMessage]]]:
        topics: dict[str, list[tuple[TimerEntry, EscapedMessage]]] = {}
        for entry in entries:
            message = self._timers.escaped_message(entry, now)
            if message is None:
                self._taken(entry, None)
            elif message.record.topic == self._revive_log.topic:
                self._hear(entry, message)
            else:
                topics.setdefault(message.record.topic, []).append((entry, message))
        return topics

    def _hear(self, entry: TimerEntry, message: EscapedMessage) -> None:
        """Of what was popped, what is not acked in time goes the way of all popped messages."""
        record = message.record
        tag = decode_properties(record.properties).get(Property.TAGS, "")
        if self._revive_log.apply_timer_entry(tag, record.body, message.queue_offset):
            self._taken(entry, record.topic)
        else:
            self._nobody_takes(entry)

    async def _give_all(self, messages: list[tuple[TimerEntry, EscapedMessage]]) -> None:
        """Messages of one topic; if nobody is there for the first one, nobody is for the others."""
        (first, *others) = messages
        if await self._give(*first):
            await asyncio.gather(*(self._give(*one) for one in others))
        else:
            for entry, _ in others:
                self._nobody_takes(entry)

    async def _give(self, entry: TimerEntry, message: EscapedMessage) -> bool:
        """Have a master store a message; whether there is one."""
        try:
            await self._escape.put(message.record, message.key)
        except RocketMQError as e:
            self._failure = e
            self._nobody_takes(entry)
            return isinstance(e, BrokerError)  # it may take others
        self._taken(entry, message.record.topic)
        return True

    def _taken(self, entry: TimerEntry, topic: str | None) -> None:
        self._under_way.discard(entry)
        self._timers.mark_taken(entry, topic, self._clock())

    def _nobody_takes(self, entry: TimerEntry) -> None:
        self._under_way.discard(entry)
        self._timers.mark_untaken(entry, self._clock() + _AGAIN_MS)

    def _tell(self) -> None:
        """Say once when messages begin to wait, and when none waits any more."""
        failure, self._failure = self._failure, None
        if failure is not None and not self._is_failing:
            self._is_failing = True
            _log.warning("timed messages wait, no other master takes them: %s", failure)
        elif self._is_failing and not self._timers.untaken():
            self._is_failing = False
            _log.warning("other masters take all timed messages again")
