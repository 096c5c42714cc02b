"""Message properties: well-known names, and the text form in which they are stored."""

from __future__ import annotations

from collections.abc import Mapping


class Property:
    """Names of well-known message properties, as Apache RocketMQ's MessageConst has them."""

    KEYS = "KEYS"
    TAGS = "TAGS"
    WAIT_STORE = "WAIT"
    DELAY_LEVEL = "DELAY"
    RETRY_TOPIC = "RETRY_TOPIC"
    REAL_TOPIC = "REAL_TOPIC"
    REAL_QUEUE_ID = "REAL_QID"
    TRANSACTION_PREPARED = "TRAN_MSG"
    TRANSACTION_PREPARED_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
    TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
    CHECK_IMMUNITY_TIME = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    PRODUCER_GROUP = "PGROUP"
    MIN_OFFSET = "MIN_OFFSET"
    MAX_OFFSET = "MAX_OFFSET"
    ORIGIN_GROUP = "ORIGIN_GROUP"
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
    UNIQUE_KEY = "UNIQ_KEY"
    EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO"
    RECONSUME_TIME = "RECONSUME_TIME"
    MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
    CONSUME_START_TIME = "CONSUME_START_TIME"
    TRANSACTION_ID = "__transactionId__"
    SHARDING_KEY = "__SHARDINGKEY"
    MSG_REGION = "MSG_REGION"
    TRACE_SWITCH = "TRACE_ON"
    CLUSTER = "CLUSTER"
    INSTANCE_ID = "INSTANCE_ID"
    CORRELATION_ID = "CORRELATION_ID"
    MESSAGE_TYPE = "MSG_TYPE"
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
    MESSAGE_TTL = "TTL"
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
    REPLY_ARRIVE_TIME = "ARRIVE_TIME"
    DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
    DLQ_REASON = "DLQ_REASON"
    DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
    TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS = "TIMER_DELAY_MS"
    TIMER_OUT_MS = "TIMER_OUT_MS"
    TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
    TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
    TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
    INNER_NUM = "INNER_NUM"
    INNER_BASE = "INNER_BASE"
    PRIORITY = "_SYS_MSG_PRIORITY_"
    POP_CK = "POP_CK"
    FIRST_POP_TIME = "1ST_POP_TIME"
    CRC32 = "__CRC32#"


SPARK_QUERY_ID, SPARK_BATCH_ID, SPARK_ROW_KEY = "SPARK_QUERY_ID", "SPARK_BATCH_ID", "SPARK_ROW_KEY"
SPARK_ATTEMPT = "SPARK_ATTEMPT"
"""Properties with which the Spark sink identifies the rows that it sends; see ``arrow.row_properties``."""

SYSTEM_PROPERTIES = frozenset(
    value for name, value in vars(Property).items() if name.isupper() and isinstance(value, str)
) | {"1ST_POP_TIME", "POP_CK_OFFSET", "DUP_INFO", "TRAN_PREPARED_QUEUE_OFFSET", "__BORNHOST", "BORN_TIMESTAMP"}
"""Names of the properties that clients and brokers set; all others belong to the application."""


TOLD_BY_PRESENCE = frozenset({Property.SHARDING_KEY})
TOLD_BY_VALUE = SYSTEM_PROPERTIES - TOLD_BY_PRESENCE - {"BORN_TIMESTAMP", Property.CORRELATION_ID}
"""Names of the properties by which a broker decides how to store a message, or may: by their values, or by their
presence alone. The values of those left out differ in each message, and no broker looks at them then."""


def own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that the application set, without those that clients and brokers set."""
    return {name: value for name, value in properties.items() if name not in SYSTEM_PROPERTIES}


def decode_properties(raw: bytes) -> dict[str, str]:
    r"""Decode the stored form of properties: ``name \x01 value \x02 ...``.

    As in Java's MessageDecoder.string2messageProperties, the last separator may be missing; an entry without a name or
    without a value is dropped.
    """
    props: dict[str, str] = {}
    for entry in raw.decode("utf-8", "replace").split("\x02"):
        name, _, value = entry.partition("\x01")
        if name and value:
            props[name] = value
    return props


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode properties in their stored form, with a separator after the last one, as 5.x does."""
    return properties_text(properties).encode()


def properties_text(properties: Mapping[str, str]) -> str:
    """Return the stored form of properties as text."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
