"""Ranges of queues that a query reads, and what happens if messages are missing in them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import NamedTuple

from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageQueue

_log = logging.getLogger(__name__)


class DataLossError(RocketMQError):
    """Messages that a query with ``failOnDataLoss=true`` must read do not exist: deleted, or beyond a queue's end.

    :param losses: one sentence for each queue that lost messages; they make up the error's text.
    """

    def __init__(self, losses: Iterable[str]) -> None:
        self.losses = tuple(losses)
        super().__init__(
            "; ".join(self.losses)
            + ". To go on with what is still there, set failOnDataLoss=false; to keep messages longer, raise the"
            " broker's fileReservedTime"
        )

    def __reduce__(self) -> tuple[type[DataLossError], tuple[tuple[str, ...]]]:
        return type(self), (self.losses,)


class QueueRange(NamedTuple):
    """The offsets of one queue from ``start`` up to, not including, ``stop``."""

    queue: MessageQueue
    start: int
    stop: int

    @property
    def size(self) -> int:
        """The number of offsets in the range, 0 or more."""
        size = self.stop - self.start
        return size if size > 0 else 0  # noqa: FURB136 - planning asks ten times for each of thousands of queues


def report_losses(losses: Collection[str], fail_on_data_loss: bool) -> None:
    """Raise an error or log warnings for losses.

    :param losses: one sentence for each.
    :raises DataLossError: there are losses, and ``fail_on_data_loss`` is true.
    """
    if fail_on_data_loss and losses:
        raise DataLossError(losses)
    for loss in losses:
        _log.warning("%s; going on, since failOnDataLoss is false", loss)
