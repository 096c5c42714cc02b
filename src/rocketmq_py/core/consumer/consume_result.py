"""What follows from the result of a concurrent consumer's listener (ConsumeMessageConcurrentlyService)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rocketmq_py.model import ConsumeResult, Message, MessageExt, OrderlyResult
from rocketmq_py.properties import Property
from rocketmq_py.protocol.names import retry_topic

ACK_ALL = 2**31 - 1
"""The default ``ack_index``: all messages of a successful batch count as consumed."""
DEFAULT_MAX_RECONSUME = 16
"""Number of retries before a message becomes a dead letter, if the consumer's ``max_reconsume_times`` is -1."""
FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry, 10 s; each further retry is one level longer."""
RESUBMIT_DELAY = 5.0
"""Seconds until a failed message that could not be sent back to the broker is consumed again by the same client."""
EXPIRED_DELAY_LEVEL = 3
"""Delay level at which a message is sent back when its listener exceeds the consume timeout."""

MOST_EXPIRED = 16
"""Maximum number of messages of a queue that one pass sends back because of the consume timeout."""


class SplitBatch(NamedTuple):
    """The messages of a batch that are consumed (``done``), and those to deliver again (``failed``)."""

    done: Sequence[MessageExt]
    failed: Sequence[MessageExt]


def split_batch(result: ConsumeResult, messages: Sequence[MessageExt], ack_index: int = ACK_ALL) -> SplitBatch:
    """Split a batch into consumed and failed messages by the listener's result.

    :param ack_index: index of the last consumed message if the result is SUCCESS; -1 for none.
    """
    done = max(0, min(ack_index + 1, len(messages))) if result is ConsumeResult.SUCCESS else 0
    return SplitBatch(messages[:done], messages[done:])


def read_result(returned: object) -> ConsumeResult | None:
    """Convert the return value of a listener to a :class:`ConsumeResult`; return None for an illegal value.

    None and True mean success. An :class:`OrderlyResult` is converted, too.
    """
    if returned is None or returned is True:
        return ConsumeResult.SUCCESS
    if isinstance(returned, OrderlyResult):
        committed = returned in (OrderlyResult.SUCCESS, OrderlyResult.COMMIT)
        return ConsumeResult.SUCCESS if committed else ConsumeResult.RECONSUME_LATER
    return returned if isinstance(returned, ConsumeResult) else None


def max_reconsume_times(configured: int) -> int:
    """Return the number of retries for the option ``max_reconsume_times``, in which -1 means the default."""
    return DEFAULT_MAX_RECONSUME if configured == -1 else configured


def retry_message(message: MessageExt, group: str, max_times: int) -> Message:
    """Build the message that a client sends to the group's retry topic, when CONSUMER_SEND_MSG_BACK has failed.

    It has the properties that the broker would have set, so that later retries are counted correctly.

    :param max_times: number of retries before the message becomes a dead letter.
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
