"""The queues of a running stream and their latest offsets, cached for the intervals that the options set.

Cached offsets are valid, since the messages below them exist. Queues of a broker that does not respond are left out, so
the query does not advance in them. A queue counts as deleted if its broker is registered and no longer has it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import TypeVar

from rocketmq_py.arrow.options.offsets import Offsets
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.remoting.broker_origin import BrokerOrigin
from rocketmq_py.arrow.remoting.parallel import at_once
from rocketmq_py.arrow.remoting.queues import QueueRoutes
from rocketmq_py.errors import RocketMQError, TopicNotExist
from rocketmq_py.model import MessageQueue

_log = logging.getLogger(__name__)

T = TypeVar("T")


class StreamEnds:
    """The queues of one stream and their latest offsets. Not thread-safe."""

    def __init__(self, cluster: BrokerOrigin, options: ReadOptions) -> None:
        self.cluster = cluster
        self._selection = options.selection
        self._interval = options.offset_lookup_interval_ms / 1000
        self._route_interval = options.poll_name_server_interval_ms / 1000
        self._known: Offsets = {}
        self._known_at = float("-inf")
        self._from_slaves: frozenset[MessageQueue] = frozenset()
        self._queues: QueueRoutes | None = None
        self._queues_at = float("-inf")
        self._brokers: set[str] | None = None
        self._resumed = False

    def queues(self) -> QueueRoutes:
        """Return the selected queues that exist, looked up again after ``pollNameServerIntervalMs``.

        If a later lookup fails, that is logged and the previous queues are returned.

        :raises RocketMQError: on the first call: no name server responds, or a topic does not exist.
        """
        now = time.monotonic()
        if now - self._queues_at >= self._route_interval or self._queues is None:
            try:
                self._queues = self.cluster.selected(self._selection, missing=self._resumed or self._queues is not None)
                self._queues_at, self._brokers = now, None
            except RocketMQError as e:
                if self._queues is None:
                    raise
                _log.warning("the queues cannot be looked up, going on with the known ones: %s", e)
        return self._queues

    def look_again(self) -> None:
        """Make the next :meth:`queues` look the queues up instead of using the cache."""
        self._queues_at = float("-inf")

    def resume(self) -> None:
        """Let :meth:`queues` leave out missing topics instead of failing: call it if the query has a checkpoint.

        The planner then reports the missing queues as a loss.
        """
        self._resumed = True

    def gone(self, known: Collection[MessageQueue]) -> set[MessageQueue]:
        """Return the queues among ``known`` that were deleted: their broker is registered and does not have them.

        A broker registers itself and its topics in one request, so a route lookup counts only if the broker was
        registered before and after it: the name server may have been restarted.
        """
        missing = set(known) - self.queues().addresses.keys()
        if not missing:
            return missing
        if self._brokers is None:
            try:
                before = self.cluster.brokers()
                self._queues = self.cluster.selected(self._selection, missing=True)
                self._brokers = before & self.cluster.brokers()
            except RocketMQError as e:
                _log.warning("it is not known whether %s is gone or its broker is away: %s", min(missing), e)
                return set()
            missing -= self._queues.addresses.keys()
        return {queue for queue in missing if queue.broker_name in self._brokers}

    def latest(self, first: Offsets) -> Offsets:
        """Return the latest offsets, cached for ``offsetLookupIntervalMs``; brokers that do not respond are left out.

        :param first: start offsets of the micro-batch: a lower offset from a slave, which may lag, is raised to them.
        """
        now = time.monotonic()
        if now - self._known_at >= self._interval:
            answers = self._ask(self.cluster.ends)
            self._known = {queue: end for ends in answers for queue, end in ends.offsets.items()}
            self._from_slaves = frozenset(queue for ends in answers for queue in ends.from_slaves)
            self._known_at = now
        if not self._from_slaves:
            return self._known
        return {
            queue: max(end, first.get(queue, 0)) if queue in self._from_slaves else end
            for queue, end in self._known.items()
        }

    def latest_of_all(self) -> Offsets:
        """Ask the brokers for the latest offset of every queue, without the cache.

        :raises RocketMQError: a broker does not respond.
        """
        offsets, from_slaves = self.cluster.ends(self.queues())
        for name in sorted({queue.broker_name for queue in from_slaves}):
            _log.warning("no master of %s answers: the run ends at the latest offsets of its slave", name)
        return offsets

    def ask(self, question: Callable[[QueueRoutes], Offsets]) -> Offsets:
        """Call ``question``, a method of the cluster, for the queues of each broker; return the combined offsets.

        Queues of brokers that do not respond are left out, with a warning.
        """
        return {queue: offset for offsets in self._ask(question) for queue, offset in offsets.items()}

    def _ask(self, question: Callable[[QueueRoutes], T]) -> list[T]:
        """Call ``question`` for each broker at the same time; return the results, except of brokers that fail."""

        def of_broker(queues: QueueRoutes) -> T | None:
            try:
                return question(queues)
            except RocketMQError as e:
                if not (e.retryable or isinstance(e, TopicNotExist)):
                    raise
                self.look_again()
                _log.warning("a broker does not answer, its queues wait: %s", e)
                return None

        return [answer for answer in at_once(of_broker, self.queues().by_broker()) if answer is not None]
