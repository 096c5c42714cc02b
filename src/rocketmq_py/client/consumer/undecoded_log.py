"""Tells of messages that are skipped because their bodies cannot be decoded."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rocketmq_py.model import MessageQueue
from rocketmq_py.wire.record import UndecodedRecord

_log = logging.getLogger(__name__)


def log_undecoded(group: str, queue: MessageQueue, records: Sequence[UndecodedRecord]) -> None:
    """Log the records of one response that group ``group`` skips: one line for all of them.

    :param queue: the queue that was asked; records of a POP may be from any queue of its broker.
    """
    if not records:
        return
    each = "; ".join(
        f"queue {message.queue_id} offset {message.queue_offset} (id {message.msg_id}): {error}"
        for message, error in records
    )
    _log.error(
        "group %s skips messages (%d) of topic %s at broker %s, which keeps them: their bodies cannot be decoded: %s",
        group, len(records), queue.topic, queue.broker_name, each,
    )  # fmt: skip
