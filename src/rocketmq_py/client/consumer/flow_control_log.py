"""Logs flow control: when a queue is not pulled because too many of its messages are cached, and when it is again."""

from __future__ import annotations

import logging

from rocketmq_py.core.consumer.flow_control import MEBIBYTE, FlowLimits, PullDecision
from rocketmq_py.core.consumer.process_queue import ProcessQueue

_log = logging.getLogger(__name__)

NOTICE_AFTER = 1.0
"""Seconds after which a pause by flow control is logged; shorter ones are normal while listeners are busy."""
LOG_INTERVAL = 60.0
"""Seconds between log lines about the same pause."""
REASONS = frozenset({"count", "size", "span"})
"""The values of ``PullDecision.reason`` that mean flow control: too many messages, bytes or offsets."""


class FlowControlLog:
    """Logs that flow control has paused one queue: after more than a second, then once a minute, and at the end.

    :param group: the consumer group.
    :param level: the level of the log lines.
    """

    __slots__ = ("_group", "_level", "_log_at", "_process", "_since", "_was_logged")

    def __init__(self, group: str, process: ProcessQueue, level: int = logging.WARNING) -> None:
        self._group = group
        self._process = process
        self._level = level
        self._since: float | None = None
        self._log_at = 0.0
        self._was_logged = False

    def waits(self, decision: PullDecision, limits: FlowLimits, now: float) -> None:
        """Record that the queue is not pulled now, and log a pause by flow control.

        :param decision: why it is not pulled. A reason other than flow control ends the pause that is logged.
        :param limits: the flow control limits of the queue. :param now: current time in monotonic seconds.
        """
        if decision.reason not in REASONS:
            self.pulls(now)
            return
        if self._since is None:
            self._since, self._log_at = now, now + NOTICE_AFTER
        if now < self._log_at:
            return
        self._log_at, self._was_logged = now + LOG_INTERVAL, True
        held = self._process
        limit = {
            "count": f"{limits.count} messages",
            "size": f"{limits.mebibytes} MiB",
            "span": f"{limits.span} offsets",
        }
        _log.log(
            self._level,
            "flow control: group %s has not pulled %s for %.0f s: it holds %d messages (%.1f MiB, offsets %d to %d), "
            "the limit is %s. The listeners are slower than the messages come", self._group, held.queue,
            now - self._since, held.count, held.size / MEBIBYTE, held.min_offset, held.max_offset,
            limit[decision.reason],
        )  # fmt: skip

    def pulls(self, now: float) -> None:
        """Record that the queue is pulled; log the end of its pause if its begin was logged. ``now``: seconds."""
        if self._since is None:
            return
        if self._was_logged:
            _log.log(
                self._level, "flow control: group %s pulls %s again after %.0f s", self._group, self._process.queue,
                now - self._since,
            )  # fmt: skip
        self._since, self._was_logged = None, False
