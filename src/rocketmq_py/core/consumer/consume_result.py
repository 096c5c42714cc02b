"""Results of the concurrent consumer's listeners (ConsumeMessageConcurrentlyService)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rocketmq_py.model import ConsumeResult, Message, MessageExt, OrderlyResult
from rocketmq_py.properties import Property
from rocketmq_py.protocol.names import retry_topic

ACK_ALL = 2**31 - 1
"""The default ``ack_index``: all messages of a successful batch are consumed."""
DEFAULT_MAX_RECONSUME = 16
"""Retries before a message becomes a dead letter if the consumer sets no limit (``max_reconsume_times=-1``)."""
FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry, 10 s; each further retry is one level longer."""
RESUBMIT_DELAY = 5.0
"""Seconds until a message that could not be sent back is consumed again locally."""
EXPIRED_DELAY_LEVEL = 3
"""Delay level of a message whose listener exceeded the consume timeout."""

MOST_EXPIRED = 16
"""The most such messages of a queue that are sent back in one pass."""


class SplitBatch(NamedTuple):
    """``done`` messages are consumed; ``failed`` ones are to be delivered again."""

    done: Sequence[MessageExt]
    failed: Sequence[MessageExt]


def split_batch(result: ConsumeResult, messages: Sequence[MessageExt], ack_index: int = ACK_ALL) -> SplitBatch:
    """Split a consumed batch by its result.

    :param ack_index: index of the last consumed message of a successful batch; -1 for none.
    """
    done = max(0, min(ack_index + 1, len(messages))) if result is ConsumeResult.SUCCESS else 0
    return SplitBatch(messages[:done], messages[done:])


def read_result(returned: object) -> ConsumeResult | None:
    """The meaning of a listener's return value; None for an illegal one.

    None and True are a success. The results of orderly listeners are accepted, too.
    """
    if returned is None or returned is True:
        return ConsumeResult.SUCCESS
    if isinstance(returned, OrderlyResult):
        committed = returned in (OrderlyResult.SUCCESS, OrderlyResult.COMMIT)
        return ConsumeResult.SUCCESS if committed else ConsumeResult.RECONSUME_LATER
    return returned if isinstance(returned, ConsumeResult) else None


def max_reconsume_times(configured: int) -> int:
    """Return the number of retries; -1 stands for the default."""
    return DEFAULT_MAX_RECONSUME if configured == -1 else configured


def retry_message(message: MessageExt, group: str, max_times: int) -> Message:
    """Return the message for the group's retry topic, for when the broker could not be asked to store the original
    there.

    Its properties are those the broker would write, so that later retries and the dead-letter rule count correctly.
    """
    times = message.reconsume_times
    properties = {
        **message.properties,
        Property.RETRY_TOPIC: message.topic,
        Property.ORIGIN_MESSAGE_ID: message.properties.get(Property.ORIGIN_MESSAGE_ID) or message.msg_id,
        Property.RECONSUME_TIME: str(times + 1),
        Property.MAX_RECONSUME_TIMES: str(max_times),
    }
    for local in (Property.TRANSACTION_PREPARED, Property.MIN_OFFSET, Property.MAX_OFFSET, Property.POP_CK):
        properties.pop(local, None)
    return Message(
        retry_topic(group), message.body, flag=message.flag, delay_level=FIRST_RETRY_LEVEL + times,
        wait_store_ok=properties.get(Property.WAIT_STORE) != "false", properties=properties,
    )  # fmt: skip
