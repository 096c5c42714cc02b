"""What becomes of messages once a listener has seen them.

Decisions of the concurrent consumer (ConsumeMessageConcurrentlyService); carrying them out is the consumer's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rocketmq_py.model import ConsumeResult, Message, MessageExt
from rocketmq_py.properties import Property
from rocketmq_py.protocol.names import retry_topic

ACK_ALL = 2**31 - 1
"""The ``ack_index`` of a listener that does not set it: all messages of a successful batch are done."""
DEFAULT_MAX_RECONSUME = 16
"""Retries before a message goes to the dead letters when the consumer does not say (``max_reconsume_times=-1``)."""
FIRST_RETRY_LEVEL = 3
"""Delay level of a first retry, 10 s; each further retry is one level longer."""
RESUBMIT_DELAY = 5.0
"""Seconds until a message that could not be sent back is consumed again locally."""
EXPIRED_DELAY_LEVEL = 3
"""Delay level of a message whose listener has taken longer than the consume timeout."""

MOST_EXPIRED = 16
"""The most such messages of a queue that are sent back in one pass."""


class SplitBatch(NamedTuple):
    """``done`` messages need nothing more; ``failed`` ones are to be delivered again."""

    done: Sequence[MessageExt]
    failed: Sequence[MessageExt]


def split_batch(result: ConsumeResult, messages: Sequence[MessageExt], ack_index: int = ACK_ALL) -> SplitBatch:
    """Splits a consumed batch.

    :param ack_index: index of the last message that is done, when the batch as a whole succeeded; -1 for none.
    """
    done = max(0, min(ack_index + 1, len(messages))) if result is ConsumeResult.SUCCESS else 0
    return SplitBatch(messages[:done], messages[done:])


def read_result(returned: object) -> ConsumeResult | None:
    """What a listener's return value means; None when it means nothing.

    A listener that returns nothing has succeeded, as Python users expect of a function that did not raise.
    """
    if returned is None:
        return ConsumeResult.SUCCESS
    return returned if isinstance(returned, ConsumeResult) else None


def max_reconsume_times(configured: int) -> int:
    """The retries a message gets, -1 standing for the default."""
    return DEFAULT_MAX_RECONSUME if configured == -1 else configured


def retry_message(message: MessageExt, group: str, max_times: int) -> Message:
    """The message to send to the group's retry topic when the broker could not be asked to put the original there.

    It carries what the broker would have written, so further retries and the dead-letter rule go on counting.
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
