"""Popped messages that lie at another broker: fetched when their time is up, so that they come back here.

Notes of pops tell which broker has the messages. In the revive log of this one there are some of others: a Java slave
that acts for its master writes what it notes into the log of another master. Knows that each broker is asked by
itself, and what becomes of a pop whose messages cannot be had. Refuses to know how a message is asked for (``escape``)
and how it comes back (``reviving``).
"""

from __future__ import annotations

import logging
from collections import deque

from rocketmq_py.broker.acting.escape_bridge import EscapeBridge
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.pop.services import PopServices
from rocketmq_py.core.pop.inflight import InflightPop, has_no_retries_left
from rocketmq_py.errors import NetworkError, RocketMQError, StoreError
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)


class RemoteFetcher:
    """Fetches messages of pops that name other brokers."""

    def __init__(self, config: BrokerConfig, escape: EscapeBridge, pop: PopServices) -> None:
        self._config = config
        self._escape = escape
        self._pop = pop
        self._waiting: dict[str, deque[InflightPop]] = {}
        self._work = Background()
        self._failing: set[str] = set()

    async def stop(self) -> None:
        """End; what is under way is tried again after the next start. Harmless when ended already."""
        await self._work.stop()

    def take(self, one: InflightPop) -> None:
        """Bring back a pop whose messages are at another broker, soon."""
        name = one.check_point.broker_name
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.append(one)
            return
        self._waiting[name] = deque([one])
        self._work.start(self._run(name))

    async def _run(self, name: str) -> None:
        """One pop after the other; when a broker cannot be reached all that wait for it are tried again later."""
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
                self._pop.reviver.postpone(one)

    async def _bring_back(self, one: InflightPop) -> RocketMQError | None:
        """Have what can be had of a pop stored here; what was against the rest."""
        found, failure = await self.read(one)
        reviver = self._pop.reviver
        if not reviver.is_wanted(one):
            return failure
        offsets = [offset for offset in one.left if offset in found]
        is_stored = not offsets or reviver.bring_back(one, offsets, found.__getitem__)
        if failure is not None and is_stored:
            self.try_again(one, failure)
        return failure

    async def read(self, one: InflightPop) -> tuple[dict[int, bytes | None], RocketMQError | None]:
        """Messages of a pop that are still out, by offset, from whoever has them; None for one that is gone.

        And what was against it when not all of them could be had.
        """
        ck, found = one.check_point, dict[int, bytes | None]()
        if ck.broker_name == self._config.broker_name:
            return {offset: self._pop.reviver.stored_here(ck, offset) for offset in one.left}, None
        try:
            for offset in one.left:
                found[offset] = await self._escape.get(ck.broker_name, ck.topic, ck.queue_id, offset)
        except RocketMQError as e:
            return found, e
        if ck.broker_name in self._failing:
            self._failing.discard(ck.broker_name)
            _log.warning("popped messages of broker %s can be had again", ck.broker_name)
        return found, None

    def try_again(self, one: InflightPop, why: RocketMQError) -> None:
        """Let what is left of a pop wait, the longer the more often that was so; or give it up, if that is wanted."""
        log, ck = self._pop.log, one.check_point
        if log.ledger.find(ck.key) is not one:
            return
        if ck.broker_name not in self._failing:  # once, and not for every pop
            self._failing.add(ck.broker_name)
            _log.warning("popped messages of broker %s cannot be had and are tried again: %s", ck.broker_name, why)
        if self._config.skip_when_ck_re_put_reach_max_times and has_no_retries_left(ck):
            _log.error("%d messages of topic %s popped by group %s at broker %s are given up after %d tries: %s",
                       len(one.left), ck.topic, ck.group, ck.broker_name, ck.tries, why)  # fmt: skip
            log.ledger.finish(ck.key)
            return
        try:
            log.try_again(one)
        except StoreError:
            self._pop.reviver.postpone(one)
