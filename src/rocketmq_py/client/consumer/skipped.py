"""Logs and counts messages that a consumer skips because they cannot be decoded, and passes them to ``on_damaged``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import DamagedMessage, MessageQueue
from rocketmq_py.wire.record import UndecodedRecord

_log = logging.getLogger(__name__)


class SkippedMessages:
    """Records the messages that one consumer skips.

    :param on_damaged: called with each skipped message; its exceptions are logged.
    :ivar count: the number of messages skipped so far.
    """

    def __init__(self, group: str, on_damaged: Callable[[DamagedMessage], None] | None = None) -> None:
        self._group = group
        self._on_damaged = on_damaged
        self.count = 0

    def damaged(self, queue: MessageQueue, offset: int, error: RocketMQError) -> None:
        """Log and count a message that is skipped because every stored copy is damaged."""
        _log.warning(
            "group %s skips a damaged message: topic %s, broker %s, queue %d, offset %d: %s",
            self._group, queue.topic, queue.broker_name, queue.queue_id, offset, error,
        )  # fmt: skip
        self._note(queue, offset, error)

    def undecoded(self, queue: MessageQueue, records: Sequence[UndecodedRecord]) -> None:
        """Log and count the messages of one pull or pop that are skipped because their bodies cannot be decoded.

        :param queue: the queue of the request; popped messages may be from any queue of its broker.
        """
        if not records:
            return
        each = "; ".join(
            f"queue {message.queue_id} offset {message.queue_offset} (id {message.msg_id}): {error}"
            for message, error in records
        )
        _log.error(
            "group %s skips messages (%d) of topic %s at broker %s, which keeps them: their bodies cannot be decoded:"
            " %s", self._group, len(records), queue.topic, queue.broker_name, each,
        )  # fmt: skip
        for message, error in records:
            self._note(queue._replace(queue_id=message.queue_id), message.queue_offset, error)

    def _note(self, queue: MessageQueue, offset: int, error: RocketMQError) -> None:
        self.count += 1
        if self._on_damaged is None:
            return
        try:
            self._on_damaged(DamagedMessage(queue, offset, str(error)))
        except Exception:  # noqa: BLE001 - a fault of the callback must not end the consumption of a queue
            _log.exception("on_damaged failed for offset %d of %s", offset, queue)
