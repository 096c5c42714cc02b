"""Filter hooks: application code that drops pulled or popped messages before they are delivered."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from rocketmq_py.model import MessageExt, MessageQueue

_log = logging.getLogger(__name__)


class FilterMessageHook:
    """Base class of filter hooks (Java: FilterMessageHook). Override :meth:`filter`.

    It is called in the event loop of the consumer and must not block.
    """

    def filter(self, group: str, queue: MessageQueue, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:  # noqa: ARG002
        """Return the messages to deliver; the others count as consumed.

        :param group: the consumer group.
        :param queue: the queue that was pulled or popped.
        :param messages: the messages of one pull or pop, in offset order.
        """
        return messages


class ArrivalTimes(FilterMessageHook):
    """Sets when messages arrived, and drops none."""

    def filter(self, group: str, queue: MessageQueue, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        """Set the time of all messages."""
        del group, queue
        now = time.monotonic()
        for message in messages:
            message.arrived = now
        return messages


def filter_messages(
    hooks: Sequence[FilterMessageHook], group: str, queue: MessageQueue, messages: list[MessageExt]
) -> list[MessageExt]:
    """Return the messages that all hooks keep, in the same order.

    An exception of a hook is logged; that hook then drops no message.
    """
    for hook in hooks:
        if not messages:
            break
        try:
            kept = set(hook.filter(group, queue, messages))
        except Exception:  # noqa: BLE001 - a fault of a hook must not lose messages
            _log.exception("hook %r failed to filter %d messages of %s", hook, len(messages), queue)
            continue
        messages = [message for message in messages if message in kept]
    return messages
