"""A slave that acts as master sends timed messages to masters of other names when they are due (escape)."""

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
_RETRY_MS = 1_000


class TimerEscape:
    """Sends due timed messages to other masters; a topic that no master accepts does not delay other topics.

    A message that no master accepts is sent again every second; a Java slave tries three times and drops it.

    :param revive_log: receives the check-points and acks that a Java master stored in its timer.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self, timers: SlaveTimers, escape: EscapeBridge, revive_log: SlaveReviveLog, clock: Callable[[], int]
    ) -> None:
        self._timers = timers
        self._escape = escape
        self._revive_log = revive_log
        self._clock = clock
        self._retry_at_ms = 0
        self._under_way: set[TimerEntry] = set()
        self._failure: RocketMQError | None = None
        self._is_failing = False

    async def run(self) -> None:
        """Act as master for timed messages: send due ones until the task is cancelled."""
        self._timers.start_acting()
        self._retry_at_ms = 0
        try:
            while True:
                if not await self.send_due(self._clock()):
                    await asyncio.sleep(_TICK_SECONDS)
        finally:
            self._timers.stop_acting()

    async def send_due(self, now: int) -> bool:
        """Send up to 64 due messages, and once a second those not accepted before; return True if more may be due.

        :param now: milliseconds since the epoch.
        """
        entries = self._timers.due(now, _AT_ONCE)
        has_more = len(entries) == _AT_ONCE
        if now >= self._retry_at_ms:
            self._retry_at_ms = now + _RETRY_MS
            entries += self._timers.untaken()
        self._under_way = set(entries)
        try:
            topics = self._by_topic(entries, now)
            await asyncio.gather(*(self._send_topic(messages) for messages in topics.values()))
        finally:
            self._timers.put_back(self._under_way)
        self._log_failure()
        return has_more

    def _by_topic(self, entries: list[TimerEntry], now: int) -> dict[str, list[tuple[TimerEntry, EscapedMessage]]]:
        topics: dict[str, list[tuple[TimerEntry, EscapedMessage]]] = {}
        for entry in entries:
            message = self._timers.escaped_message(entry, now)
            if message is None:
                self._mark_taken(entry, None)
            elif message.record.topic == self._revive_log.topic:
                self._apply_revive_entry(entry, message)
            else:
                topics.setdefault(message.record.topic, []).append((entry, message))
        return topics

    def _apply_revive_entry(self, entry: TimerEntry, message: EscapedMessage) -> None:
        """Apply a due check-point or ack, which a Java master had stored in its timer, to the pops of this slave.

        Neither is sent to another master. A check-point stays due until its messages are acked or revived.
        """
        record = message.record
        tag = decode_properties(record.properties).get(Property.TAGS, "")
        if self._revive_log.apply_timer_entry(tag, record.body, message.queue_offset):
            self._mark_taken(entry, record.topic)
        else:
            self._mark_untaken(entry)

    async def _send_topic(self, messages: list[tuple[TimerEntry, EscapedMessage]]) -> None:
        """Send the messages of one topic; if no master has the topic for the first one, the others are not tried."""
        (first, *others) = messages
        if await self._send(*first):
            await asyncio.gather(*(self._send(*one) for one in others))
        else:
            for entry, _ in others:
                self._mark_untaken(entry)

    async def _send(self, entry: TimerEntry, message: EscapedMessage) -> bool:
        """Send a message to another master; return False if no other message of its topic should be tried now."""
        try:
            await self._escape.put(message.record, message.key)
        except RocketMQError as e:
            self._failure = e
            self._mark_untaken(entry)
            return isinstance(e, BrokerError)  # another message may be accepted
        self._mark_taken(entry, message.record.topic)
        return True

    def _mark_taken(self, entry: TimerEntry, topic: str | None) -> None:
        self._under_way.discard(entry)
        self._timers.mark_taken(entry, topic, self._clock())

    def _mark_untaken(self, entry: TimerEntry) -> None:
        self._under_way.discard(entry)
        self._timers.mark_untaken(entry, self._clock() + _RETRY_MS)

    def _log_failure(self) -> None:
        """Log once when messages begin to wait, and once when none waits any more."""
        failure, self._failure = self._failure, None
        if failure is not None and not self._is_failing:
            self._is_failing = True
            _log.warning("timed messages wait, no other master accepts them: %s", failure)
        elif self._is_failing and not self._timers.untaken():
            self._is_failing = False
            _log.warning("other masters accept all timed messages again")
