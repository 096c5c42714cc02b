"""Remarks of refused requests, in the words of Apache RocketMQ, which clients print and people search for."""

from __future__ import annotations

from rocketmq_py.protocol.remarks import FAQ, NO_FILTER

TOPIC_MAX_LENGTH = 127
RETRY_TOPIC_MAX_LENGTH = 255


def message_illegal(max_message_size: int) -> str:
    """Remark for a message whose body or properties are too large, or whose body is empty."""
    return (
        "the message is illegal, maybe msg body or properties length not matched. "
        f"msg body length limit {max_message_size}B, msg properties length limit 32KB."
    )


NO_FILTER_DATA = "The broker's consumer filter data is not exist!Your expression may be wrong!"

TIMER_NOT_ENABLED = "accurate timer message is not enabled, timerWheelEnable is false"


def timer_congested(most: int) -> str:
    """Remark for a timed message whose time slot has the maximum number of messages, ``most``."""
    return (
        f"timer message is under flow control, max num limit is {2 * most} or the current value is greater than {most} "
        f"and less than {2 * most}, trigger random flow control"
    )


def timer_illegal(longest_ms: int) -> str:
    """Remark for an invalid delivery time: missing, more than ``longest_ms`` ahead, or that of a recall in the past."""
    return (
        f"timer message illegal, the delay time should not be bigger than the max delay {longest_ms}ms; or if set del "
        "msg, the delay time should be bigger than the current time"
    )


def sending_forbidden(broker_ip: str) -> str:
    """Remark for a send to a broker without write permission."""
    return f"the broker[{broker_ip}] sending message is forbidden"


def transactions_forbidden(broker_ip: str) -> str:
    """Remark for a transactional message while ``rejectTransactionMessage`` is on."""
    return f"the broker[{broker_ip}] sending transaction message is forbidden"


TOO_FEW_REPLICAS = "in-sync replicas not enough"
"""Remark for a send while fewer replicas are in sync than a message needs."""

PREPARED_BY_HALF = "the message is illegal: its sysFlag says that it is of a transaction, its properties lack TRAN_MSG"


def no_topic_to_send(topic: str) -> str:
    """Remark for a send to a topic that does not exist and may not be created."""
    return f"topic[{topic}] not exist, apply first please!{FAQ}"


def no_topic(topic: str) -> str:
    """Remark for a pull from a topic that does not exist."""
    return f"topic[{topic}] not exist, apply first please! {FAQ}"


def no_filter(expression_type: str) -> str:
    """Remark for a subscription with an SQL expression while ``enablePropertyFilter`` is off."""
    return f"The broker {NO_FILTER} {expression_type}"


def no_group(group: str) -> str:
    """Remark for a consumer group that does not exist and may not be created."""
    return f"subscription group not exist, {group} {FAQ}"


def no_subscription_group(group: str) -> str:
    """Remark for a pop by a consumer group that does not exist and may not be created."""
    return f"subscription group [{group}] does not exist, {FAQ}"
