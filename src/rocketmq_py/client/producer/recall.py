"""Recalls timed messages before they are delivered."""

from __future__ import annotations

import time

from rocketmq_py.client.send.sender import Sender
from rocketmq_py.errors import BrokerError, ConfigError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.send import RecallMessage, RecallMessageResponse
from rocketmq_py.protocol.names import is_retry_topic, topic_fault
from rocketmq_py.protocol.recall_handle import RecallHandle


async def recall(sender: Sender, group: str, topic: str, text: str, timeout: float) -> str:
    """Send a recall to the broker that the recall handle names; returns the unique key of the message.

    :param text: the recall handle of the send result.
    :param timeout: seconds for route, connection and answer together.
    :raises ConfigError: illegal topic or recall handle. Other errors as of :meth:`rocketmq_py.aio.Producer.recall`.
    """
    fault = topic_fault(topic) or ("its messages cannot be recalled" if is_retry_topic(topic) else None)
    if fault:
        raise ConfigError(f"topic {topic!r}: {fault}")
    if not isinstance(text, str):  # a send without a delivery time has the recall handle None
        raise ConfigError(f"recall handle is {text!r}: only a message with a delivery time has one")
    handle = RecallHandle.decode(text)
    deadline = time.monotonic() + timeout
    connection = await sender.broker(topic, handle.broker_name, timeout)
    header = RecallMessage(producer_group=group, topic=topic, recall_handle=text)
    reply = await connection.call(RequestCode.RECALL_MESSAGE, header, b"", max(0.0, deadline - time.monotonic()))
    if reply.code != ResponseCode.SUCCESS:
        raise BrokerError.of(reply.code, reply.remark, handle.broker_name)
    answer: RecallMessageResponse = reply.header(RecallMessageResponse)
    return answer.msg_id
