"""Fetches popped messages from other brokers when their invisible time is over, so that they are revived here.

A check-point names the broker that has the messages. The revive log contains check-points of other brokers, because a
Java slave that acts as master writes them to the log of another master. Each of those brokers is asked independently.
"""

from __future__ import annotations

import logging
from collections import deque

from rocketmq_py.broker.cluster.escape_bridge import EscapeBridge
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.pop.revive import RetryMessages, Reviver
from rocketmq_py.broker.pop.revive_log import ReviveLog
from rocketmq_py.core.pop.inflight import InflightPop, has_no_retries_left
from rocketmq_py.errors import NetworkError, RocketMQError, StoreError
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)


class RemoteFetcher:
    """Fetches the messages of pops from the brokers that their check-points name, and revives them here."""

    def __init__(
        self,
        config: BrokerConfig,
        escape: EscapeBridge,
        revive_log: ReviveLog,
        retry_messages: RetryMessages,
        reviver: Reviver,
    ) -> None:
        self._config = config
        self._escape = escape
        self._revive_log = revive_log
        self._retry_messages = retry_messages
        self._reviver = reviver
        self._waiting: dict[str, deque[InflightPop]] = {}
        self._work = Background()
        self._failing: set[str] = set()

    async def stop(self) -> None:
        """Stop all fetches; the pops are revived after the next start. Does nothing if stopped already."""
        await self._work.stop()

    def fetch(self, one: InflightPop) -> None:
        """Start to fetch the messages of a pop and revive them."""
        name = one.check_point.broker_name
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.append(one)
            return
        self._waiting[name] = deque([one])
        self._work.start(self._run(name))

    async def _run(self, name: str) -> None:
        """Fetch the waiting pops of broker ``name`` one after the other; postpone all if it cannot be reached."""
        waiting = self._waiting[name]
        try:
            while waiting:
                failure = await self._bring_back(waiting[0])
                waiting.popleft()
                while waiting and isinstance(failure, NetworkError):
                    self.try_again(waiting.popleft(), failure)
        finally:
            del self._waiting[name]
            for one in waiting:
                self._reviver.postpone(one)

    async def _bring_back(self, one: InflightPop) -> RocketMQError | None:
        """Revive the messages of a pop that can be fetched; return the error of the others, None if there are none."""
        found, failure = await self.read(one)
        if not self._reviver.is_wanted(one):
            return failure
        offsets = [offset for offset in one.left if offset in found]
        is_stored = not offsets or self._reviver.bring_back(one, offsets, found.__getitem__)
        if failure is not None and is_stored:
            self.try_again(one, failure)
        return failure

    async def read(self, one: InflightPop) -> tuple[dict[int, bytes | None], RocketMQError | None]:
        """Read the messages of a pop that are still in flight from the broker that stores them.

        :returns: the records by queue offset, None for a deleted one; and the error of those that could not be read.
        """
        ck, found = one.check_point, dict[int, bytes | None]()
        if ck.broker_name == self._config.broker_name:
            return {offset: self._retry_messages.stored_here(ck, offset) for offset in one.left}, None
        try:
            for offset in one.left:
                found[offset] = await self._escape.get(ck.broker_name, ck.topic, ck.queue_id, offset)
        except RocketMQError as e:
            return found, e
        if ck.broker_name in self._failing:
            self._failing.discard(ck.broker_name)
            _log.warning("popped messages of broker %s can be fetched again", ck.broker_name)
        return found, None

    def try_again(self, one: InflightPop, why: RocketMQError) -> None:
        """Postpone a pop with an increasing delay; drop it after the last try if ``skipWhenCKRePutReachMaxTimes``."""
        log, ck = self._revive_log, one.check_point
        if log.inflight.find(ck.key) is not one:
            return
        if ck.broker_name not in self._failing:  # log once, not for every pop
            self._failing.add(ck.broker_name)
            _log.warning("popped messages of broker %s cannot be fetched, trying again: %s", ck.broker_name, why)
        if self._config.skip_when_ck_re_put_reach_max_times and has_no_retries_left(ck):
            _log.error("giving up %d messages of topic %s popped by group %s at broker %s after %d tries: %s",
                       len(one.left), ck.topic, ck.group, ck.broker_name, ck.tries, why)  # fmt: skip
            log.inflight.finish(ck.key)
            return
        try:
            log.try_again(one)
        except StoreError:
            self._reviver.postpone(one)
