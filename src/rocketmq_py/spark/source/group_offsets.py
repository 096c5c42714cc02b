"""Commit the offsets of a stream to a consumer group after Spark has committed them to its checkpoint.

A restarted query continues from the checkpoint; the group's offsets only let tools show its progress. If a broker
refuses offsets, that is logged and the next micro-batch tries again; the query does not fail.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rocketmq_py.arrow.options.offsets import Offsets
from rocketmq_py.arrow.remoting.cluster import Cluster
from rocketmq_py.arrow.remoting.queues import QueueRoutes
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.names import retry_topic

_log = logging.getLogger(__name__)


class GroupFollower:
    """Commits the offsets of one query to consumer group ``group``.

    :param cluster: returns the client of the cluster.
    :param queues: returns the queues of the query and the addresses of their brokers.
    """

    def __init__(self, group: str, cluster: Callable[[], Cluster], queues: Callable[[], QueueRoutes]) -> None:
        self._group = group
        self._cluster = cluster
        self._queues = queues
        self._committed: Offsets = {}
        self._is_shown = False

    def compare(self, checkpoint: Offsets) -> None:
        """Log a warning if the committed offsets of the group differ from the offsets of the checkpoint."""
        try:
            queues = self._queues()
            committed = self._cluster().committed(self._group, queues)
        except RocketMQError as e:
            _log.warning(
                "the offsets of group %s are not known, the query continues from its checkpoint: %s", self._group, e
            )
            return
        differs = [
            queue for queue in sorted(checkpoint) if queue in committed and committed[queue] != checkpoint[queue]
        ]
        if differs:
            one = differs[0]
            _log.warning(
                "group %s has offset %d of %s, the checkpoint %d (%d of %d queues differ): the query goes on"
                " from its checkpoint, and the group will follow it",
                self._group, committed[one], one, checkpoint[one], len(differs), len(checkpoint),
            )  # fmt: skip

    def done(self, offsets: Offsets) -> None:
        """Commit those of ``offsets`` that changed since the last call; errors of brokers are logged, not raised."""
        moved = {queue: offset for queue, offset in offsets.items() if self._committed.get(queue) != offset}
        if not moved:
            return
        try:
            known = self._queues()
            for queues in known.only(moved).by_broker():
                ours = {queue: moved[queue] for queue in queues.addresses}
                self._cluster().commit(self._group, ours, queues)
                self._committed.update(ours)
        except RocketMQError as e:
            _log.warning("group %s stays behind for now, its offsets were refused: %s", self._group, e)
            return
        if not self._is_shown:
            self._show(known)

    def _show(self, queues: QueueRoutes) -> None:
        self._is_shown = True
        try:
            self._cluster().show(self._group, queues)
        except RocketMQError as e:
            _log.warning(
                "mqadmin and dashboards do not find group %s until a consumer joins it or topic %s is made, which was"
                " refused: %s", self._group, retry_topic(self._group), e,
            )  # fmt: skip
